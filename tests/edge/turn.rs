//! The tests that run at the same time: those that measure a time run alone, all others beside each other.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static TURN: RwLock<()> = RwLock::new(());

/// Waits until no other test of this program runs, and prevents others from starting, for a test that measures time.
pub fn alone() -> RwLockWriteGuard<'static, ()> {
    TURN.write().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until no test that measures time is running, for any other test.
pub fn beside_others() -> RwLockReadGuard<'static, ()> {
    TURN.read().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `attempt` up to three times, until it succeeds. A busy machine may exceed a limit once, but a server
/// that does not keep the limit exceeds it every time. Checks that do not depend on time must panic in `attempt`.
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
