//! A lane's part of the pool.

use super::Loader;
use super::script::{Entry, Script};
use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::Arc;

/// The most scripts that a lane remembers; beyond this it starts afresh.
const REMEMBERED: usize = 4096;

/// The number of slots for the scripts that the lane has used last; a power of two.
const RECENT: usize = 64;

/// A script with the path under which it was requested.
type Met<L> = (Arc<Path>, Arc<Script<L>>);

/// The scripts that a lane has used. With this cache the lane takes no lock except that of the script.
pub(crate) struct LaneCache<L: Loader> {
    /// The last used scripts, each in the slot that the address of its path selects: the path finder returns the same
    /// `Arc<Path>` for the same script. This table keeps its paths alive, so no other path can get the same address.
    recent: [Option<Met<L>>; RECENT],
    known: HashMap<Arc<Path>, Arc<Script<L>>>,
}

impl<L: Loader> Default for LaneCache<L> {
    fn default() -> Self {
        Self { recent: [const { None }; RECENT], known: HashMap::new() }
    }
}

impl<L: Loader> LaneCache<L> {
    #[inline]
    pub(super) fn script(&mut self, path: &Arc<Path>, find: impl FnOnce() -> Arc<Script<L>>) -> &Script<L> {
        // Two paths are at least 32 bytes apart in memory.
        let place = (Arc::as_ptr(path).addr() >> 5) % RECENT;
        let same = matches!(&self.recent[place], Some((met, _)) if Arc::ptr_eq(met, path));
        if !same {
            self.turn_to(place, path, find);
        }
        match &self.recent[place] {
            Some((_, script)) => script,
            None => unreachable!("`turn_to` has just set it"),
        }
    }

    #[cold]
    fn turn_to(&mut self, place: usize, path: &Arc<Path>, find: impl FnOnce() -> Arc<Script<L>>) {
        if self.known.len() >= REMEMBERED {
            self.known.clear();
        }
        let script = self.known.entry(Arc::clone(path)).or_insert_with(find);
        self.recent[place] = Some((Arc::clone(path), Arc::clone(script)));
    }
}

/// A state that a lane has taken. If it is dropped instead of given back, as by a panic, the state is thrown away.
pub(crate) struct Lease<'c, L: Loader> {
    script: &'c Script<L>,
    entry: Option<Entry<L::State>>,
}

impl<'c, L: Loader> Lease<'c, L> {
    #[inline]
    pub(super) const fn new(script: &'c Script<L>, entry: Entry<L::State>) -> Self {
        Self { script, entry: Some(entry) }
    }

    #[inline]
    pub(super) fn end(mut self) -> (&'c Script<L>, Entry<L::State>) {
        match self.entry.take() {
            Some(entry) => (self.script, entry),
            None => unreachable!("only `end` and `drop` take it"),
        }
    }
}

impl<L: Loader> Deref for Lease<'_, L> {
    type Target = L::State;

    #[inline]
    fn deref(&self) -> &L::State {
        match &self.entry {
            Some(entry) => &entry.state,
            None => unreachable!("only `end` and `drop` take it"),
        }
    }
}

impl<L: Loader> DerefMut for Lease<'_, L> {
    #[inline]
    fn deref_mut(&mut self) -> &mut L::State {
        match &mut self.entry {
            Some(entry) => &mut entry.state,
            None => unreachable!("only `end` and `drop` take it"),
        }
    }
}

impl<L: Loader> Drop for Lease<'_, L> {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            drop(entry);
            self.script.forget_state();
        }
    }
}
