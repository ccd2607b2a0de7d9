//! How an edge rests while requests queue: it naps.
//!
//! An edge that waits in its backend wakes for the first client that sends something. While workers are free, that is what
//! everybody wants. While requests queue, it only takes the processor from a worker, to put one more request at the end of the
//! queue. So then the edge listens for its workers alone for a part of the time that requests wait anyhow, and afterwards it
//! handles what all clients have sent meanwhile together. A worker that has nothing more to do ends a nap.

use super::EdgeLoop;
use oribi_io::Backend;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

/// The longest nap. An answer that is finished waits at most for that long if its worker has begun another request since, and so
/// do a file, a probe, and a deadline.
const LONGEST: Duration = Duration::from_millis(2);

/// The system's waits count in these.
const UNIT: Duration = Duration::from_millis(1);

/// A nap takes this part of the time that the oldest request has waited for a worker.
const PART_OF_WAIT: u32 = 8;

/// If workers have answered nothing for that time, their apps are slow: then there is little to collect in a nap.
const PACE: Duration = Duration::from_millis(8);

/// A wait for the pool's bell alone.
#[derive(Debug)]
pub(super) struct Nap(OwnedFd);

impl Nap {
    /// # Errors
    /// An error of the system.
    pub(super) fn new(bell: BorrowedFd<'_>) -> io::Result<Self> {
        let sources = epoll::create(CreateFlags::CLOEXEC)?;
        // Each ring is news, so the bell need not be read.
        epoll::add(&sources, bell, EventData::new_u64(0), EventFlags::IN | EventFlags::ET)?;
        Ok(Self(sources))
    }

    /// Naps for that time, which is less than a second, unless a worker rings.
    fn take(&self, length: Duration) {
        let mut events = [MaybeUninit::uninit(); 1];
        let timeout = Timespec { tv_sec: 0, tv_nsec: length.subsec_nanos().into() };
        // If a signal ends it early, or the system refuses, the edge looks at everything a little sooner.
        let _ = epoll::wait(&self.0, &mut events, Some(&timeout));
    }
}

/// How long to nap, in whole milliseconds, while the oldest request has waited for that time; `None`: requests hardly wait.
fn length(oldest_wait: Duration) -> Option<Duration> {
    let length = (oldest_wait / PART_OF_WAIT).min(LONGEST);
    (length >= UNIT).then(|| Duration::from_millis(length.as_millis() as u64))
}

impl<B: Backend> EdgeLoop<'_, B> {
    /// Lets it nap. Naps take the system's time, so an edge whose backend has a clock of its own must not.
    ///
    /// # Errors
    /// An error of the system.
    pub(super) fn napping(self) -> io::Result<Self> {
        let nap = Nap::new(self.pool.descriptor())?;
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
            && let Some(nap) = &self.nap
        {
            nap.take(length);
        }
        self.pool.awake();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};
    use std::os::fd::AsFd;

    #[test]
    fn a_nap_is_a_part_of_what_requests_wait() {
        let millis = Duration::from_millis;
        assert_eq!([Duration::ZERO, UNIT, millis(7)].map(length), [None; 3]);
        assert_eq!([millis(8), millis(15), millis(16), millis(1000)].map(length), [UNIT, UNIT, LONGEST, LONGEST].map(Some));
    }

    #[test]
    fn each_ring_ends_one_nap() {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("an eventfd is to be had");
        let nap = Nap::new(bell.as_fd()).expect("epoll works");
        for _ in 0..2 {
            rustix::io::write(&bell, &1_u64.to_ne_bytes()).expect("the count has room");
            let (begun, long) = (std::time::Instant::now(), Duration::from_millis(900));
            nap.take(long);
            assert!(begun.elapsed() < long, "it was rung");
            let begun = std::time::Instant::now();
            nap.take(UNIT);
            assert!(begun.elapsed() >= UNIT, "and is over");
        }
    }
}
