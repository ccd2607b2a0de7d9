//! Gets a state for a request that finds no idle one.

use super::script::{Entry, Growth, Script, Search, Waiter};
use super::{Loader, Pool, Refusal};
use crate::dependencies::Dependencies;
use std::ptr;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// The pause between two looks for an idle state, before another one is loaded.
const LOOK: Duration = Duration::from_millis(1);

/// The pause after a failed search for room for another state of a script that has states.
const NO_ROOM: Duration = Duration::from_millis(50);

/// The pause after a failed load of another state of a script that has states. The load may fail although no file has changed:
/// for instance because a database accepts no more connections.
const NO_LOAD: Duration = Duration::from_secs(1);

impl<L: Loader> Pool<L> {
    /// Waits for a state of the script for at most `patience`, or loads one.
    #[cold]
    pub(super) fn obtain(&self, script: &Script<L>, patience: Duration) -> Result<Entry<L::State>, Refusal<L::Failure>> {
        let deadline = Instant::now() + patience;
        let mut looks = self.settings.retries;
        let mut waiter = Waiter::new(script);
        loop {
            let mut inner = script.lock();
            match waiter.search(&mut inner, self.settings.clones) {
                Search::Found(entry) => return Ok(entry),
                Search::Failed(failure) => return Err(Refusal::LoadFailed(failure)),
                // A state of the script may soon be idle again, and loading another one mostly takes longer.
                Search::MayLoad if inner.states > 0 && looks > 0 => {
                    looks -= 1;
                    waiter.wait(inner, LOOK);
                }
                Search::MayLoad => {
                    inner.loading = true;
                    inner.states += 1;
                    let worth = inner.worth(Instant::now());
                    let first = inner.states == 1;
                    // This request will get the state that it loads, so no idle state stays reserved for it.
                    waiter.leave(&mut inner);
                    drop(inner);
                    let booking = Booking { script, in_room: false, ended: false };
                    if first {
                        return self.load_first(booking, deadline);
                    }
                    if let Some(entry) = self.load_clone(booking, worth) {
                        return Ok(entry);
                    }
                }
                Search::MustWait(until) => {
                    let now = Instant::now();
                    if now >= deadline {
                        return Err(Refusal::Busy);
                    }
                    let until = until.map_or(deadline, |until| until.min(deadline));
                    waiter.wait(inner, until.saturating_duration_since(now));
                }
            }
        }
    }

    /// Loads a script that has no state. If there is no room, the idle state with the least worth is closed, or this call waits
    /// for room until `deadline`.
    fn load_first(&self, mut booking: Booking<'_, L>, deadline: Instant) -> Result<Entry<L::State>, Refusal<L::Failure>> {
        let script = booking.script;
        booking.in_room = self.room.enter(deadline, || self.evict(script, f64::INFINITY));
        if booking.in_room { self.load(booking).map_err(Refusal::LoadFailed) } else { Err(Refusal::Busy) }
    }

    /// Loads another state of a script; `worth` is the worth of each of its states afterwards. Returns `None` if there is no
    /// room now or the load fails; then the existing states must suffice.
    fn load_clone(&self, mut booking: Booking<'_, L>, worth: f64) -> Option<Entry<L::State>> {
        let script = booking.script;
        booking.in_room = self.room.try_enter(|| self.evict(script, worth));
        if !booking.in_room {
            script.lock().growth = Growth::NotBefore(Instant::now() + NO_ROOM);
            return None;
        }
        match self.load(booking) {
            Ok(entry) => Some(entry),
            Err(failure) => {
                self.loader.note_failure(&script.path, &failure);
                None
            }
        }
    }

    /// Loads the script into a state whose room has been reserved.
    fn load(&self, booking: Booking<'_, L>) -> Result<Entry<L::State>, Arc<L::Failure>> {
        let script = booking.script;
        let (generation, before) = {
            let inner = script.lock();
            (inner.generation, inner.dependencies.paths())
        };
        let loaded_at = SystemTime::now();
        let before = Dependencies::before_load(&script.path, before, loaded_at);
        let loaded = self.loader.load(&script.path);
        let dependencies = Dependencies::read(&loaded.dependencies, loaded_at, &before);
        let mut inner = script.lock();
        match loaded.state {
            Ok(state) => {
                inner.counts.loads += 1;
                inner.growth = Growth::Free;
                if inner.states == 1 {
                    inner.dependencies = dependencies;
                } else {
                    inner.dependencies.add(dependencies);
                }
                drop(inner);
                booking.end();
                Ok(Entry { state, generation, answered: 0, loaded_at })
            }
            Err(failure) => {
                let failure = Arc::new(failure);
                inner.counts.failures += 1;
                inner.growth = Growth::NotBefore(Instant::now() + NO_LOAD);
                // The number of this load: it counts as ended when the booking is dropped.
                inner.failure = Some((inner.ended + 1, Arc::clone(&failure)));
                Err(failure)
            }
        }
    }

    /// Removes the idle state with the least worth from the pool and returns it; the caller gets its room. States of the script
    /// `but`, and states whose worth is not less than `limit`, stay. Returns `None` if there is no other idle state.
    fn evict(&self, but: &Script<L>, limit: f64) -> Option<Entry<L::State>> {
        let scripts = self.scripts.read().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        loop {
            let mut least: Option<(f64, &Script<L>)> = None;
            for script in scripts.values() {
                let mut inner = script.lock();
                if inner.has_idle() && !ptr::eq(&**script, but) {
                    let worth = inner.worth(now);
                    if worth < least.map_or(limit, |(least, _)| least) {
                        least = Some((worth, script));
                    }
                }
            }
            let (_, script) = least?;
            let mut inner = script.lock();
            // Another lane may just have taken this state: then search again.
            if let Some(entry) = inner.take_oldest() {
                inner.states -= 1;
                inner.counts.evictions += 1;
                return Some(entry);
            }
        }
    }
}

/// A running load. If it is dropped before `end`, because the load has failed or panicked, the counts are restored.
struct Booking<'a, L: Loader> {
    script: &'a Script<L>,
    in_room: bool,
    ended: bool,
}

impl<L: Loader> Booking<'_, L> {
    /// The load has succeeded: the caller gets the state.
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
        // Requests that waited for the load may have to load a state themselves now.
        self.script.wake_all();
        if !self.ended && self.in_room {
            self.script.room.leave();
        }
    }
}
