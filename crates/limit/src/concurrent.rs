//! The numbers of open requests of clients, in shared memory.

use crate::Key;
use crate::set::{Sets, WAYS};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;

/// The bits of an entry that hold a count; the others hold the tag of its key.
const COUNT_BITS: u32 = 24;
const COUNT: u64 = (1 << COUNT_BITS) - 1;
const TAG_BITS: u32 = u64::BITS - COUNT_BITS;

/// The numbers of open requests of the clients of a rule. Each process has a part of the memory, to which it alone writes, and
/// adds up the parts of all. A process that dies leaves its counts there: the process that starts in its place calls
/// [`Concurrent::clear`] before its first request, or the process that notices the death does so at once.
///
/// No lock is taken. Memory of zeros has no open requests.
#[derive(Clone, Copy, Debug)]
pub struct Concurrent<'a> {
    sets: Sets<'a>,
    own: Sets<'a>,
    /// The number of processes, and of sets for each.
    processes: usize,
    share: usize,
    most: u32,
}

/// An open request that is counted: the index of its entry. [`Concurrent::leave`] must be called with it exactly once.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a request that nobody ends is counted for ever"]
pub struct Guard(u32);

/// The guard of a request that is not counted.
const UNCOUNTED: u32 = u32::MAX;

impl<'a> Concurrent<'a> {
    /// The number of words for so many processes, each with at least so many entries. An entry has 8 bytes, and is used while
    /// its client has an open request in that process. The words should begin at a multiple of 64 bytes.
    #[must_use]
    pub const fn words(processes: usize, entries: usize) -> usize {
        Sets::words(entries) * processes
    }

    /// The counts in these words, of which each of so many processes has an equal share; this process has the index `own`. A
    /// client may have `most` open requests. Without enough words, or with an `own` that is not below `processes`, nothing is
    /// counted.
    #[must_use]
    pub fn new(words: &'a [AtomicU64], processes: usize, own: usize, most: u32) -> Self {
        let sets = Sets::new(words);
        let share = sets.count().checked_div(processes).unwrap_or_default();
        let part = if own < processes { sets.part(own, share) } else { Sets::new(&[]) };
        Self { sets, own: part, processes, share, most }
    }

    /// Counts a request of `key`. `None` if the client has as many open requests as it may have, in all processes together:
    /// their number never exceeds that. If several processes ask for the last one at the same moment, it may be that none gets
    /// it.
    ///
    /// A request is not counted if all entries of its set belong to other clients: it is not refused for lack of memory.
    #[must_use]
    pub fn enter(&self, key: Key) -> Option<Guard> {
        let index = key.set(self.share.max(1));
        let Some(set) = self.own.of(key) else { return Some(Guard(UNCOUNTED)) };
        let tag = key.tag(TAG_BITS);
        let Some(way) = increment(set, tag) else { return Some(Guard(UNCOUNTED)) };
        let guard = Guard((index * WAYS + way) as u32);
        // Each process adds its request first and counts afterwards, in one order for all (SeqCst): of several that ask at the
        // same moment, at least the last one sees all others.
        if self.count(key) > u64::from(self.most) {
            self.leave(guard);
            return None;
        }
        Some(guard)
    }

    /// Ends a request. A guard of another process ends nothing, or a request of another client: pass only own ones.
    #[allow(clippy::needless_pass_by_value, reason = "a request ends once")]
    pub fn leave(&self, guard: Guard) {
        if guard.0 == UNCOUNTED {
            return;
        }
        let Some(entry) = self.own.entry(guard.0 as usize) else { return };
        // An entry without a count is free, so it loses its tag as well.
        let _ = entry.fetch_update(SeqCst, SeqCst, |word| match word & COUNT {
            0 => None,
            1 => Some(0),
            _ => Some(word - 1),
        });
    }

    /// The number of open requests of `key`, in all processes.
    #[must_use]
    pub fn count(&self, key: Key) -> u64 {
        let tag = key.tag(TAG_BITS);
        let sets = (0..self.processes).filter_map(|process| self.sets.part(process, self.share).of(key));
        sets.flatten().map(|entry| entry.load(SeqCst)).filter(|word| word >> COUNT_BITS == tag).map(|word| word & COUNT).sum()
    }

    /// Removes all counts of the process with this index. Guards of that process must not be used any more.
    pub fn clear(&self, process: usize) {
        self.sets.part(process, self.share).all().for_each(|entry| entry.store(0, SeqCst));
    }
}

/// Adds 1 to the count of a tag. Returns the index of its entry; `None` if all entries belong to others, or the count is at its
/// end.
fn increment(set: &[AtomicU64; WAYS], tag: u64) -> Option<usize> {
    loop {
        let words = set.each_ref().map(|entry| entry.load(SeqCst));
        let found = words.iter().position(|word| word >> COUNT_BITS == tag);
        let index = found.or_else(|| words.iter().position(|word| word & COUNT == 0))?;
        let count = if found.is_some() { words[index] & COUNT } else { 0 };
        if count == COUNT {
            return None;
        }
        let word = tag << COUNT_BITS | (count + 1);
        if set[index].compare_exchange_weak(words[index], word, SeqCst, SeqCst).is_ok() {
            return Some(index);
        }
    }
}
