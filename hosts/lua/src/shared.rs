//! The data that the lanes of a process share: the scripts, the pool of their states, and the watchdog.

use crate::LuaSettings;
use crate::hooks::ProcessHooks;
use crate::pool::{Loaded, Loader, Pool, PoolSettings};
use crate::script_path::{ScriptMap, ScriptSource};
use crate::state::State;
use crate::state_context::Failure;
use crate::vm::{Slot, Watchdog};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The time that a request waits for a state while all of them are busy. Its lane is blocked meanwhile.
const PATIENCE: Duration = Duration::from_secs(10);

/// The data that the lanes of a process share.
pub(crate) struct Shared {
    pub(crate) settings: Arc<LuaSettings>,
    pub(crate) scripts: ScriptMap,
    pub(crate) watchdog: Option<Arc<Watchdog>>,
    pub(crate) pool: Pool<ScriptLoader>,
    hooks: Mutex<ProcessHooks>,
}

impl Shared {
    /// # Errors
    /// The only script, or the directory of the scripts, does not exist.
    pub(crate) fn new(settings: LuaSettings, hooks: ProcessHooks) -> io::Result<Self> {
        let scripts = ScriptMap::new(settings.source.clone())?;
        let watchdog = settings.time_limit.map(|limit| Arc::new(Watchdog::new(limit)));
        let size = PoolSettings {
            states: settings.states,
            clones: settings.clones,
            retries: settings.retries,
            requests: settings.state_requests,
            patience: PATIENCE,
        };
        let settings = Arc::new(settings);
        let pool = Pool::new(ScriptLoader(Arc::clone(&settings)), size);
        Ok(Self { settings, scripts, watchdog, pool, hooks: Mutex::new(hooks) })
    }

    /// A slot for a thread that runs scripts.
    pub(crate) fn slot(&self) -> Arc<Slot> {
        self.watchdog.as_ref().map_or_else(Arc::default, |watchdog| watchdog.slot())
    }

    /// Calls `run` with the hooks of the process.
    pub(crate) fn with_hooks(&self, run: impl FnOnce(&ProcessHooks)) {
        run(&self.hooks.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Closes the hooks' own state, so that its finalizers run and its files are flushed.
    pub(crate) fn close_hooks(&self) {
        *self.hooks.lock().unwrap_or_else(PoisonError::into_inner) = ProcessHooks::default();
    }
}

/// Loads scripts into states.
pub(crate) struct ScriptLoader(Arc<LuaSettings>);

impl Loader for ScriptLoader {
    type State = State;
    type Failure = Failure;

    fn load(&self, script: &Path) -> Loaded<State, Failure> {
        State::load(script, &self.0)
    }

    fn note_failure(&self, script: &Path, failure: &Failure) {
        log::error!(
            "{}: cannot be loaded into another state, so only the existing ones are used: {}: {}",
            script.display(),
            failure.fault.title(),
            failure.message
        );
    }

    fn is_gone(&self, script: &Path) -> bool {
        // The only script answers all requests, wherever its file is.
        !matches!(self.0.source, ScriptSource::One(_)) && !script.exists()
    }
}
