//! The tests that run at the same time: those that measure a time run alone, all others beside each other.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static TURN: RwLock<()> = RwLock::new(());

/// For a test that measures: nothing else of this program runs.
pub fn alone() -> RwLockWriteGuard<'static, ()> {
    TURN.write().unwrap_or_else(PoisonError::into_inner)
}

/// For a test that does not.
pub fn beside_others() -> RwLockReadGuard<'static, ()> {
    TURN.read().unwrap_or_else(PoisonError::into_inner)
}

/// Tries up to three times: a bound in milliseconds may be missed on a machine that has something else to do for a moment, but
/// a server that does not keep it misses it every time. Checks that do not depend on time must panic in `attempt` itself.
pub fn best_of_three(attempt: impl Fn() -> Result<(), String>) {
    let mut misses = Vec::new();
    while misses.len() < 3 {
        match attempt() {
            Ok(()) => return,
            Err(miss) => misses.push(miss),
        }
    }
    panic!("missed three times: {}", misses.join("; "));
}
