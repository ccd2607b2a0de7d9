//! The epoll instance of a context. The lane watches it as one descriptor, which becomes readable when any socket in it changes.

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The number of events read at once.
const EVENTS: usize = 64;

/// A change of a socket, reported once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) token: u64,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// The peer has ended or broken the connection: reading goes on until an end or an error.
    pub(crate) ended: bool,
}

/// The sockets of a context.
#[derive(Debug)]
pub(crate) struct Poller(OwnedFd);

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(epoll::create(CreateFlags::CLOEXEC)?))
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Watches a socket until it is closed.
    pub(crate) fn add(&self, socket: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        let changes = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(&self.0, socket, EventData::new_u64(token), changes)?)
    }

    /// Ends the watch of a socket of which another descriptor stays open.
    pub(crate) fn remove(&self, socket: BorrowedFd<'_>) {
        // It fails only if the socket is not watched.
        let _ = epoll::delete(&self.0, socket);
    }

    /// Appends the changes since the last call; returns whether there may be more.
    pub(crate) fn take(&self, changes: &mut Vec<Change>) -> io::Result<bool> {
        let mut events = [MaybeUninit::uninit(); EVENTS];
        let found = match epoll::wait(&self.0, &mut events, Some(&Timespec::default())) {
            Ok((found, _)) => found,
            Err(Errno::INTR) => return Ok(true),
            Err(error) => return Err(error.into()),
        };
        let more = found.len() == EVENTS;
        changes.extend(found.iter().map(|event| {
            let flags = event.flags;
            let ended = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
            Change {
                token: event.data.u64(),
                readable: ended || flags.contains(EventFlags::IN),
                writable: flags.intersects(EventFlags::OUT | EventFlags::HUP | EventFlags::ERR),
                ended,
            }
        }));
        Ok(more)
    }
}
