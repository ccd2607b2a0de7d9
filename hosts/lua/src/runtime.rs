//! The Lua runtime of a process, which the server uses.

use crate::LuaSettings;
use crate::application::Style;
use crate::hooks::ProcessHooks;
use crate::host::LuaHost;
use crate::housekeeping::{self, Housekeeping};
use crate::pool::ScriptCounters;
use crate::script_path::ScriptSource;
use crate::shared::Shared;
use crate::state::State;
use crate::state_context::{Failure, StateContext};
use crate::tasks::WaitingHost;
use crate::vm::{ScriptTracing, Watchdog};
use oribi_host::{Host, Runtime, Tracing};
use std::io;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

/// Lua scripts that answer requests.
pub struct LuaRuntime {
    shared: Arc<Shared>,
    housekeeping: Mutex<Option<Housekeeping>>,
}

/// Flushes all of C's output streams, to which scripts may have written. Called before a fork, so that the child does not write
/// the buffered output again.
fn write_buffers() {
    // SAFETY: a null pointer means all streams.
    unsafe { libc::fflush(ptr::null_mut()) };
}

impl LuaRuntime {
    /// Makes a runtime for the scripts of the settings' source. No script is loaded yet.
    ///
    /// # Errors
    /// The only script, or the directory of the scripts, does not exist.
    pub fn new(settings: LuaSettings) -> io::Result<Self> {
        Self::with_hooks(settings, ProcessHooks::default())
    }

    /// Like [`LuaRuntime::new`], with hooks that run in a state of their own.
    ///
    /// # Errors
    /// As for [`LuaRuntime::new`].
    pub fn with_hooks(settings: LuaSettings, hooks: ProcessHooks) -> io::Result<Self> {
        let shared = Arc::new(Shared::new(settings, hooks)?);
        // The hooks' file has been run, and may have written output.
        write_buffers();
        Ok(Self { shared, housekeeping: Mutex::default() })
    }

    /// If there is a single script, loads it into a state that is then closed, and returns its style. So its errors are known
    /// before a server listens. Returns `None` if there may be several scripts.
    ///
    /// # Errors
    /// The script cannot be loaded.
    pub fn check(&self) -> Result<Option<Style>, Failure> {
        match &self.shared.settings.source {
            ScriptSource::One(path) => {
                let style = State::load(path, &self.shared.settings).state.map(|state| Some(state.style()));
                write_buffers();
                style
            }
            ScriptSource::DocumentRoot { .. } | ScriptSource::Gateway { .. } => Ok(None),
        }
    }

    /// Checks for changed scripts now. A server does this at the interval of the settings.
    pub fn sweep(&self) {
        housekeeping::sweep(&self.shared);
    }

    /// Runs hooks on the calling thread, which belongs to no lane, with the time limit of scripts.
    fn with_time_limit(&self, work: impl FnOnce()) {
        let slot = self.shared.slot();
        slot.enter();
        work();
        slot.leave();
    }

    /// The pool's statistics for each script.
    #[must_use]
    pub fn counters(&self) -> Vec<ScriptCounters> {
        self.shared.pool.counters()
    }
}

impl Runtime for LuaRuntime {
    fn open(&self, _own: bool) -> Result<Box<dyn Host>, String> {
        let host = LuaHost::new(Arc::clone(&self.shared));
        host.load_only_script()?;
        if self.shared.settings.waits {
            let host =
                WaitingHost::new(Arc::clone(&self.shared)).map_err(|error| format!("cannot wait for events: {error}"))?;
            return Ok(Box::new(host));
        }
        Ok(Box::new(host))
    }

    fn tracing(&self) -> Option<Arc<dyn Tracing>> {
        match ScriptTracing::new(StateContext::request_of) {
            Ok(tracing) => Some(Arc::new(tracing)),
            Err(error) => {
                log::error!("cannot get backtraces of scripts: {error}");
                None
            }
        }
    }

    fn worker_started(&self, _worker: usize) {
        if let Some(watchdog) = &self.shared.watchdog
            && let Err(error) = watchdog.start()
        {
            log::error!("scripts that run for too long will not be stopped: {error}");
        }
        if self.shared.watchdog.is_some() && !Watchdog::REACHES_COMPILED_LOOPS {
            log::warn!(
                "this build cannot stop loops that LuaJIT has compiled: it was made without the project's .cargo/config.toml"
            );
        }
        match Housekeeping::start(&self.shared) {
            Ok(housekeeping) => *self.housekeeping.lock().unwrap_or_else(PoisonError::into_inner) = housekeeping,
            Err(error) => log::error!("changed scripts will not be noticed: {error}"),
        }
        self.with_time_limit(|| self.shared.with_hooks(ProcessHooks::run_startup));
    }

    fn worker_stopping(&self, _worker: usize) {
        if let Some(housekeeping) = self.housekeeping.lock().unwrap_or_else(PoisonError::into_inner).take() {
            housekeeping.stop();
        }
        self.with_time_limit(|| self.shared.with_hooks(ProcessHooks::run_shutdown));
        housekeeping::tell_counters(self.counters());
        // Closes the resources of the scripts, such as database connections.
        self.shared.pool.shut_down();
    }

    fn end(&self, _status: i32) {
        // Does what the program lua(1) does at its end.
        self.shared.close_hooks();
        write_buffers();
    }
}
