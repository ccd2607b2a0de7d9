//! Sets of entries: the places where the entry of a key may be.

use crate::Key;
use core::sync::atomic::AtomicU64;

/// The number of entries of a set: one cache line.
pub(crate) const WAYS: usize = 8;

/// Sets that are one after another in the memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sets<'a> {
    ways: &'a [[AtomicU64; WAYS]],
}

impl<'a> Sets<'a> {
    /// The sets in these words; words at the end that make no set are left out.
    pub(crate) const fn new(words: &'a [AtomicU64]) -> Self {
        Self { ways: words.as_chunks().0 }
    }

    /// The number of words for at least so many entries.
    pub(crate) const fn words(entries: usize) -> usize {
        let sets = entries.div_ceil(WAYS);
        if sets == 0 { WAYS } else { sets * WAYS }
    }

    pub(crate) const fn count(&self) -> usize {
        self.ways.len()
    }

    /// The sets with the numbers from `index * count` on. Empty if there are not so many.
    pub(crate) fn part(&self, index: usize, count: usize) -> Self {
        let start = index.saturating_mul(count);
        Self { ways: self.ways.get(start..start.saturating_add(count)).unwrap_or_default() }
    }

    /// The set of a key; `None` if there are no sets.
    pub(crate) fn of(&self, key: Key) -> Option<&'a [AtomicU64; WAYS]> {
        self.ways.get(key.set(self.ways.len()))
    }

    /// The entry with this index, counted over all sets.
    pub(crate) fn entry(&self, index: usize) -> Option<&'a AtomicU64> {
        self.ways.get(index / WAYS).map(|set| &set[index % WAYS])
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &'a AtomicU64> {
        self.ways.iter().flatten()
    }
}
