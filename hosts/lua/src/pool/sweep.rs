//! Scripts that have changed are loaded anew.

use super::script::{Entry, Script};
use super::{Loader, Pool};
use std::path::Path;
use std::sync::PoisonError;
use std::time::SystemTime;

impl<L: Loader> Pool<L> {
    /// Looks which scripts have changed, loads them anew, and tells what came of it. Until a load has succeeded, the old states
    /// go on; one that fails is not tried again before a file changes again.
    pub(crate) fn sweep(&self, mut told: impl FnMut(&Path, Result<(), L::Failure>)) {
        let scripts: Vec<_> = self.scripts.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        for script in scripts {
            // The files are looked at without the lock.
            let dependencies = {
                let inner = script.lock();
                if inner.states == 0 {
                    continue;
                }
                inner.dependencies.clone()
            };
            if dependencies.changed() {
                told(&script.path, self.reload(&script));
            }
        }
    }

    fn reload(&self, script: &Script<L>) -> Result<(), L::Failure> {
        let loaded_at = SystemTime::now();
        let loaded = self.loader.load(&script.path);
        let mut inner = script.lock();
        let state = match loaded.state {
            Ok(state) => state,
            Err(failure) => {
                inner.dependencies.accept(&loaded.dependencies, loaded_at);
                inner.counts.failures += 1;
                return Err(failure);
            }
        };
        inner.generation += 1;
        inner.counts.reloads += 1;
        inner.dependencies.replace(&loaded.dependencies, loaded_at);
        let fresh = Entry { state, generation: inner.generation, answered: 0, loaded_at };
        let old = std::mem::take(&mut inner.idle);
        // The new state takes the room of an idle old one. Where none is idle, the next request loads what it needs.
        let superfluous = if old.is_empty() {
            Some(fresh)
        } else {
            inner.idle.push(fresh);
            inner.states -= old.len() - 1;
            None
        };
        drop(inner);
        script.changed.notify_all();
        let gone = old.len().saturating_sub(1);
        drop((old, superfluous));
        for _ in 0..gone {
            script.room.leave();
        }
        Ok(())
    }
}
