//! Those of the server's own processes who have asked for metrics, in the first process: see [`super::inquiry`].

use super::inquiry::{Receiver, framed};
use super::text::Format;
use crate::outgoing::Outgoing;
use rustix::event::{PollFd, PollFlags};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// The most of them whose answers have not left. Each costs a descriptor.
const MOST: usize = 32;
/// How many inquiries are read at a time, before the process goes on with its own work.
const READ_AT_ONCE: usize = 16;
/// How long somebody may take for an answer: a loop that does nothing else for so long is of no use to its clients, either.
const PATIENCE: Duration = Duration::from_secs(5);

/// Those who have asked, and where inquiries come from.
#[derive(Debug)]
pub(super) struct Inquirers {
    receiver: Receiver,
    answered: Vec<(OwnedFd, Outgoing)>,
}

impl Inquirers {
    pub(super) const fn new(receiver: Receiver) -> Self {
        Self { receiver, answered: Vec::new() }
    }

    /// What to wait for.
    pub(super) fn polled(&self) -> impl Iterator<Item = PollFd<'_>> {
        let more = (self.answered.len() < MOST).then(|| PollFd::from_borrowed_fd(self.receiver.as_fd(), PollFlags::IN));
        more.into_iter().chain(self.answered.iter().map(|(socket, _)| PollFd::new(socket, PollFlags::OUT)))
    }

    /// When the first of them has had time enough.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.answered.iter().map(|(_, answer)| answer.until).min()
    }

    /// Goes on with those who are answered; returns those who have asked since.
    pub(super) fn attend(&mut self, now: Instant) -> Vec<(OwnedFd, Format)> {
        self.answered.retain_mut(|(socket, answer)| now < answer.until && !answer.send(socket));
        let room = MOST.saturating_sub(self.answered.len()).min(READ_AT_ONCE);
        std::iter::from_fn(|| self.receiver.next()).take(room).collect()
    }

    /// Sends metrics to one who has asked.
    pub(super) fn answer(&mut self, socket: OwnedFd, metrics: &[u8], now: Instant) {
        let mut answer = Outgoing::new(framed(metrics), now + PATIENCE);
        if !answer.send(&socket) {
            self.answered.push((socket, answer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::inquiry::{Line, Outcome};
    use super::*;

    #[test]
    fn who_does_not_read_delays_nobody_and_is_left_in_time() {
        let (receiver, now) = (Line::open().expect("a pair"), Instant::now());
        let (line, mut inquirers) = (Line::of_process().expect("it was just opened"), Inquirers::new(receiver));
        // More than a socket holds.
        let metrics = vec![b'a'; 4 << 20];
        let mut inquiries: Vec<_> = (0..MOST + 3).map(|_| line.ask(Format::Plain).expect("there is room")).collect();
        let mut count = 0;
        loop {
            let asked = inquirers.attend(now);
            if asked.is_empty() {
                break;
            }
            assert!(asked.len() <= READ_AT_ONCE);
            for (socket, _) in asked {
                inquirers.answer(socket, &metrics, now);
                count += 1;
            }
        }
        assert_eq!((count, inquirers.polled().count()), (MOST, MOST), "nobody else is let in");
        // One reads, and makes room for another.
        while inquiries[0].read() == Outcome::Pending {
            inquirers.attend(now);
        }
        assert_eq!(inquiries[0].read(), Outcome::Metrics(&metrics));
        assert_eq!(inquirers.next_deadline(), Some(now + PATIENCE));
        assert_eq!(inquirers.attend(now + PATIENCE).len(), 2, "those who had no room");
        assert_eq!(inquiries[1].read(), Outcome::Failed);
        assert_eq!(inquirers.next_deadline(), None);
    }
}
