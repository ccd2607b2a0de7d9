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
    /// The number of waiting requests that were woken once for a state that a newer request had taken meanwhile.
    overtaken: usize,
    /// Whether a state is being loaded.
    pub(super) loading: bool,
    /// Whether more states may be loaded.
    pub(super) growth: Growth,
    /// The number of loads that have ended.
    pub(super) ended: u64,
    /// The last failure, and the number of its load.
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
    /// Its files have changed and cannot be loaded: the existing states must suffice.
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
    /// The number of requests that it has answered.
    pub(super) answered: u64,
    /// The time at which its load began.
    pub(super) loaded_at: SystemTime,
}

/// Statistics of a script.
#[derive(Clone, Debug)]
pub struct ScriptCounters {
    /// The path of the script.
    pub script: PathBuf,
    /// Requests for this script.
    pub requests: u64,
    /// States that were loaded because a request needed one.
    pub loads: u64,
    /// States that were closed because another script needed their room.
    pub evictions: u64,
    /// The number of reloads because a file had changed.
    pub reloads: u64,
    /// Loads that failed.
    pub failures: u64,
    /// Its popularity: requests, each of which counts half after a minute.
    pub score: f64,
    /// States that hold it.
    pub states: usize,
}

/// The result of looking for a state.
pub(super) enum Search<L: Loader> {
    Found(Entry<L::State>),
    /// The load that the request has waited for has failed.
    Failed(Arc<L::Failure>),
    MayLoad,
    /// A change may come until this time, or at this time.
    MustWait(Option<Instant>),
}

/// A request that waits for a state of its script.
pub(super) struct Waiter<'a, L: Loader> {
    script: &'a Script<L>,
    /// The number of loads that had ended when the request arrived.
    since: u64,
    /// Whether it was woken once, and found no state.
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

    /// Counts a busy state that has been closed, or a load that has failed.
    pub(super) fn forget_state(&self) {
        self.lock().states -= 1;
        self.wake_one();
        self.room.leave();
    }

    /// Adds files that a state, loaded at `loaded_at`, has loaded later. Reads them without the lock.
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

    /// Removes all idle states, and marks busy ones to be closed when they are given back. The caller drops the idle states and
    /// frees their room.
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
    /// Takes an idle state that is not reserved for an older request, for a new request.
    #[inline]
    pub(super) fn take_idle(&mut self) -> Option<Entry<L::State>> {
        self.counts.requests += 1;
        self.take_free()
    }

    #[inline]
    fn take_free(&mut self) -> Option<Entry<L::State>> {
        if self.idle.len() > self.promised { self.idle.pop() } else { None }
    }

    /// Puts a state back. `true`: a request waits for it.
    #[inline]
    pub(super) fn put_idle(&mut self, entry: Entry<L::State>) -> bool {
        self.idle.push(entry);
        // A fast lane would take back the state that it has just given back, while others wait. So the state is reserved for a
        // request that was overtaken once.
        if self.overtaken > self.promised {
            self.promised += 1;
        }
        self.waiting > 0
    }

    /// The least recently used idle state that is not reserved.
    pub(super) fn take_oldest(&mut self) -> Option<Entry<L::State>> {
        (self.idle.len() > self.promised).then(|| self.idle.remove(0))
    }

    /// All idle states, even reserved ones.
    pub(super) fn take_all_idle(&mut self) -> Vec<Entry<L::State>> {
        self.promised = 0;
        std::mem::take(&mut self.idle)
    }

    /// Whether an idle state of the script may be taken.
    pub(super) fn has_idle(&self) -> bool {
        self.idle.len() > self.promised
    }

    /// Whether a state that has answered its share may be replaced.
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
    /// Leaves the line: a state that was reserved for this request becomes free, because the request has got something else or
    /// given up.
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
