//! The queue of complete requests: who takes one, has it.
//!
//! The edge writes an entry and then moves the tail. Who takes a request does so by one compare-and-swap at the slot that the
//! entry names; that writes down whose it is at once, so that no claim is without an owner, whenever somebody dies. The head only
//! says where looking begins: an entry in front of it has been taken or withdrawn, and stays so, because each use of a slot
//! has a serial number of its own. So the head may be moved by whoever has seen that, and it does not matter who forgets to.

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
    /// Takes the oldest request that nobody has for `worker`, which says in `holding` what it is about to take.
    pub(crate) fn take(&self, worker: u32, holding: &AtomicU64) -> Option<Entry> {
        let tail = self.requests.load(Layout::TAIL, SeqCst);
        let head = self.claims[Layout::HEAD].load(Acquire);
        let most = self.layout.queue as u64;
        // Whoever may write the head may write anything there.
        let start = if tail.wrapping_sub(head) > most { tail.saturating_sub(most) } else { head };
        for position in start..tail {
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

    fn claim(&self, entry: Entry, worker: u32, holding: &AtomicU64) -> bool {
        let ownership = &self.claims[self.layout.ownership(entry.slot)];
        let queued = Ownership::Queued(entry.serial).bits();
        if ownership.load(Relaxed) != queued {
            return false;
        }
        // Written before it is true. Should a stranger overwrite the slot's word, this is what tells a request that a worker has
        // taken from one that nobody has, and the second may go to another worker.
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

    /// Everything in front of `position` has been seen to be taken.
    fn advance(&self, head: u64, position: u64) {
        if head != position {
            step();
            let _ = self.claims[Layout::HEAD].compare_exchange(head, position, AcqRel, Relaxed);
        }
    }
}
