//! A state for a request that finds no idle one.

use super::script::{Entry, Script, Search};
use super::{Loader, Pool, Refusal};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// How long one look for an idle state lasts before another one is loaded.
const LOOK: Duration = Duration::from_millis(1);

impl<L: Loader> Pool<L> {
    /// Waits for a state of the script, or loads one.
    #[cold]
    pub(super) fn obtain(&self, script: &Script<L>) -> Result<Entry<L::State>, Refusal<L::Failure>> {
        let deadline = Instant::now() + self.settings.patience;
        let mut looks = self.settings.retries;
        let since = script.lock().ended;
        loop {
            let mut inner = script.lock();
            match inner.search(self.settings.clones, since) {
                Search::Found(entry) => return Ok(entry),
                Search::Failed(failure) => return Err(Refusal::LoadFailed(failure)),
                // Its states may soon be idle again; to load another one mostly takes longer.
                Search::MayLoad if inner.states > 0 && looks > 0 => {
                    looks -= 1;
                    script.wait(inner, LOOK);
                }
                Search::MayLoad => {
                    inner.loading = true;
                    inner.states += 1;
                    drop(inner);
                    return self.load(Booking { script, in_room: false, ended: false }, deadline);
                }
                Search::MustWait => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(Refusal::Busy);
                    }
                    script.wait(inner, left);
                }
            }
        }
    }

    /// Loads a state that the script's books know of already.
    fn load(&self, mut booking: Booking<'_, L>, deadline: Instant) -> Result<Entry<L::State>, Refusal<L::Failure>> {
        let script = booking.script;
        if !self.room.enter(deadline, || self.evict()) {
            return Err(Refusal::Busy);
        }
        booking.in_room = true;
        let loaded_at = SystemTime::now();
        // A reload meanwhile makes what is being loaded now an old state.
        let generation = script.lock().generation;
        let loaded = self.loader.load(&script.path);
        let mut inner = script.lock();
        match loaded.state {
            Ok(state) => {
                inner.counts.loads += 1;
                inner.dependencies.add(&loaded.dependencies, loaded_at);
                drop(inner);
                booking.end();
                Ok(Entry { state, generation, answered: 0, loaded_at })
            }
            Err(failure) => {
                let failure = Arc::new(failure);
                inner.counts.failures += 1;
                // This load's number: it ends when the booking is dropped.
                inner.failure = Some((inner.ended + 1, Arc::clone(&failure)));
                drop(inner);
                Err(Refusal::LoadFailed(failure))
            }
        }
    }

    /// Takes the idle state that is worth least out of the pool; its room is the caller's.
    fn evict(&self) -> Option<Entry<L::State>> {
        let scripts = self.scripts.read().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let mut least: Option<(f64, &Script<L>)> = None;
        for script in scripts.values() {
            let mut inner = script.lock();
            if !inner.idle.is_empty() {
                let worth = inner.worth(now);
                if least.is_none_or(|(least, _)| worth < least) {
                    least = Some((worth, script));
                }
            }
        }
        let (_, script) = least?;
        let mut inner = script.lock();
        // Another lane may have taken it just now; then a state will be given back soon.
        if inner.idle.is_empty() {
            return None;
        }
        inner.states -= 1;
        inner.counts.evictions += 1;
        // The one that was used longest ago.
        Some(inner.idle.remove(0))
    }
}

/// A load that is under way. Dropped before it has succeeded, by a panic for instance, the books are as before.
struct Booking<'a, L: Loader> {
    script: &'a Script<L>,
    in_room: bool,
    ended: bool,
}

impl<L: Loader> Booking<'_, L> {
    /// The load has succeeded: the state is the caller's.
    fn end(mut self) {
        self.ended = true;
    }
}

impl<L: Loader> Drop for Booking<'_, L> {
    fn drop(&mut self) {
        let mut inner = self.script.lock();
        inner.loading = false;
        inner.ended += 1;
        if !self.ended {
            inner.states -= 1;
        }
        drop(inner);
        // Whoever waited for the load may have to load a state of its own now.
        self.script.changed.notify_all();
        if !self.ended && self.in_room {
            self.script.room.leave();
        }
    }
}
