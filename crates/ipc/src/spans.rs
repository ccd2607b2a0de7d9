//! The way of spans to the process that exports them: a socket that all processes which answer requests have inherited.
//!
//! It belongs to the process, as its standard error does: it is opened once, before others are forked, and never again. The process that
//! exports spans may be another one meanwhile; what it has not read is there for the next. Nobody waits for it: what the socket does
//! not take is lost.

use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

static WAY: Mutex<Option<Way>> = Mutex::new(None);

/// The end of the socket for those who send spans.
#[derive(Clone, Debug)]
pub struct Way(Arc<OwnedFd>);

impl Way {
    /// That of this process; `None`: it has none.
    #[must_use]
    pub fn of_process() -> Option<Self> {
        WAY.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gives this process one, and returns the other end.
    ///
    /// # Errors
    /// An error of the system.
    pub fn open() -> io::Result<OwnedFd> {
        // Each message is read as it was sent, and a reader who has gone is noticed by nobody, because this process keeps both ends.
        let (sender, receiver) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Self::adopt(sender);
        Ok(receiver)
    }

    /// Gives this process the one that another has left for it.
    pub fn adopt(sender: OwnedFd) {
        *WAY.lock().unwrap_or_else(PoisonError::into_inner) = Some(Self(Arc::new(sender)));
    }

    /// Sends a message; `false`: it is lost.
    pub fn send(&self, message: &[u8]) -> bool {
        send(&self.0, message, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).is_ok()
    }
}

impl AsFd for Way {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
