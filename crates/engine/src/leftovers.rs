//! Gives memory back to the operating system when a burst of traffic is over.
//!
//! Freed memory stays with the allocator, and pools keep buffers for the next requests. That is right while requests arrive,
//! and wrong for the hours after. An app's own memory for large content also stays in the same allocator. The engine counts the
//! bytes that were received and sent: after many bytes, when few more have followed for a moment, the engine empties its pools
//! and makes the allocator give back all free pages. Little traffic never has this effect, and neither has a pause between
//! requests.

use super::Engine;
use super::{input, output};
use oribi_io::Backend;
use oribi_io::process::give_back_freed_memory;
use std::time::Duration;

/// A burst: this many bytes were received and sent since memory was last given back. Fewer bytes leave too little memory
/// behind.
const BURST: u64 = 16 << 20;

/// A burst is over when fewer bytes than these have followed in a [`PAUSE`]. Probes and open connections go on causing a few.
const TRICKLE: u64 = 256 << 10;

/// The time for which a burst must be over.
const PAUSE: Duration = Duration::from_secs(1);

/// Detects bursts that have left memory behind. All its numbers of bytes are totals: bytes received and sent since the engine
/// was created, or since an earlier time.
#[derive(Debug, Default)]
pub(super) struct Leftovers {
    /// Bytes when memory was last given back.
    given_back: u64,
    /// The time of the next check whether the burst is over; `None` without a burst.
    look: Option<Duration>,
    /// Bytes at the last check.
    seen: u64,
}

impl Leftovers {
    /// Starts at the total `moved`, whose bytes have left no memory behind.
    pub(super) fn since(moved: u64) -> Self {
        Self { given_back: moved, ..Self::default() }
    }

    /// Whether a new burst has begun.
    #[inline]
    fn has_begun(&mut self, moved: u64, now: Duration) -> bool {
        // The total is in shared memory, where another process may have overwritten it.
        let begins = self.look.is_none() && moved.wrapping_sub(self.given_back) >= BURST;
        if begins {
            (self.look, self.seen) = (Some(now + PAUSE), moved);
        }
        begins
    }

    /// The time of the next check whether the burst is over; `None` without a burst.
    #[inline]
    pub(super) const fn due(&self) -> Option<Duration> {
        self.look
    }

    /// Whether the burst is over.
    #[cold]
    fn is_over(&mut self, moved: u64, now: Duration) -> bool {
        let goes_on = moved.wrapping_sub(self.seen) >= TRICKLE;
        if goes_on {
            (self.look, self.seen) = (Some(now + PAUSE), moved);
        } else {
            (self.look, self.given_back) = (None, moved);
        }
        !goes_on
    }
}

impl<B: Backend> Engine<'_, B> {
    /// Checks for a new burst, and returns how long the wait that begins now may last, at most `timeout`.
    #[inline]
    pub(super) fn look_for_burst(&mut self, timeout: Option<Duration>) -> Option<Duration> {
        let begins = self.memory.leftovers.has_begun(self.tally.moved(), self.backend.now());
        if begins { Some(timeout.map_or(PAUSE, |timeout| timeout.min(PAUSE))) } else { timeout }
    }

    /// Gives memory back if a burst is over.
    #[inline]
    pub(super) fn see_to_leftovers(&mut self, now: Duration) {
        if self.memory.leftovers.due().is_some_and(|due| now >= due) && self.memory.leftovers.is_over(self.tally.moved(), now) {
            self.give_memory_back();
        }
    }

    #[cold]
    #[inline(never)]
    fn give_memory_back(&mut self) {
        (self.memory.inputs, self.memory.outputs) = (input::Pool::default(), output::Pool::default());
        (self.memory.spool, self.memory.spare_content, self.memory.head_text) = (Vec::new(), Vec::new(), Vec::new());
        (self.memory.spare_requests, self.memory.spare_variables, self.memory.spare_drafts) =
            (Vec::new(), Vec::new(), Vec::new());
        give_back_freed_memory();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_back_once_for_each_burst_when_it_is_over() {
        let mut leftovers = Leftovers::since(7 * BURST);
        let (mut moved, mut now) = (7 * BURST + BURST - 1, PAUSE);
        assert!(!leftovers.has_begun(moved, now), "that is no burst");
        moved += 1;
        assert!(leftovers.has_begun(moved, now));
        assert!(!leftovers.has_begun(moved, now), "that is known");
        for _ in 0..100 {
            assert_eq!(leftovers.due(), Some(now + PAUSE));
            moved += TRICKLE;
            now += PAUSE;
            assert!(!leftovers.is_over(moved, now), "it goes on");
        }
        moved += TRICKLE - 1;
        now += PAUSE;
        assert!(leftovers.is_over(moved, now));
        assert_eq!(leftovers.due(), None);
        moved += BURST - 1;
        assert!(!leftovers.has_begun(moved, now), "nothing is due for what is no burst");
        assert!(leftovers.has_begun(moved + 1, now));
    }

    #[test]
    fn a_number_that_becomes_smaller_does_no_harm() {
        let mut leftovers = Leftovers::since(1000);
        assert!(leftovers.has_begun(0, PAUSE));
        assert!(leftovers.is_over(u64::MAX, PAUSE * 2) || leftovers.due().is_some());
    }
}
