//! What the pool knows of one script.

use super::Loader;
use super::popularity::Popularity;
use super::room::Room;
use crate::dependencies::Dependencies;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// A script, with its states that are idle.
pub(super) struct Script<L: Loader> {
    pub(super) path: Arc<Path>,
    inner: Mutex<Inner<L>>,
    /// A state has become idle, or a load has ended.
    pub(super) changed: Condvar,
    pub(super) room: Arc<Room>,
}

/// What the lock of a script protects.
pub(super) struct Inner<L: Loader> {
    /// The idle states; the one used last is last, for its memory is still in the processor's cache.
    pub(super) idle: Vec<Entry<L::State>>,
    /// How many states there are: idle, busy or being loaded.
    pub(super) states: usize,
    /// How many wait for a state.
    pub(super) waiting: usize,
    /// Whether a state is being loaded.
    pub(super) loading: bool,
    /// How many loads have ended.
    pub(super) ended: u64,
    /// The last failure, and the number of its load.
    pub(super) failure: Option<(u64, Arc<L::Failure>)>,
    /// Grows when the script is loaded anew: older states are not used again.
    pub(super) generation: u64,
    pub(super) dependencies: Dependencies,
    popularity: Popularity,
    pub(super) counts: Counts,
}

/// Numbers for whoever watches the pool.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    requests: u64,
    pub(super) loads: u64,
    pub(super) evictions: u64,
    pub(super) reloads: u64,
    pub(super) failures: u64,
}

/// A state with what the pool knows of it.
pub(super) struct Entry<S> {
    pub(super) state: S,
    pub(super) generation: u64,
    /// How many requests it has answered.
    pub(super) answered: u64,
    /// When its load began.
    pub(super) loaded_at: SystemTime,
}

/// What is known of a script, for whoever watches the pool.
#[derive(Clone, Debug)]
pub struct ScriptCounters {
    /// The script.
    pub script: PathBuf,
    /// Requests that have asked for it.
    pub requests: u64,
    /// States that were loaded because a request needed one.
    pub loads: u64,
    /// States that went because another script needed their room.
    pub evictions: u64,
    /// Times that it was loaded anew because a file had changed.
    pub reloads: u64,
    /// Loads that failed.
    pub failures: u64,
    /// Its popularity: requests, of which each counts half after a minute.
    pub score: f64,
    /// States that hold it.
    pub states: usize,
}

/// What a request finds that looks for a state.
pub(super) enum Search<L: Loader> {
    Found(Entry<L::State>),
    /// The load that it has waited for has failed.
    Failed(Arc<L::Failure>),
    MayLoad,
    MustWait,
}

impl<L: Loader> Script<L> {
    pub(super) fn new(path: Arc<Path>, room: Arc<Room>) -> Self {
        let inner = Inner {
            idle: Vec::new(),
            states: 0,
            waiting: 0,
            loading: false,
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

    /// Waits until something has changed, but not longer than `time`.
    pub(super) fn wait(&self, mut inner: MutexGuard<'_, Inner<L>>, time: Duration) {
        inner.waiting += 1;
        let mut inner = self.changed.wait_timeout(inner, time).unwrap_or_else(PoisonError::into_inner).0;
        inner.waiting -= 1;
    }

    /// A state that was not idle has gone, or a load has come to nothing.
    pub(super) fn forget_state(&self) {
        self.lock().states -= 1;
        self.changed.notify_one();
        self.room.leave();
    }

    pub(super) fn counters(&self, now: Instant) -> ScriptCounters {
        let mut inner = self.lock();
        let Counts { requests, loads, evictions, reloads, failures } = inner.counts;
        let script = self.path.to_path_buf();
        ScriptCounters { script, requests, loads, evictions, reloads, failures, score: inner.score(now), states: inner.states }
    }
}

impl<L: Loader> Inner<L> {
    /// For a new request: an idle state, if there is one.
    #[inline]
    pub(super) fn take_idle(&mut self) -> Option<Entry<L::State>> {
        self.counts.requests += 1;
        self.idle.pop()
    }

    /// For a request that has waited, since so many loads had ended.
    pub(super) fn search(&mut self, clones: usize, since: u64) -> Search<L> {
        if let Some(entry) = self.idle.pop() {
            return Search::Found(entry);
        }
        match &self.failure {
            Some((number, failure)) if *number > since => Search::Failed(Arc::clone(failure)),
            _ if self.loading || self.states >= clones => Search::MustWait,
            _ => Search::MayLoad,
        }
    }

    /// How much the script is asked for.
    pub(super) fn score(&mut self, now: Instant) -> f64 {
        self.popularity.score(self.counts.requests, now)
    }

    /// What an idle state of the script is worth.
    pub(super) fn worth(&mut self, now: Instant) -> f64 {
        self.score(now) / self.states.max(1) as f64
    }
}
