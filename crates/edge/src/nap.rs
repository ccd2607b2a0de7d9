//! How an edge rests while requests queue: it naps.
//!
//! An edge that waits in its backend wakes for the first client that sends something. While workers are free, that is what
//! everybody wants. While requests queue, it only takes the processor from a worker, to put one more request at the end of the
//! queue. So then the edge listens for its workers alone for a part of the time that requests wait anyhow, and afterwards it
//! handles what all clients have sent meanwhile together. A worker that has nothing more to do ends a nap.

use super::EdgeLoop;
use oribi_io::{Backend, BellWait};
use std::io;
use std::time::Duration;

/// The longest nap. An answer that is finished waits at most for that long if its worker has begun another request since, and so
/// do a file, a probe, and a deadline.
const LONGEST: Duration = Duration::from_millis(2);

/// The shortest nap. Shorter ones cost more than they collect.
const SHORTEST: Duration = Duration::from_micros(100);

/// A nap takes this part of the time that the oldest request has waited for a worker.
const PART_OF_WAIT: u32 = 4;

/// If workers have answered nothing for that time, their apps are slow: then there is little to collect in a nap.
const PACE: Duration = Duration::from_millis(8);

/// How long to nap while the oldest request has waited for that time; `None`: requests hardly wait.
fn length(oldest_wait: Duration) -> Option<Duration> {
    let length = (oldest_wait / PART_OF_WAIT).min(LONGEST);
    (length >= SHORTEST).then_some(length)
}

impl<B: Backend> EdgeLoop<'_, B> {
    /// Lets it nap. Naps take the system's time, so an edge whose backend has a clock of its own must not.
    ///
    /// # Errors
    /// An error of the system.
    pub(super) fn napping(self) -> io::Result<Self> {
        let nap = BellWait::new(self.pool.descriptor())?;
        Ok(Self { nap: Some(nap), ..self })
    }

    /// Naps if requests have queued for long, and returns whether it has.
    pub(super) fn nap(&mut self) -> bool {
        if self.nap.is_none() || self.now().saturating_sub(self.moved) > PACE {
            return false;
        }
        // What is due by the clock meanwhile comes a little later.
        let Some(length) = self.oldest_wait().and_then(length) else { return false };
        {
            // Nothing that is to be sent waits for the end of a nap.
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
