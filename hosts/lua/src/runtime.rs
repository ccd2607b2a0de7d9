//! The Lua runtime of a process: the scripts, the pool of their states, and what watches over them.

use crate::LuaSettings;
use crate::application::Style;
use crate::host::LuaHost;
use crate::script_path::{ScriptMap, ScriptSource};
use crate::vm::{Failure, State, Watchdog};
use oribi_host::{Host, Runtime};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Lua scripts that answer requests.
pub struct LuaRuntime {
    shared: Arc<Shared>,
}

/// What the lanes of a process share.
pub(crate) struct Shared {
    pub(crate) settings: LuaSettings,
    pub(crate) scripts: ScriptMap,
    pub(crate) watchdog: Option<Arc<Watchdog>>,
    idle: Mutex<HashMap<PathBuf, Vec<State>>>,
}

impl LuaRuntime {
    /// A runtime for the scripts that the settings' source leads to. Nothing is loaded yet.
    ///
    /// # Errors
    /// The only script, or the directory of the scripts, is not there.
    pub fn new(settings: LuaSettings) -> io::Result<Self> {
        let scripts = ScriptMap::new(settings.source.clone())?;
        let watchdog = settings.time_limit.map(|limit| Arc::new(Watchdog::new(limit)));
        Ok(Self { shared: Arc::new(Shared { settings, scripts, watchdog, idle: Mutex::default() }) })
    }

    /// Loads the only script, if there is only one, into a state that is closed again, and tells its style. What is wrong with it
    /// is better known before a server listens.
    ///
    /// # Errors
    /// The script cannot be loaded.
    pub fn check(&self) -> Result<Option<Style>, Failure> {
        match &self.shared.settings.source {
            ScriptSource::One(path) => State::load(path, &self.shared.settings).map(|state| Some(state.style())),
            ScriptSource::DocumentRoot { .. } | ScriptSource::Gateway { .. } => Ok(None),
        }
    }
}

impl Runtime for LuaRuntime {
    fn open(&self, _own: bool) -> Result<Box<dyn Host>, String> {
        Ok(Box::new(LuaHost::new(Arc::clone(&self.shared))))
    }

    fn worker_started(&self, _worker: usize) {
        if let Some(watchdog) = &self.shared.watchdog
            && let Err(error) = watchdog.start()
        {
            log::error!("scripts that run for too long will not be stopped: {error}");
        }
    }
}

impl Shared {
    pub(crate) fn take(&self, script: &Path) -> Result<State, Failure> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).get_mut(script).and_then(Vec::pop);
        idle.map_or_else(|| State::load(script, &self.settings), Ok)
    }

    pub(crate) fn give_back(&self, script: &Path, mut state: State) {
        for file in state.take_loaded() {
            log::debug!("{}: loaded {}", script.display(), file.display());
        }
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(states) = idle.get_mut(script) {
            states.push(state);
        } else {
            idle.insert(script.to_owned(), vec![state]);
        }
    }
}
