//! Clients that the first process attends in its own loop, beside its work: those of the control socket, and those who ask for
//! metrics. None of them is waited for.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long nobody is accepted if the system refuses, for want of descriptors or memory. Otherwise those who wait would wake this
/// process all the time.
const PAUSE: Duration = Duration::from_secs(1);

/// Where clients come in.
#[derive(Debug, Default)]
pub(crate) struct Entrance {
    /// Until when nobody is accepted.
    paused: Option<Instant>,
}

impl Entrance {
    /// Whether clients are accepted now.
    pub(crate) fn is_open(&self) -> bool {
        self.paused.is_none()
    }

    /// When clients are accepted again, if they are not now.
    pub(crate) fn opens_at(&self) -> Option<Instant> {
        self.paused
    }

    /// Opens it again when the pause is over.
    pub(crate) fn open_if_due(&mut self, now: Instant) {
        self.paused = self.paused.filter(|until| now < *until);
    }

    /// Accepts a client who waits at `listener`; `None`: nobody does, or the system refuses. Then the log says `consequence`.
    pub(crate) fn accept(&mut self, listener: BorrowedFd<'_>, now: Instant, consequence: &str) -> Option<OwnedFd> {
        self.open_if_due(now);
        while self.is_open() {
            match accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => return Some(socket),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(Errno::AGAIN) => return None,
                Err(error) => {
                    log::warn!("{consequence}: {}", std::io::Error::from(error));
                    self.paused = Some(now + PAUSE);
                }
            }
        }
        None
    }
}

/// What becomes of a client.
pub(crate) enum Next<T> {
    Stay,
    /// It has asked for this, and stays.
    Asked(T),
    Leave,
}

/// A client.
pub(crate) trait Attended {
    /// What it asks for.
    type Wish;

    /// What to wait for.
    fn polled(&self) -> PollFd<'_>;

    /// Does what can be done for it now. `seen`: what has come of waiting for it.
    fn go_on(&mut self, seen: PollFlags, now: Instant) -> Next<Self::Wish>;
}

/// Goes on with all clients; returns what they have asked for.
pub(crate) fn attend<C: Attended>(clients: &mut Vec<C>, now: Instant) -> Vec<C::Wish> {
    if clients.is_empty() {
        return Vec::new();
    }
    let mut polled: Vec<_> = clients.iter().map(Attended::polled).collect();
    if poll(&mut polled, Some(&Timespec::default())).is_err() {
        return Vec::new();
    }
    let mut seen = polled.iter().map(PollFd::revents).collect::<Vec<_>>().into_iter();
    let mut wishes = Vec::new();
    clients.retain_mut(|client| match client.go_on(seen.next().unwrap_or(PollFlags::empty()), now) {
        Next::Stay => true,
        Next::Asked(wish) => {
            wishes.push(wish);
            true
        }
        Next::Leave => false,
    });
    wishes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;

    #[test]
    fn nobody_is_accepted_for_a_moment_when_the_system_refuses() {
        let (mut entrance, now) = (Entrance::default(), Instant::now());
        // The system refuses to accept from what is no socket.
        let none = File::open("/dev/null").expect("it is everywhere");
        assert!(entrance.accept(none.as_fd(), now, "nobody is let in").is_none());
        assert!(!entrance.is_open());
        assert_eq!(entrance.opens_at(), Some(now + PAUSE));
        entrance.open_if_due(now + PAUSE / 2);
        assert!(!entrance.is_open());
        entrance.open_if_due(now + PAUSE);
        assert!(entrance.is_open() && entrance.opens_at().is_none());
    }
}
