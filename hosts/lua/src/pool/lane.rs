//! A lane's part of the pool.

use super::script::{Entry, Script};
use super::{Loader, Pool};
use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
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

    /// Like [`LaneCache::script`], for a lane that keeps the script for longer.
    pub(super) fn shared(&mut self, path: &Arc<Path>, find: impl FnOnce() -> Arc<Script<L>>) -> Arc<Script<L>> {
        self.script(path, find);
        let place = (Arc::as_ptr(path).addr() >> 5) % RECENT;
        match &self.recent[place] {
            Some((_, script)) => Arc::clone(script),
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

/// A state that a lane keeps for longer than a request, because scripts wait in it. If it is dropped instead of given back, the
/// state is thrown away.
pub(crate) struct KeptState<L: Loader> {
    script: Arc<Script<L>>,
    entry: Option<Entry<L::State>>,
}

impl<L: Loader> KeptState<L> {
    pub(super) const fn new(script: Arc<Script<L>>, entry: Entry<L::State>) -> Self {
        Self { script, entry: Some(entry) }
    }

    fn entry(&self) -> &Entry<L::State> {
        match &self.entry {
            Some(entry) => entry,
            None => unreachable!("only `end` and `drop` take it"),
        }
    }

    pub(crate) fn state(&mut self) -> &mut L::State {
        match &mut self.entry {
            Some(entry) => &mut entry.state,
            None => unreachable!("only `end` and `drop` take it"),
        }
    }

    /// Whether this is a state of the script at `path`.
    pub(crate) fn is_of(&self, path: &Path) -> bool {
        *self.script.path == *path
    }

    /// Counts another request for the state, which the lane has kept from an earlier one.
    pub(crate) fn count_request(&mut self) {
        self.script.lock().count_request();
        if let Some(entry) = &mut self.entry {
            entry.answered += 1;
        }
    }

    /// Whether the state may take further requests: its script has not been loaded again since, and the state has not answered
    /// its number of requests.
    pub(crate) fn is_current(&self, pool: &Pool<L>) -> bool {
        let entry = self.entry();
        let inner = self.script.lock();
        entry.generation == inner.generation && !(pool.is_worn(entry.answered + 1) && inner.is_replaceable())
    }

    /// Records files that the state has loaded.
    pub(crate) fn add_dependencies(&self, files: &[PathBuf]) {
        if !files.is_empty() {
            self.script.add_dependencies(files, self.entry().loaded_at);
        }
    }

    pub(super) fn end(mut self) -> (Arc<Script<L>>, Entry<L::State>) {
        match self.entry.take() {
            Some(entry) => (Arc::clone(&self.script), entry),
            None => unreachable!("only `end` and `drop` take it"),
        }
    }
}

impl<L: Loader> Drop for KeptState<L> {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            drop(entry);
            self.script.forget_state();
        }
    }
}
