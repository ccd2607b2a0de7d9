//! The pool: states with scripts in them, kept as long as they are worth their room. Nothing here knows Lua.
//!
//! * A lane takes a state of a script, has it answer, and gives it back. Each script has a lock of its own, held for the few
//!   instructions that this takes; the map of all scripts is looked at only by a lane that meets a script for the first time.
//! * A script is loaded by whoever needs it first; others wait for that load instead of doing the same. More states of the same
//!   script (clones) are loaded one by one when all that there are stay busy. They are a convenience: where there is no room for
//!   one, or its load fails, the request waits for a state that there is.
//! * When there is no room for another state, the idle state that is worth least goes (see `popularity`). A clone may only
//!   displace what is worth less than itself; the first state of a script may displace anything.
//! * A request that waits may be overtaken once, by a lane that takes back what it has just given: that saves a change of threads.
//!   From then on it is in line. So more threads than states are slow, but nobody starves.
//! * The sweep notices changed files and loads the script anew, aside; the old states serve until that has succeeded. For that
//!   long there is one state more than the settings say. While a script cannot be loaded, its states outlast their share of
//!   requests, for they cannot be replaced.
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

pub(crate) use lane::{LaneCache, Lease};
pub use script::ScriptCounters;
pub(crate) use sweep::Change;

use room::Room;
use script::{Entry, Script};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// What loads scripts.
pub(crate) trait Loader: Sync {
    /// A state with a script in it.
    type State: Send;
    /// Why a script cannot be loaded.
    type Failure: Send + Sync;

    /// Loads a script. Called without any lock, in the thread that needs the script or in that of the sweep.
    fn load(&self, script: &Path) -> Loaded<Self::State, Self::Failure>;

    /// Told that a script which has states could not be loaded into another one. No request fails by that.
    fn note_failure(&self, script: &Path, failure: &Self::Failure);

    /// Whether no request can lead to the script any more, since its file has gone. Then its states are closed.
    fn is_gone(&self, script: &Path) -> bool;
}

/// What came of a load.
pub(crate) struct Loaded<S, F> {
    pub(crate) state: Result<S, F>,
    /// The files that were read: when one of them changes, the script is loaded anew.
    pub(crate) dependencies: Vec<PathBuf>,
}

/// How large the pool is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolSettings {
    /// States at most, all scripts together. At least one.
    pub(crate) states: usize,
    /// States of one script at most. At least one.
    pub(crate) clones: usize,
    /// How often an idle state is looked for, a millisecond each time, before another one is loaded.
    pub(crate) retries: u32,
    /// After so many requests a state is thrown away.
    pub(crate) requests: Option<u64>,
    /// How long a request waits for a state.
    pub(crate) patience: Duration,
}

/// Why there is no state for a request.
#[derive(Debug)]
pub(crate) enum Refusal<F> {
    /// The script cannot be loaded.
    LoadFailed(Arc<F>),
    /// All states were busy for too long.
    Busy,
}

/// What is to become of a state that is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It can be taken again.
    Keep,
    /// It must not.
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

    /// Takes a state of the script. Waits while all of them are busy, but not for ever.
    ///
    /// # Errors
    /// See [`Refusal`].
    #[inline]
    pub(crate) fn take<'c>(&self, cache: &'c mut LaneCache<L>, path: &Arc<Path>) -> Result<Lease<'c, L>, Refusal<L::Failure>> {
        let script: &'c Script<L> = cache.script(path, || self.script(path));
        let idle = script.lock().take_idle();
        let entry = match idle {
            Some(entry) => entry,
            None => self.obtain(script)?,
        };
        Ok(Lease::new(script, entry))
    }

    /// Loads a script, unless it has been loaded, so that its first request finds an idle state.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub(crate) fn preload(&self, path: &Arc<Path>) -> Result<(), Refusal<L::Failure>> {
        let script = self.script(path);
        if script.lock().states > 0 {
            return Ok(());
        }
        let entry = self.obtain(&script)?;
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

    /// Gives a state back. `required` are files that it has loaded meanwhile.
    #[inline]
    pub(crate) fn give_back(&self, lease: Lease<'_, L>, verdict: Verdict, required: &[PathBuf]) {
        let (script, mut entry) = lease.end();
        entry.answered += 1;
        let worn = self.settings.requests.is_some_and(|most| entry.answered >= most);
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
            // Whoever came to wait meanwhile has seen this state, or is told.
            if self.room.is_wanted() {
                self.room.tell();
            }
        } else {
            drop(inner);
            drop(entry);
            script.forget_state();
        }
    }

    /// Closes a state for a script that has none and has waited for room in vain.
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

    /// Closes all idle states, and those that are busy as soon as they are given back.
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

    /// What the pool knows of a script; made when the first lane meets it.
    #[cold]
    fn script(&self, path: &Arc<Path>) -> Arc<Script<L>> {
        if let Some(script) = self.scripts.read().unwrap_or_else(PoisonError::into_inner).get(path) {
            return Arc::clone(script);
        }
        let mut scripts = self.scripts.write().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(Script::new(Arc::clone(path), Arc::clone(&self.room)));
        Arc::clone(scripts.entry(Arc::clone(path)).or_insert_with(new))
    }

    /// What the pool knows of its scripts.
    pub(crate) fn counters(&self) -> Vec<ScriptCounters> {
        let now = Instant::now();
        self.known_scripts().iter().map(|script| script.counters(now)).collect()
    }
}
