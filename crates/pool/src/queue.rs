//! The queue of complete requests: a worker that takes a request owns it.
//!
//! The edge writes an entry and then moves the tail. A worker takes a request by one compare-and-swap of the word of the
//! entry's slot. The swap also writes the worker's index, so each taken request has an owner, whenever a process dies. The head
//! is only the position where a search begins: all entries before the head have been taken or withdrawn, and can never be taken
//! again, because each use of a slot has its own serial number. So any worker may move the head past such entries, and a worker
//! that uses an old head only searches longer.

use crate::mapping::Readable;
use crate::shape::Layout;
use crate::step::step;
use crate::words::{Entry, Ownership};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};

/// The queue as a worker sees it.
pub(crate) struct Queue<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) requests: &'a Readable,
    pub(crate) claims: &'a [AtomicU64],
}

impl Queue<'_> {
    /// The number of requests that wait.
    pub(crate) fn depth(&self) -> usize {
        self.positions().filter(|position| self.waits(*position)).count()
    }

    /// Whether a request waits. Unlike [`Self::depth`], this stops at the first one, so that it costs no more in a long queue.
    pub(crate) fn has_waiting(&self) -> bool {
        self.positions().any(|position| self.waits(position))
    }

    /// The positions at which requests may wait.
    fn positions(&self) -> std::ops::Range<u64> {
        let tail = self.requests.load(Layout::TAIL, SeqCst);
        self.start(tail, self.claims[Layout::HEAD].load(Acquire))..tail
    }

    fn waits(&self, position: u64) -> bool {
        let entry = Entry::from_bits(self.requests.load(self.layout.entry(position), Acquire));
        entry.filter(|entry| entry.slot < self.layout.shape.slots).is_some_and(|entry| {
            let queued = Ownership::Queued(entry.serial).bits();
            self.claims[self.layout.ownership(entry.slot)].load(Relaxed) == queued
        })
    }

    /// The position where a search begins: `head`, or the oldest position of the queue if `head` is out of range, because any
    /// worker may have written any number there.
    fn start(&self, tail: u64, head: u64) -> u64 {
        let most = self.layout.queue as u64;
        if tail.wrapping_sub(head) > most { tail.saturating_sub(most) } else { head }
    }

    /// Takes the oldest waiting request for `worker`. Before it does, it notes the entry in `holding`.
    #[inline]
    pub(crate) fn take(&self, worker: u32, holding: &AtomicU64) -> Option<Entry> {
        let tail = self.requests.load(Layout::TAIL, SeqCst);
        let head = self.claims[Layout::HEAD].load(Acquire);
        for position in self.start(tail, head)..tail {
            let entry = Entry::from_bits(self.requests.load(self.layout.entry(position), Acquire));
            if let Some(entry) = entry.filter(|entry| entry.slot < self.layout.shape.slots)
                && self.claim(entry, worker, holding)
            {
                self.advance(head, position + 1);
                return Some(entry);
            }
        }
        self.advance(head, tail);
        None
    }

    /// Whether [`Queue::take`] would find no entry to check.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.requests.load(Layout::TAIL, SeqCst) == self.claims[Layout::HEAD].load(Acquire)
    }

    /// Whether there seems to be something to take.
    #[inline]
    pub(crate) fn has_more(&self) -> bool {
        self.claims[Layout::HEAD].load(Relaxed) < self.requests.load(Layout::TAIL, Relaxed)
    }

    fn claim(&self, entry: Entry, worker: u32, holding: &AtomicU64) -> bool {
        let ownership = &self.claims[self.layout.ownership(entry.slot)];
        let queued = Ownership::Queued(entry.serial).bits();
        if ownership.load(Relaxed) != queued {
            return false;
        }
        // The note is written before the swap: if a stranger overwrites the slot's word, the edge can still distinguish a
        // request that a worker has taken from a request that no worker has. Only the latter may go to another worker.
        step();
        holding.store(entry.bits(), SeqCst);
        step();
        let taken = Ownership::Taken(entry.serial, worker).bits();
        let outcome = ownership.compare_exchange(queued, taken, AcqRel, Relaxed);
        if outcome.is_err() {
            step();
            holding.store(0, SeqCst);
        }
        outcome.is_ok()
    }

    /// Moves the head to `position`: all entries before it are taken or withdrawn.
    fn advance(&self, head: u64, position: u64) {
        if head != position {
            step();
            let _ = self.claims[Layout::HEAD].compare_exchange(head, position, AcqRel, Relaxed);
        }
    }
}
