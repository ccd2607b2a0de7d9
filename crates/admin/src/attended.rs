//! Non-blocking clients of the first process: those of the control socket, and those that request metrics. The first process
//! serves them in its own event loop, beside its other work.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// The time for which no client is accepted after accepting has failed for lack of descriptors or memory. Without this pause,
/// waiting clients would keep waking this process.
const PAUSE: Duration = Duration::from_secs(1);

/// The accepting side of a listener.
#[derive(Debug, Default)]
pub(crate) struct Entrance {
    /// The end of the pause; `None` while clients are accepted.
    paused: Option<Instant>,
}

impl Entrance {
    /// Whether clients are accepted now.
    pub(crate) fn is_open(&self) -> bool {
        self.paused.is_none()
    }

    /// Returns the end of the pause; `None` while clients are accepted.
    pub(crate) fn opens_at(&self) -> Option<Instant> {
        self.paused
    }

    /// Ends the pause once its time has passed.
    pub(crate) fn open_if_due(&mut self, now: Instant) {
        self.paused = self.paused.filter(|until| now < *until);
    }

    /// Accepts a client that waits at `listener`. Returns `None` if no client waits or accepting is paused, or if the
    /// operating system refuses. A refusal begins a pause and is logged, with `consequence` in the message.
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

/// The fate of a client after a turn.
pub(crate) enum Next<T> {
    Stay,
    /// The client has sent this request, and stays.
    Asked(T),
    Leave,
}

/// A non-blocking client of the first process.
pub(crate) trait Attended {
    /// The type of its requests.
    type Request;

    /// Returns the descriptor of the client and the events to wait for.
    fn polled(&self) -> PollFd<'_>;

    /// Does as much as is possible for the client now, after the events `seen`.
    fn go_on(&mut self, seen: PollFlags, now: Instant) -> Next<Self::Request>;
}

/// Serves all clients, and removes those that leave. Returns their requests.
pub(crate) fn attend<C: Attended>(clients: &mut Vec<C>, now: Instant) -> Vec<C::Request> {
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
        // The kernel cannot accept from a descriptor that is not a socket.
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
