//! Naps: an edge coalesces events while requests queue.
//!
//! An edge that waits in its backend wakes up for the first client that sends something. That is right while workers are
//! free. But while requests queue, the edge would only take the processor from a worker to put one more request at the end of
//! the queue. So it naps: for a part of the time that requests wait anyway, it listens only to its workers. Afterwards it
//! handles the input of all clients together. A worker that becomes idle ends a nap.

use super::AppPool;
use oribi_io::{Backend, DoorbellWait};
use std::io;
use std::time::Duration;

/// The longest nap. A nap delays a finished answer whose worker has already begun another request, a file, a probe and a
/// deadline by at most this time.
const LONGEST: Duration = Duration::from_millis(2);

/// The shortest nap. Shorter ones cost more than they save.
const SHORTEST: Duration = Duration::from_micros(100);

/// A nap takes the wait of the oldest request divided by this number.
const PART_OF_WAIT: u32 = 4;

/// If workers have answered nothing for this time, their apps are slow, and a nap would collect little input.
const PACE: Duration = Duration::from_millis(8);

/// Returns the length of a nap after this wait of the oldest request; `None` if requests hardly wait.
fn length(oldest_wait: Duration) -> Option<Duration> {
    let length = (oldest_wait / PART_OF_WAIT).min(LONGEST);
    (length >= SHORTEST).then_some(length)
}

impl<B: Backend> AppPool<'_, '_, B> {
    /// Enables naps.
    ///
    /// # Errors
    /// The operating system refused a call.
    pub(in super::super) fn enable_naps(&mut self) -> io::Result<()> {
        self.nap = Some(DoorbellWait::new(self.pool.descriptor())?);
        Ok(())
    }
    /// Naps if requests wait long enough. Returns whether the edge has napped.
    pub(in super::super) fn nap(&mut self) -> bool {
        if self.nap.is_none() || self.now().saturating_sub(self.moved) > PACE {
            return false;
        }
        // Timers that expire during the nap are handled a little later.
        let Some(length) = self.oldest_wait().and_then(length) else { return false };
        {
            // Pending output is sent before the nap.
            let mut engine = self.lane.source();
            engine.expect_prompt_answers(false);
            engine.submit();
        }
        if self.pool.prepare_to_nap()
            && let Some(nap) = &mut self.nap
        {
            nap.wait(length);
        }
        self.pool.awake();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nap_is_a_part_of_what_requests_wait() {
        let micros = Duration::from_micros;
        assert_eq!([0, 100, 399].map(micros).map(length), [None; 3]);
        let naps = [(400, 100), (4000, 1000), (8000, 2000), (1_000_000, 2000)];
        assert_eq!(naps.map(|(wait, _)| length(micros(wait))), naps.map(|(_, nap)| Some(micros(nap))));
    }
}
