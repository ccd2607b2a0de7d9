//! The thread that looks after the pool while the lanes answer requests.

use crate::pool::{Change, ScriptCounters};
use crate::shared::Shared;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How long a worker that ends waits for a sweep that is under way: a script that is being loaded anew may take its time.
const PATIENCE: Duration = Duration::from_secs(1);

/// The thread, as seen from others.
pub(crate) struct Housekeeping {
    progress: Arc<Progress>,
}

#[derive(Default)]
struct Progress {
    stage: Mutex<Stage>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Working,
    /// It is asked to end.
    Stopping,
    Ended,
}

impl Progress {
    fn lock(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turn_to(&self, stage: Stage) {
        *self.lock() = stage;
        self.changed.notify_all();
    }

    /// Waits for as long as `stage` lasts, up to `time`; tells the stage then.
    fn wait_while(&self, stage: Stage, time: Duration) -> Stage {
        let condition = |now: &mut Stage| *now == stage;
        *self.changed.wait_timeout_while(self.lock(), time, condition).unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Housekeeping {
    /// Starts to look for changed scripts at the interval that the settings say. `None`: they say that nobody should.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<Option<Self>> {
        let interval = shared.settings.sweep;
        if interval.is_zero() {
            return Ok(None);
        }
        let progress = Arc::new(Progress::default());
        let (shared, seen) = (Arc::clone(shared), Arc::clone(&progress));
        thread::Builder::new().name("lua-sweep".to_owned()).spawn(move || {
            let _end = End(&seen);
            // A script that never loads is stopped here as in a lane.
            let slot = shared.watchdog.as_ref().map(|watchdog| watchdog.slot());
            if let Some(slot) = &slot {
                slot.enter();
            }
            while seen.wait_while(Stage::Working, interval) == Stage::Working {
                sweep(&shared);
            }
        })?;
        Ok(Some(Self { progress }))
    }

    /// Ends the thread, so that what its sweeps use may go.
    pub(crate) fn stop(&self) {
        if *self.progress.lock() == Stage::Working {
            self.progress.turn_to(Stage::Stopping);
        }
        if self.progress.wait_while(Stage::Stopping, PATIENCE) != Stage::Ended {
            log::warn!("a script is still being loaded anew while the worker ends");
        }
    }
}

/// Says that the thread has ended, however it did.
struct End<'a>(&'a Progress);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.turn_to(Stage::Ended);
    }
}

/// Scripts whose counters are told: those that are most in demand.
const TOLD: usize = 20;

/// Tells at the end of a worker what its pool has done, if it had a choice.
pub(crate) fn tell_counters(mut counters: Vec<ScriptCounters>) {
    if counters.len() < 2 {
        return;
    }
    let sum = |count: fn(&ScriptCounters) -> u64| counters.iter().map(count).sum::<u64>();
    let (loads, evictions) = (sum(|script| script.loads), sum(|script| script.evictions));
    log::info!("the pool has had {} scripts: {loads} loads, {evictions} evictions", counters.len());
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

/// Has changed scripts loaded anew, moved or deleted ones noticed, and the operator's own housekeeping done.
pub(crate) fn sweep(shared: &Shared) {
    shared.scripts.forget();
    shared.pool.sweep(|script, change| match change {
        Change::Reloaded => log::info!("{}: loaded anew, for it has changed", script.display()),
        Change::Gone => log::info!("{}: its states are closed, for it has gone", script.display()),
        Change::Failed(failure) => log::error!(
            "{}: has changed but cannot be loaded, so what was loaded before goes on: {}: {}",
            script.display(),
            failure.fault.title(),
            failure.message
        ),
    });
    shared.with_hooks(|hooks| hooks.run_housekeeping(|| shared.pool.counters()));
}
