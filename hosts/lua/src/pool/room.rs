//! How many states there are, and who waits for room.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

/// The room of a pool.
pub(super) struct Room {
    most: usize,
    /// States that are there, or about to be. Written with the lock held, but for [`Room::leave`].
    states: AtomicUsize,
    /// Who waits: giving a state back needs no lock while nobody does.
    waiting: AtomicUsize,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Room {
    pub(super) const fn new(most: usize) -> Self {
        Self { most, states: AtomicUsize::new(0), waiting: AtomicUsize::new(0), lock: Mutex::new(()), changed: Condvar::new() }
    }

    /// Books room for a state. While there is none, `evict` may hand over a state whose room is taken; then that one is
    /// dropped, without a lock. `false`: there was none before `deadline`.
    pub(super) fn enter<S>(&self, deadline: Instant, mut evict: impl FnMut() -> Option<S>) -> bool {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let booked = loop {
            if self.states.load(Ordering::SeqCst) < self.most {
                self.states.fetch_add(1, Ordering::SeqCst);
                break true;
            }
            if let Some(evicted) = evict() {
                drop(guard);
                drop(evicted);
                break true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break false;
            }
            guard = self.changed.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0;
        };
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        booked
    }

    /// A state has gone.
    pub(super) fn leave(&self) {
        self.states.fetch_sub(1, Ordering::SeqCst);
        self.tell();
    }

    /// A state has become idle, so that it could go.
    #[inline]
    pub(super) fn tell(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            // Whoever waits has either seen the change or is waiting by now.
            drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
            self.changed.notify_all();
        }
    }

    /// How many states there are.
    #[cfg(test)]
    pub(super) fn states(&self) -> usize {
        self.states.load(Ordering::SeqCst)
    }

    /// How many wait for room.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }
}
