//! The thread that looks after the pool while the lanes answer requests.

use crate::pool::ScriptCounters;
use crate::runtime::Shared;
use std::io;
use std::sync::Arc;
use std::thread;

/// Starts to look for changed scripts at the interval that the settings say, if they say one. The thread lasts as long as the
/// process.
///
/// # Errors
/// There is no thread to be had.
pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<()> {
    let interval = shared.settings.sweep;
    if interval.is_zero() {
        return Ok(());
    }
    let shared = Arc::clone(shared);
    thread::Builder::new().name("lua-sweep".to_owned()).spawn(move || {
        // A script that never loads is stopped here as in a lane.
        let slot = shared.watchdog.as_ref().map(|watchdog| watchdog.slot());
        if let Some(slot) = &slot {
            slot.enter();
        }
        loop {
            thread::sleep(interval);
            sweep(&shared);
        }
    })?;
    Ok(())
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

/// Has changed scripts loaded anew, and moved or deleted ones noticed.
pub(crate) fn sweep(shared: &Shared) {
    shared.scripts.forget();
    shared.pool.sweep(|script, result| match result {
        Ok(()) => log::info!("{}: loaded anew, for it has changed", script.display()),
        Err(failure) => log::error!(
            "{}: has changed but cannot be loaded, so what was loaded before goes on: {}: {}",
            script.display(),
            failure.fault.title(),
            failure.message
        ),
    });
    shared.hooks.run_housekeeping(|| shared.pool.counters());
}
