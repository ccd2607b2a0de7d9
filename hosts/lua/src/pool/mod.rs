//! The pool: states with loaded scripts. When there is no room for a new state, the pool closes the state that is worth least.
//! This module knows no Lua.
//!
//! * A lane takes a state of a script, lets it answer, and gives it back. Each script has a lock of its own; taking and giving
//!   back hold it for a few instructions. A lane uses the map of all scripts only when it meets a script for the first time.
//! * The first request that needs a script loads it, and other requests for this script wait for that load. When all states of
//!   a script stay busy, further states of it (clones) are loaded, one at a time. Clones are optional: if there is no room for
//!   a clone, or its load fails, the request waits for an existing state.
//! * When there is no room for another state, the idle state with the least worth is closed (see `popularity`). The first state
//!   of a script may replace any idle state; a clone may only replace a state of less worth than its own.
//! * A lane that has just given back a state may take it again at once, before a waiting request gets it: that saves a thread
//!   switch. This can happen to a waiting request once; then the next idle state is reserved for it. So with more threads than
//!   states requests are slow, but each of them gets a state in the end.
//! * The sweep notices changed files and loads the script again in a new state. The old states answer requests until that load
//!   has succeeded; during the load there may be one more state than the settings allow. As long as a changed script cannot be
//!   loaded, its states are not replaced after their number of requests (`maxcount`).
//!
//! States are loaded and closed while no lock is held. Locks are taken in this order: room, map of scripts, script.

mod lane;
mod obtain;
mod popularity;
mod room;
mod script;
mod sweep;
#[cfg(test)]
mod tests;

pub(crate) use lane::{KeptState, LaneCache, Lease};
pub use script::ScriptCounters;
pub(crate) use sweep::Change;

use room::Room;
use script::{Entry, Script};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Loads scripts.
pub(crate) trait Loader: Sync {
    /// A state with a script in it.
    type State: Send;
    /// The reason why a script cannot be loaded.
    type Failure: Send + Sync;

    /// Loads a script. Called without any lock, in the thread that needs the script or in that of the sweep.
    fn load(&self, script: &Path) -> Loaded<Self::State, Self::Failure>;

    /// Called when another state of a script that has states could not be loaded. No request fails because of this.
    fn note_failure(&self, script: &Path, failure: &Self::Failure);

    /// Whether requests can no longer lead to the script, because its file is gone. If so, the pool closes its states.
    fn is_gone(&self, script: &Path) -> bool;
}

/// The result of a load.
pub(crate) struct Loaded<S, F> {
    pub(crate) state: Result<S, F>,
    /// The files that were read: if one of them changes, the script is loaded again.
    pub(crate) dependencies: Vec<PathBuf>,
}

/// The limits of the pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolSettings {
    /// The most states of all scripts together; at least 1.
    pub(crate) states: usize,
    /// The most states of one script; at least 1.
    pub(crate) clones: usize,
    /// The number of times that a request looks for an idle state, a millisecond apart, before it loads another state.
    pub(crate) retries: u32,
    /// The number of requests after which a state is thrown away; `None` without a limit.
    pub(crate) requests: Option<u64>,
    /// The time that a request waits for a state.
    pub(crate) patience: Duration,
}

/// The reason why a request gets no state.
#[derive(Debug)]
pub(crate) enum Refusal<F> {
    /// The script cannot be loaded.
    LoadFailed(Arc<F>),
    /// All states were busy for too long.
    Busy,
}

/// The future of a state that is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Keep it for further requests.
    Keep,
    /// Throw it away.
    Discard,
}

/// The pool.
pub(crate) struct Pool<L: Loader> {
    loader: L,
    settings: PoolSettings,
    scripts: RwLock<HashMap<Arc<Path>, Arc<Script<L>>>>,
    room: Arc<Room>,
}

impl<L: Loader> Pool<L> {
    pub(crate) fn new(loader: L, settings: PoolSettings) -> Self {
        let settings = PoolSettings { states: settings.states.max(1), clones: settings.clones.max(1), ..settings };
        Self { loader, settings, scripts: RwLock::default(), room: Arc::new(Room::new(settings.states)) }
    }

