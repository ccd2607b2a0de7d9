//! Parks threads of a thread pool, outside of the language's lock.

use oribi_host::{GlobalLock, Wait};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The state of parked threads. It has its own lock, because threads use it without the language's lock.
#[derive(Debug, Default)]
pub(super) struct Parker {
    state: Mutex<State>,
    /// Wakes one of the resting threads.
    resting: Condvar,
    /// Wakes all other threads.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Wake-ups for resting threads that no thread has answered yet.
    calls: usize,
    /// Incremented when pausing threads must check their condition again.
    rounds: u64,
    /// Incremented when the main thread must check its condition again.
    main_wakes: u64,
    ended: bool,
}

/// The condition that ends a thread's sleep.
#[derive(Clone, Copy, Debug)]
pub(super) enum WakeCondition {
    /// A wake-up of a resting thread.
    Called,
    /// A round after this one.
    Round(u64),
    /// A wake-up of the main thread after this number of wake-ups.
    MainWoken(u64),
}

/// The way in which a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WakeReason {
    /// The condition has been met.
    InTime,
    /// The time has expired.
    Late,
    /// The language has other work for the thread.
    Interrupted,
}

struct Sleep<'a> {
    parker: &'a Parker,
    until: WakeCondition,
    timeout: Option<Duration>,
    interrupted: AtomicBool,
    in_time: AtomicBool,
}

impl Parker {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps until `until` is met, the time has expired, or the thread is interrupted.
    pub(super) fn sleep(&self, lock: &dyn GlobalLock, until: WakeCondition, timeout: Option<Duration>) -> WakeReason {
        let (interrupted, in_time) = (AtomicBool::new(false), AtomicBool::new(false));
        let sleep = Sleep { parker: self, until, timeout, interrupted, in_time };
        let slept = lock.without_lock(&sleep);
        if !slept || sleep.interrupted.load(SeqCst) {
            WakeReason::Interrupted
        } else if sleep.in_time.load(SeqCst) {
            WakeReason::InTime
        } else {
            WakeReason::Late
        }
    }

    /// Wakes one of `resting` threads.
    pub(super) fn call(&self, resting: usize) {
        let mut state = self.state();
        state.calls = (state.calls + 1).min(resting);
        self.resting.notify_one();
    }

    /// Returns the current round. It must be read before any event that may end the round.
    pub(super) fn round(&self) -> u64 {
        self.state().rounds
    }

    /// Wakes pausing threads.
    pub(super) fn next_round(&self) {
        self.state().rounds += 1;
        self.changed.notify_all();
    }

    /// Returns the number of wake-ups of the main thread.
    pub(super) fn main_wakes(&self) -> u64 {
        self.state().main_wakes
    }

    /// Wakes the main thread.
    pub(super) fn wake_main(&self) {
        self.state().main_wakes += 1;
        self.changed.notify_all();
    }

    /// Ends every sleep but the main thread's.
    pub(super) fn end(&self) {
        self.state().ended = true;
        self.resting.notify_all();
        self.changed.notify_all();
    }
}

impl State {
    /// Whether the condition is met. A resting thread consumes the wake-up, which is for a single thread.
    fn is(&mut self, until: WakeCondition) -> bool {
        match until {
            WakeCondition::Called if self.calls > 0 => {
                self.calls -= 1;
                true
            }
            WakeCondition::Called => self.ended,
            WakeCondition::Round(round) => self.rounds != round || self.ended,
            WakeCondition::MainWoken(wakes) => self.main_wakes != wakes,
        }
    }
}

impl Sleep<'_> {
    const fn condvar(&self) -> &Condvar {
        match self.until {
            WakeCondition::Called => &self.parker.resting,
            WakeCondition::Round(_) | WakeCondition::MainWoken(_) => &self.parker.changed,
        }
    }
}

impl Wait for Sleep<'_> {
    fn wait(&self) {
        let end = self.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut state = self.parker.state();
        loop {
            if state.is(self.until) {
                self.in_time.store(true, SeqCst);
                return;
            }
            if self.interrupted.load(SeqCst) {
                return;
            }
            state = match end.map(|end| end.checked_duration_since(Instant::now())) {
                None => self.condvar().wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(Some(left)) => self.condvar().wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
                Some(None) => return,
            };
        }
    }

    /// Takes a lock, which a signal handler must not do. But a thread sleeps here only until another thread wakes it, so its
    /// process has a second thread, and then no signal handler calls this: see [`Wait::interrupt`].
    fn interrupt(&self) {
        let state = self.parker.state();
        self.interrupted.store(true, SeqCst);
        drop(state);
        self.condvar().notify_all();
    }
}
