//! The thread that maintains the pool, kept connections and ended processes while the lanes answer requests.

use crate::modules;
use crate::pool::{Change, ScriptCounters};
use crate::shared::Shared;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// The time that a worker waits at its end for a running sweep: a script that is being reloaded may take long.
const PATIENCE: Duration = Duration::from_secs(1);

/// A handle to the thread.
pub(crate) struct Housekeeping {
    progress: Arc<Progress>,
}

#[derive(Default)]
struct Progress {
    stage: Mutex<HousekeeperState>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum HousekeeperState {
    #[default]
    Working,
    /// The thread was asked to end.
    Stopping,
    Ended,
}

impl Progress {
    fn lock(&self) -> MutexGuard<'_, HousekeeperState> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turn_to(&self, stage: HousekeeperState) {
        *self.lock() = stage;
        self.changed.notify_all();
    }

    /// Waits for the end of the stage `stage`, at most for `time`; returns the current stage.
    fn wait_while(&self, stage: HousekeeperState, time: Duration) -> HousekeeperState {
        let condition = |now: &mut HousekeeperState| *now == stage;
        *self.changed.wait_timeout_while(self.lock(), time, condition).unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Housekeeping {
    /// Starts a thread that checks for changed scripts at the interval of the settings. `None` if the settings disable it.
    ///
    /// # Errors
    /// No thread could be started.
    pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<Option<Self>> {
        let interval = shared.settings.sweep;
        if interval.is_zero() {
            return Ok(None);
        }
        let progress = Arc::new(Progress::default());
        let (shared, seen) = (Arc::clone(shared), Arc::clone(&progress));
        thread::Builder::new().name("lua-sweep".to_owned()).spawn(move || {
            let _end = End(&seen);
            // A script that never finishes loading is stopped here as in a lane.
            let slot = shared.slot();
            slot.enter();
            while seen.wait_while(HousekeeperState::Working, interval) == HousekeeperState::Working {
                modules::close_expired();
                modules::reap();
                sweep(&shared);
            }
            slot.leave();
        })?;
        Ok(Some(Self { progress }))
    }

    /// Ends the thread, so that the data of its sweeps may be dropped.
    pub(crate) fn stop(&self) {
        if *self.progress.lock() == HousekeeperState::Working {
            self.progress.turn_to(HousekeeperState::Stopping);
        }
        if self.progress.wait_while(HousekeeperState::Stopping, PATIENCE) != HousekeeperState::Ended {
            log::warn!("a script is still being reloaded while the worker ends");
        }
    }
}

/// Records the end of the thread, also after a panic.
struct End<'a>(&'a Progress);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.turn_to(HousekeeperState::Ended);
    }
}

/// The number of scripts whose counters are logged: the most requested ones.
const TOLD: usize = 20;

/// Logs the counters of the pool at the end of a worker, if it had more than one script.
pub(crate) fn tell_counters(mut counters: Vec<ScriptCounters>) {
    if counters.len() < 2 {
        return;
    }
    let sum = |count: fn(&ScriptCounters) -> u64| counters.iter().map(count).sum::<u64>();
    let (loads, evictions) = (sum(|script| script.loads), sum(|script| script.evictions));
    log::info!("this worker has run {} scripts: {loads} loads, {evictions} evictions", counters.len());
    counters.sort_by(|left, right| right.score.total_cmp(&left.score));
    for script in counters.iter().take(TOLD) {
        let ScriptCounters { script, requests, loads, evictions, reloads, failures, score, states } = script;
        log::info!(
            "{}: score {score:.0}, {requests} requests, {loads} loads ({failures} failed), {reloads} reloads, {evictions} evictions, \
             {states} states",
            script.display()
        );
    }
}

/// Reloads changed scripts, notices moved or deleted ones, and runs the operator's housekeeping hook.
pub(crate) fn sweep(shared: &Shared) {
    shared.scripts.forget();
    shared.pool.sweep(|script, change| match change {
        Change::Reloaded => log::info!("{}: has changed, and is reloaded", script.display()),
        Change::Gone => log::info!("{}: its file is gone, and its states are closed", script.display()),
        Change::Failed(failure) => log::error!(
            "{}: has changed but cannot be loaded, so the old version stays in use: {}: {}",
            script.display(),
            failure.fault.title(),
            failure.message
        ),
    });
    shared.with_hooks(|hooks| hooks.run_housekeeping(|| shared.pool.counters()));
}
