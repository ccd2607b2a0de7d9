//! Reloads scripts that have changed.

use super::script::{Entry, Growth, Script};
use super::{Loader, Pool};
use crate::dependencies::Dependencies;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The result of a sweep for a script.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Change<F> {
    /// A file has changed, and the script was loaded again.
    Reloaded,
    /// A file has changed, but the script cannot be loaded.
    Failed(F),
    /// The script's file is gone, and the states of the script were closed.
    Gone,
}

impl<L: Loader> Pool<L> {
    /// Looks for changed scripts, loads them again, and passes the result for each to `told`. The old states of a script remain
    /// in use until its load has succeeded. After a failed load the script is not loaded again until a file changes again.
    pub(crate) fn sweep(&self, mut told: impl FnMut(&Path, Change<L::Failure>)) {
        for script in self.known_scripts() {
            let mut dependencies = {
                let inner = script.lock();
                // The next sweep looks at a script that is being loaded now.
                if inner.states == 0 || inner.loading {
                    continue;
                }
                inner.dependencies.clone()
            };
            // The files are checked without the lock.
            if !dependencies.have_changed() {
                script.lock().dependencies.adopt(dependencies);
            } else if self.loader.is_gone(&script.path) {
                let now = Dependencies::before_load(&script.path, dependencies.paths(), SystemTime::now());
                script.lock().dependencies = now;
                self.retire(&script);
                told(&script.path, Change::Gone);
            } else if let Some(change) = self.reload(&script, dependencies.paths()) {
                told(&script.path, change);
            }
        }
    }

    /// Loads a changed script again. Returns `None` if a request is loading the script already.
    fn reload(&self, script: &Script<L>, known: Vec<PathBuf>) -> Option<Change<L::Failure>> {
        let loading = Loading::begin(script)?;
        let loaded_at = SystemTime::now();
        let before = Dependencies::before_load(&script.path, known, loaded_at);
        let loaded = self.loader.load(&script.path);
        let dependencies = Dependencies::read(&loaded.dependencies, loaded_at, &before);
        let mut inner = script.lock();
        let state = match loaded.state {
            Ok(state) => state,
            Err(failure) => {
                // Record the present state of the files, so that this load is not repeated before they change.
                inner.dependencies = before;
                inner.dependencies.add(dependencies);
                inner.growth = Growth::NotUntilChanged;
                inner.counts.failures += 1;
                return Some(Change::Failed(failure));
            }
        };
        inner.generation += 1;
        inner.counts.reloads += 1;
        inner.growth = Growth::Free;
        inner.dependencies = dependencies;
        let generation = inner.generation;
        let mut fresh = Some(Entry { state, generation, answered: 0, loaded_at });
        let mut old = inner.take_all_idle();
        inner.states -= old.len();
        drop(inner);
        // The new state takes the room of a closed old state, or free room. If there is neither, the old states are busy and
        // keep their room until they are given back: then the new state is dropped, and the next request loads one.
        let mut free = old.len();
        old.clear();
        if free > 0 || self.room.try_enter(|| None::<()>) {
            free = free.max(1);
            let mut inner = script.lock();
            if inner.generation == generation
                && inner.states < self.settings.clones
                && let Some(fresh) = fresh.take()
            {
                inner.states += 1;
                inner.put_idle(fresh);
                free -= 1;
            }
        }
        drop(fresh);
        for _ in 0..free {
            self.room.leave();
        }
        drop(loading);
        self.room.tell();
        Some(Change::Reloaded)
    }
}

/// Prevents requests from loading the script while the sweep loads it.
struct Loading<'a, L: Loader>(&'a Script<L>);

impl<'a, L: Loader> Loading<'a, L> {
    fn begin(script: &'a Script<L>) -> Option<Self> {
        let mut inner = script.lock();
        if inner.loading {
            return None;
        }
        inner.loading = true;
        Some(Self(script))
    }
}

impl<L: Loader> Drop for Loading<'_, L> {
    fn drop(&mut self) {
        self.0.lock().loading = false;
        self.0.wake_all();
    }
}
