//! Where threads of a crew sleep, outside the language's lock.

use oribi_host::{GlobalLock, Wait};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// It has a lock of its own, because threads use it without the language's lock.
#[derive(Debug, Default)]
pub(super) struct Bed {
    state: Mutex<State>,
    /// A call to one of the resting threads.
    call: Condvar,
    /// Everything else.
    news: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Calls to resting threads that no thread has answered yet.
    calls: usize,
    /// Grows when pausing threads must look again.
    rounds: u64,
    /// Grows when the main thread must look again.
    summonses: u64,
    ended: bool,
}

/// What a thread sleeps for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Until {
    /// A call.
    Called,
    /// Another round than this one.
    Round(u64),
    /// Another summons than this one.
    Summons(u64),
}

/// How a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    /// What it was for has happened.
    InTime,
    /// The time was over.
    Late,
    /// The language has something else to do for the thread.
    Interrupted,
}

struct Sleep<'a> {
    bed: &'a Bed,
    until: Until,
    timeout: Option<Duration>,
    interrupted: AtomicBool,
    in_time: AtomicBool,
}

impl Bed {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps until `until` has come, the time is over, or the thread is interrupted.
    pub(super) fn sleep(&self, lock: &dyn GlobalLock, until: Until, timeout: Option<Duration>) -> Woken {
        let (interrupted, in_time) = (AtomicBool::new(false), AtomicBool::new(false));
        let sleep = Sleep { bed: self, until, timeout, interrupted, in_time };
        let slept = lock.without_lock(&sleep);
        if !slept || sleep.interrupted.load(SeqCst) {
            Woken::Interrupted
        } else if sleep.in_time.load(SeqCst) {
            Woken::InTime
        } else {
            Woken::Late
        }
    }

    /// Calls one of `resting` threads.
    pub(super) fn call(&self, resting: usize) {
        let mut state = self.state();
        state.calls = (state.calls + 1).min(resting);
        self.call.notify_one();
    }

    /// The present round. Ask for it before anything can end it.
    pub(super) fn round(&self) -> u64 {
        self.state().rounds
    }

    /// Makes pausing threads look again.
    pub(super) fn next_round(&self) {
        self.state().rounds += 1;
        self.news.notify_all();
    }

    /// The last summons of the main thread.
    pub(super) fn summonses(&self) -> u64 {
        self.state().summonses
    }

    /// Makes the main thread look again.
    pub(super) fn summon_main(&self) {
        self.state().summonses += 1;
        self.news.notify_all();
    }

    /// Ends every sleep but the main thread's.
    pub(super) fn end(&self) {
        self.state().ended = true;
        self.call.notify_all();
        self.news.notify_all();
    }
}

impl State {
    /// Whether the sleep is over. A call wakes one thread.
    fn is(&mut self, until: Until) -> bool {
        match until {
            Until::Called if self.calls > 0 => {
                self.calls -= 1;
                true
            }
            Until::Called => self.ended,
            Until::Round(round) => self.rounds != round || self.ended,
            Until::Summons(summons) => self.summonses != summons,
        }
    }
}

impl Sleep<'_> {
    const fn bell(&self) -> &Condvar {
        match self.until {
            Until::Called => &self.bed.call,
            Until::Round(_) | Until::Summons(_) => &self.bed.news,
        }
    }
}

impl Wait for Sleep<'_> {
    fn wait(&self) {
        let end = self.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut state = self.bed.state();
        loop {
            if state.is(self.until) {
                self.in_time.store(true, SeqCst);
                return;
            }
            if self.interrupted.load(SeqCst) {
                return;
            }
            state = match end.map(|end| end.checked_duration_since(Instant::now())) {
                None => self.bell().wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(Some(left)) => self.bell().wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
                Some(None) => return,
            };
        }
    }

    /// Takes a lock, which a signal handler must not do. But a thread sleeps here only until another thread wakes it, so its
    /// process has a second thread, and then no signal handler calls this: see [`Wait::interrupt`].
    fn interrupt(&self) {
        let state = self.bed.state();
        self.interrupted.store(true, SeqCst);
        drop(state);
        self.bell().notify_all();
    }
}
