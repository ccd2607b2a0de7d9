//! Ctrl-C and TERM: a flag that every wait looks at, so that all started processes are ended on the way out.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The interval at which a wait checks the flag and its condition.
pub const STEP: Duration = Duration::from_millis(20);

static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Handles INT, TERM and HUP from now on: they set a flag.
///
/// # Errors
/// The kernel refuses a handler.
pub fn catch() -> Result<(), String> {
    let flag = FLAG.get_or_init(Arc::default);
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(flag)).map_err(|e| format!("cannot catch signal {signal}: {e}"))?;
    }
    Ok(())
}

/// Whether the user wants to stop.
pub fn requested() -> bool {
    FLAG.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// Returns an error when the user wants to stop, so that `?` leads to the end of the program.
///
/// # Errors
/// The user wants to stop.
pub fn check() -> Result<(), String> {
    if requested() { Err("interrupted".to_owned()) } else { Ok(()) }
}

/// Sleeps, but returns early when the user wants to stop.
///
/// # Errors
/// The user wants to stop.
pub fn sleep(duration: Duration) -> Result<(), String> {
    let mut left = duration;
    while !left.is_zero() {
        check()?;
        let step = left.min(STEP);
        std::thread::sleep(step);
        left -= step;
    }
    check()
}
