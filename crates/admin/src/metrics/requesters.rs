//! Serves metrics to the server's own processes, in the first process: see [`super::metrics_request`].

use super::metrics_request::{Receiver, framed};
use super::text::Format;
use crate::outgoing::Outgoing;
use rustix::event::{PollFd, PollFlags};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// The most unfinished answers. Each needs a descriptor.
const MOST: usize = 32;
/// The number of requests read in one turn, before the process continues with its own work.
const READ_AT_ONCE: usize = 16;
/// The time that a process may take to read an answer. If its event loop is blocked for that long, it does not serve its
/// clients either.
const PATIENCE: Duration = Duration::from_secs(5);

/// The processes that wait for an answer, and the source of requests.
#[derive(Debug)]
pub(super) struct Requesters {
    receiver: Receiver,
    answered: Vec<(OwnedFd, Outgoing)>,
}

impl Requesters {
    pub(super) const fn new(receiver: Receiver) -> Self {
        Self { receiver, answered: Vec::new() }
    }

    /// Returns the descriptors to wait for.
    pub(super) fn polled(&self) -> impl Iterator<Item = PollFd<'_>> {
        let more = (self.answered.len() < MOST).then(|| PollFd::from_borrowed_fd(self.receiver.as_fd(), PollFlags::IN));
        more.into_iter().chain(self.answered.iter().map(|(socket, _)| PollFd::new(socket, PollFlags::OUT)))
    }

    /// Returns the earliest deadline of an answer.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.answered.iter().map(|(_, answer)| answer.until).min()
    }

    /// Sends pending answers; returns the new requests.
    pub(super) fn attend(&mut self, now: Instant) -> Vec<(OwnedFd, Format)> {
        self.answered.retain_mut(|(socket, answer)| now < answer.until && !answer.send(socket));
        let room = MOST.saturating_sub(self.answered.len()).min(READ_AT_ONCE);
        std::iter::from_fn(|| self.receiver.next()).take(room).collect()
    }

    /// Sends metrics to a process that has asked for them.
    pub(super) fn answer(&mut self, socket: OwnedFd, metrics: &[u8], now: Instant) {
        let mut answer = Outgoing::new(framed(metrics), now + PATIENCE);
        if !answer.send(&socket) {
            self.answered.push((socket, answer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::metrics_request::{MetricsClient, Outcome};
    use super::*;

    #[test]
    fn who_does_not_read_delays_nobody_and_is_left_in_time() {
        let (receiver, now) = (MetricsClient::open().expect("a pair"), Instant::now());
        let (line, mut requesters) = (MetricsClient::of_process().expect("it was just opened"), Requesters::new(receiver));
        // More than a socket buffer holds.
        let metrics = vec![b'a'; 4 << 20];
        let mut metrics_requests: Vec<_> = (0..MOST + 3).map(|_| line.ask(Format::Plain).expect("there is room")).collect();
        let mut count = 0;
        loop {
            let asked = requesters.attend(now);
            if asked.is_empty() {
                break;
            }
            assert!(asked.len() <= READ_AT_ONCE);
            for (socket, _) in asked {
                requesters.answer(socket, &metrics, now);
                count += 1;
            }
        }
        assert_eq!((count, requesters.polled().count()), (MOST, MOST), "nobody else is let in");
        // One of the clients reads, and makes room for another.
        while metrics_requests[0].read() == Outcome::Pending {
            requesters.attend(now);
        }
        assert_eq!(metrics_requests[0].read(), Outcome::Metrics(&metrics));
        assert_eq!(requesters.next_deadline(), Some(now + PATIENCE));
        assert_eq!(requesters.attend(now + PATIENCE).len(), 2, "those who had no room");
        assert_eq!(metrics_requests[1].read(), Outcome::Failed);
        assert_eq!(requesters.next_deadline(), None);
    }
}