    /// Takes a state of the script. Waits while all of them are busy, up to a limit.
    ///
    /// # Errors
    /// See [`Refusal`].
    #[inline]
    pub(crate) fn take<'c>(&self, cache: &'c mut LaneCache<L>, path: &Arc<Path>) -> Result<Lease<'c, L>, Refusal<L::Failure>> {
        let script: &'c Script<L> = cache.script(path, || self.script(path));
        let idle = script.lock().take_idle();
        let entry = match idle {
            Some(entry) => entry,
            None => self.obtain(script, self.settings.patience)?,
        };
        Ok(Lease::new(script, entry))
    }

    /// Takes a state that the lane keeps for longer than a request. Waits for at most `patience` while all of them are busy.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub(crate) fn take_to_keep(
        &self,
        cache: &mut LaneCache<L>,
        path: &Arc<Path>,
        patience: Duration,
    ) -> Result<KeptState<L>, Refusal<L::Failure>> {
        let script = cache.shared(path, || self.script(path));
        let idle = script.lock().take_idle();
        let entry = match idle {
            Some(entry) => entry,
            None => self.obtain(&script, patience)?,
        };
        Ok(KeptState::new(script, entry))
    }

    /// Loads a script, unless it has a state, so that its first request finds an idle state.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub(crate) fn preload(&self, path: &Arc<Path>) -> Result<(), Refusal<L::Failure>> {
        let script = self.script(path);
        if script.lock().states > 0 {
            return Ok(());
        }
        let entry = self.obtain(&script, self.settings.patience)?;
        let mut inner = script.lock();
        if entry.generation == inner.generation {
            inner.put_idle(entry);
            drop(inner);
            script.wake_one();
        } else {
            drop(inner);
            drop(entry);
            script.forget_state();
        }
        Ok(())
    }

    /// Gives a state back. `required` are the files that it has loaded since it was taken.
    #[inline]
    pub(crate) fn give_back(&self, lease: Lease<'_, L>, verdict: Verdict, required: &[PathBuf]) {
        let (script, entry) = lease.end();
        self.take_back(script, entry, verdict, required);
    }

    /// Gives a state back that the lane has kept.
    pub(crate) fn give_back_kept(&self, kept: KeptState<L>, verdict: Verdict, required: &[PathBuf]) {
        let (script, entry) = kept.end();
        self.take_back(&script, entry, verdict, required);
    }

    /// Whether a state that has answered so many requests is to be replaced.
    #[inline]
    fn is_worn(&self, answered: u64) -> bool {
        self.settings.requests.is_some_and(|most| answered >= most)
    }

    #[inline]
    fn take_back(&self, script: &Script<L>, mut entry: Entry<L::State>, verdict: Verdict, required: &[PathBuf]) {
        entry.answered += 1;
        let worn = self.is_worn(entry.answered);
        if !required.is_empty() {
            script.add_dependencies(required, entry.loaded_at);
        }
        if self.room.is_wanted() && self.room.is_claimed() {
            return self.cede(script, entry);
        }
        let mut inner = script.lock();
        if verdict == Verdict::Keep && entry.generation == inner.generation && !(worn && inner.is_replaceable()) {
            let waited_for = inner.put_idle(entry);
            drop(inner);
            if waited_for {
                script.wake_one();
            }
            // A request that began to wait for room meanwhile has seen this idle state, or is woken here.
            if self.room.is_wanted() {
                self.room.tell();
            }
        } else {
            drop(inner);
            drop(entry);
            script.forget_state();
        }
    }

    /// Closes a state that was given back, and passes its room on to a request that has waited for room in vain.
    #[cold]
    fn cede(&self, script: &Script<L>, entry: Entry<L::State>) {
        drop(entry);
        let mut inner = script.lock();
        inner.states -= 1;
        inner.counts.evictions += 1;
        drop(inner);
        script.wake_one();
        self.room.grant();
    }

    /// Closes all idle states, and busy ones as soon as they are given back.
    pub(crate) fn shut_down(&self) {
        for script in self.known_scripts() {
            self.retire(&script);
        }
    }

    fn retire(&self, script: &Script<L>) {
        for entry in script.retire() {
            drop(entry);
            self.room.leave();
        }
        script.wake_all();
    }

    fn known_scripts(&self) -> Vec<Arc<Script<L>>> {
        self.scripts.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Returns the pool's data about a script; creates it when the first lane meets the script.
    #[cold]
    fn script(&self, path: &Arc<Path>) -> Arc<Script<L>> {
        if let Some(script) = self.scripts.read().unwrap_or_else(PoisonError::into_inner).get(path) {
            return Arc::clone(script);
        }
        let mut scripts = self.scripts.write().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(Script::new(Arc::clone(path), Arc::clone(&self.room)));
        Arc::clone(scripts.entry(Arc::clone(path)).or_insert_with(new))
    }

    /// The counters of all scripts.
    pub(crate) fn counters(&self) -> Vec<ScriptCounters> {
        let now = Instant::now();
        self.known_scripts().iter().map(|script| script.counters(now)).collect()
    }
}
