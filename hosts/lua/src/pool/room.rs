//! Counts the states of all scripts, and the requests that wait for room for another one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The room of a pool.
pub(super) struct Room {
    most: usize,
    /// The number of states that exist or are being loaded. Increased with the lock held.
    states: AtomicUsize,
    /// The number of waiting requests: while it is 0, giving a state back needs no lock.
    waiting: AtomicUsize,
    claims: Mutex<Claims>,
    changed: Condvar,
}

/// Claims of requests that were woken and found that other requests had taken the idle states again. For such a request the
/// next state that is given back is closed, and the request gets its room.
#[derive(Default)]
struct Claims {
    made: usize,
    /// The number of states that are being closed for claims.
    coming: usize,
    granted: usize,
}

impl Room {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            states: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            claims: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Claims> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves room for a state: free room, or that of a state that `evict` returns. Returns `false` if there is neither.
    pub(super) fn try_enter<S>(&self, evict: impl FnOnce() -> Option<S>) -> bool {
        if self.book(&self.lock()) {
            return true;
        }
        // The evicted state is dropped here, without a lock.
        evict().is_some()
    }

    /// Like [`Room::try_enter`], but waits for room. Returns `false` if there was none before `deadline`.
    pub(super) fn enter<S>(&self, deadline: Instant, mut evict: impl FnMut() -> Option<S>) -> bool {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut claims = self.lock();
        let mut claimed = false;
        let booked = loop {
            if claimed && claims.granted > 0 {
                claims.granted -= 1;
                break true;
            }
            if self.book(&claims) {
                break true;
            }
            if let Some(evicted) = evict() {
                drop(claims);
                drop(evicted);
                claims = self.lock();
                break true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break false;
            }
            claims = self.changed.wait_timeout(claims, left).unwrap_or_else(PoisonError::into_inner).0;
            if !claimed {
                claimed = true;
                claims.made += 1;
            }
        };
        if claimed {
            claims.made -= 1;
            // This request has found other room, so the room that was granted to it becomes free.
            if claims.granted > claims.made {
                claims.granted -= 1;
                self.states.fetch_sub(1, Ordering::SeqCst);
                self.changed.notify_all();
            }
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        booked
    }

    fn book(&self, _: &Claims) -> bool {
        let free = self.states.load(Ordering::SeqCst) < self.most;
        if free {
            self.states.fetch_add(1, Ordering::SeqCst);
        }
        free
    }

    /// Frees the room of a state that has been closed.
    pub(super) fn leave(&self) {
        self.states.fetch_sub(1, Ordering::SeqCst);
        self.tell();
    }

    /// Whether a request waits for room.
    #[inline]
    pub(super) fn is_wanted(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    /// Whether a state that is given back must be closed at once. If so, the caller closes it and then calls [`Room::grant`].
    pub(super) fn is_claimed(&self) -> bool {
        let mut claims = self.lock();
        let claimed = claims.made > claims.granted + claims.coming;
        claims.coming += usize::from(claimed);
        claimed
    }

    /// Passes the room of a state that was closed for a claim on to the request that made the claim. The room becomes free if
    /// that request no longer waits.
    pub(super) fn grant(&self) {
        let mut claims = self.lock();
        claims.coming -= 1;
        if claims.made > claims.granted {
            claims.granted += 1;
        } else {
            self.states.fetch_sub(1, Ordering::SeqCst);
        }
        drop(claims);
        self.changed.notify_all();
    }

    /// Wakes the requests that wait for room, because a state has become idle and can be closed.
    pub(super) fn tell(&self) {
        if self.is_wanted() {
            // A waiting request has either seen the change or is waiting by now.
            drop(self.lock());
            self.changed.notify_all();
        }
    }

    /// The number of states.
    #[cfg(test)]
    pub(super) fn states(&self) -> usize {
        self.states.load(Ordering::SeqCst)
    }

    /// The number of requests that wait for room.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    /// Claims that were made, are being met, and have been met.
    #[cfg(test)]
    pub(super) fn claims(&self) -> (usize, usize, usize) {
        let claims = self.lock();
        (claims.made, claims.coming, claims.granted)
    }
}
