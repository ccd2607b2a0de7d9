//! The pool's data about one script.

use super::Loader;
use super::popularity::Popularity;
use super::room::Room;
use crate::dependencies::Dependencies;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// A script with its idle states.
pub(super) struct Script<L: Loader> {
    pub(super) path: Arc<Path>,
    inner: Mutex<Inner<L>>,
    /// Notified when a state has become idle, or a load has ended.
    changed: Condvar,
    pub(super) room: Arc<Room>,
}

/// The data that the lock of a script protects.
pub(super) struct Inner<L: Loader> {
    /// The idle states; the last used one is at the end, because its memory is still in the processor's cache.
    pub(super) idle: Vec<Entry<L::State>>,
    /// The number of idle states that are reserved for overtaken requests.
    promised: usize,
    /// The number of states: idle, busy or being loaded.
    pub(super) states: usize,
    /// The number of requests that wait for a state.
    pub(super) waiting: usize,
    /// The number of waiting requests that have waited once already: a newer request may have taken the state for which they
    /// were woken.
    overtaken: usize,
    /// Whether a state is being loaded.
    pub(super) loading: bool,
    /// Whether more states may be loaded.
    pub(super) growth: Growth,
    /// The number of loads that have ended.
    pub(super) ended: u64,
    /// The last failure, and the number of the load that failed.
    pub(super) failure: Option<(u64, Arc<L::Failure>)>,
    /// Increased when the script is loaded again: older states are not used again.
    pub(super) generation: u64,
    pub(super) dependencies: Dependencies,
    popularity: Popularity,
    pub(super) counts: Counts,
}

/// Whether a script with states may get more of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Growth {
    Free,
    /// The last attempt failed: there was no room, or the load failed.
    NotBefore(Instant),
    /// The script's files have changed and it cannot be loaded any more: the existing states must suffice until they change
    /// again.
    NotUntilChanged,
}

/// Counters of a script.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    requests: u64,
    pub(super) loads: u64,
    pub(super) evictions: u64,
    pub(super) reloads: u64,
    pub(super) failures: u64,
}

/// A state with the pool's data about it.
pub(super) struct Entry<S> {
    pub(super) state: S,
    pub(super) generation: u64,
    /// The number of requests that the state has answered.
    pub(super) answered: u64,
    /// The time at which the load of the state began.
    pub(super) loaded_at: SystemTime,
}

/// Statistics of a script.
#[derive(Clone, Debug)]
pub struct ScriptCounters {
    /// The path of the script.
    pub script: PathBuf,
    /// The number of requests for this script.
    pub requests: u64,
    /// The number of states that were loaded because a request needed one.
    pub loads: u64,
    /// The number of states that were closed because another script needed their room.
    pub evictions: u64,
    /// The number of reloads because a file had changed.
    pub reloads: u64,
    /// The number of loads that failed.
    pub failures: u64,
    /// The popularity of the script: the number of its requests, where each request counts half after a minute.
    pub score: f64,
    /// The number of states of the script.
    pub states: usize,
}

/// The result of looking for a state.
pub(super) enum Search<L: Loader> {
    Found(Entry<L::State>),
    /// The load that the request has waited for has failed.
    Failed(Arc<L::Failure>),
    MayLoad,
    /// Wait for a change, or until this time, and search again.
    MustWait(Option<Instant>),
}

/// A request that waits for a state of its script.
pub(super) struct Waiter<'a, L: Loader> {
    script: &'a Script<L>,
    /// The number of loads that had ended when the request arrived.
    since: u64,
    /// Whether the request has waited once already.
    overtaken: bool,
}

impl<L: Loader> Script<L> {
    pub(super) fn new(path: Arc<Path>, room: Arc<Room>) -> Self {
        let inner = Inner {
            idle: Vec::new(),
            promised: 0,
            states: 0,
            waiting: 0,
            overtaken: 0,
            loading: false,
            growth: Growth::Free,
            ended: 0,
            failure: None,
            generation: 0,
            dependencies: Dependencies::default(),
            popularity: Popularity::new(Instant::now()),
            counts: Counts::default(),
        };
        Self { path, inner: Mutex::new(inner), changed: Condvar::new(), room }
    }

    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner<L>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes one request that waits for a state.
    #[cold]
    pub(super) fn wake_one(&self) {
        self.changed.notify_one();
    }

    /// Wakes all waiting requests.
    pub(super) fn wake_all(&self) {
        self.changed.notify_all();
    }

    /// Counts a busy state that has been closed, or a load that has failed: the script has one state fewer, and its room is
    /// free.
    pub(super) fn forget_state(&self) {
        self.lock().states -= 1;
        self.wake_one();
        self.room.leave();
    }

    /// Adds files that a state has loaded after its script, whose load began at `loaded_at`. Reads the files without the lock.
    #[cold]
    pub(super) fn add_dependencies(&self, files: &[PathBuf], loaded_at: SystemTime) {
        let unknown: Vec<_> = {
            let inner = self.lock();
            files.iter().filter(|file| !inner.dependencies.has(file)).cloned().collect()
        };
        if !unknown.is_empty() {
            let more = Dependencies::read(&unknown, loaded_at, &Dependencies::default());
            self.lock().dependencies.add(more);
        }
    }

    /// Removes all idle states, and increases the generation, so that busy states are closed when they are given back. The
    /// caller drops the returned states and frees their room.
    pub(super) fn retire(&self) -> Vec<Entry<L::State>> {
        let mut inner = self.lock();
        inner.generation += 1;
        let idle = inner.take_all_idle();
        inner.states -= idle.len();
        idle
    }

    pub(super) fn counters(&self, now: Instant) -> ScriptCounters {
        let mut inner = self.lock();
        let Counts { requests, loads, evictions, reloads, failures } = inner.counts;
        let script = self.path.to_path_buf();
        ScriptCounters { script, requests, loads, evictions, reloads, failures, score: inner.score(now), states: inner.states }
    }
}

impl<L: Loader> Inner<L> {
    /// Counts a new request, and takes an idle state for it that is not reserved for a waiting request.
    #[inline]
    pub(super) fn take_idle(&mut self) -> Option<Entry<L::State>> {
        self.counts.requests += 1;
        self.take_free()
    }

    /// Counts a request for a state that its lane has kept.
    pub(super) fn count_request(&mut self) {
        self.counts.requests += 1;
    }

    #[inline]
    fn take_free(&mut self) -> Option<Entry<L::State>> {
        if self.idle.len() > self.promised { self.idle.pop() } else { None }
    }

    /// Makes a state idle. Returns whether a request waits for a state of this script.
    #[inline]
    pub(super) fn put_idle(&mut self, entry: Entry<L::State>) -> bool {
        self.idle.push(entry);
        // A fast lane would take this state again before a waiting request wakes up. So the state is reserved for a request
        // that has waited once already, if there is one without a reserved state.
        if self.overtaken > self.promised {
            self.promised += 1;
        }
        self.waiting > 0
    }

    /// Takes the least recently used idle state, unless all idle states are reserved.
    pub(super) fn take_oldest(&mut self) -> Option<Entry<L::State>> {
        (self.idle.len() > self.promised).then(|| self.idle.remove(0))
    }

    /// Takes all idle states, even reserved ones.
    pub(super) fn take_all_idle(&mut self) -> Vec<Entry<L::State>> {
        self.promised = 0;
        std::mem::take(&mut self.idle)
    }

    /// Whether an idle state of the script may be taken.
    pub(super) fn has_idle(&self) -> bool {
        self.idle.len() > self.promised
    }

    /// Whether a state that has answered its number of requests may be closed, because the script can be loaded again.
    pub(super) fn is_replaceable(&self) -> bool {
        self.growth != Growth::NotUntilChanged
    }

    /// The number of overtaken requests, and of states reserved for them.
    #[cfg(test)]
    pub(super) fn in_line(&self) -> (usize, usize) {
        (self.overtaken, self.promised)
    }

    /// The popularity of the script.
    pub(super) fn score(&mut self, now: Instant) -> f64 {
        self.popularity.score(self.counts.requests, now)
    }

    /// The worth of an idle state of the script.
    pub(super) fn worth(&mut self, now: Instant) -> f64 {
        self.score(now) / self.states.max(1) as f64
    }
}

impl<'a, L: Loader> Waiter<'a, L> {
    pub(super) fn new(script: &'a Script<L>) -> Self {
        Self { script, since: script.lock().ended, overtaken: false }
    }

    /// Looks for a state, or for permission to load one.
    pub(super) fn search(&mut self, inner: &mut Inner<L>, clones: usize) -> Search<L> {
        if let Some(entry) = inner.take_free() {
            return Search::Found(entry);
        }
        if self.overtaken && inner.promised > 0 {
            inner.promised -= 1;
            if let Some(entry) = inner.idle.pop() {
                return Search::Found(entry);
            }
        }
        if inner.states == 0
            && let Some((number, failure)) = &inner.failure
            && *number > self.since
        {
            return Search::Failed(Arc::clone(failure));
        }
        if inner.loading || inner.states >= clones {
            return Search::MustWait(None);
        }
        match inner.growth {
            Growth::NotBefore(time) if inner.states > 0 && Instant::now() < time => Search::MustWait(Some(time)),
            Growth::NotUntilChanged if inner.states > 0 => Search::MustWait(None),
            _ => Search::MayLoad,
        }
    }

    /// Waits for a change, at most for `time`.
    pub(super) fn wait(&mut self, mut inner: MutexGuard<'_, Inner<L>>, time: Duration) {
        inner.waiting += 1;
        let mut inner = self.script.changed.wait_timeout(inner, time).unwrap_or_else(PoisonError::into_inner).0;
        inner.waiting -= 1;
        if !self.overtaken {
            self.overtaken = true;
            inner.overtaken += 1;
        }
    }
}

impl<L: Loader> Waiter<'_, L> {
    /// Ends the waiting of this request, which has got a state in another way or has given up. An idle state that was reserved
    /// for it becomes free.
    pub(super) fn leave(&mut self, inner: &mut Inner<L>) {
        if std::mem::take(&mut self.overtaken) {
            inner.overtaken -= 1;
            inner.promised = inner.promised.min(inner.overtaken);
        }
    }
}

impl<L: Loader> Drop for Waiter<'_, L> {
    fn drop(&mut self) {
        if self.overtaken {
            let script = self.script;
            let mut inner = script.lock();
            self.leave(&mut inner);
            let wake = inner.has_idle() && inner.waiting > 0;
            drop(inner);
            if wake {
                script.wake_one();
            }
        }
    }
}
