//! The socket over which processes that answer requests send spans to the process that exports them.
//!
//! The socket belongs to the process, like its standard error: it is opened once, before other processes are forked. The
//! exporting process may be replaced meanwhile; the next one reads the spans that were left unread. Senders never wait: spans
//! that do not fit into the socket are lost.

use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

static SPAN_SENDER: Mutex<Option<SpanSender>> = Mutex::new(None);

/// The sending end of the socket.
#[derive(Clone, Debug)]
pub struct SpanSender(Arc<OwnedFd>);

impl SpanSender {
    /// The sender of this process, if it has one.
    #[must_use]
    pub fn of_process() -> Option<Self> {
        SPAN_SENDER.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Opens the socket of this process, and returns the receiving end.
    ///
    /// # Errors
    /// The operating system refused a call.
    pub fn open() -> io::Result<OwnedFd> {
        // The socket keeps the boundaries of messages. No sender notices that a reader has ended, because this process keeps
        // both ends.
        let (sender, receiver) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Self::adopt(sender);
        Ok(receiver)
    }

    /// Sets the sending end that another process has left for this one.
    pub fn adopt(sender: OwnedFd) {
        *SPAN_SENDER.lock().unwrap_or_else(PoisonError::into_inner) = Some(Self(Arc::new(sender)));
    }

    /// Sends a message; `false` if it is lost.
    pub fn send(&self, message: &[u8]) -> bool {
        send(&self.0, message, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).is_ok()
    }
}

impl AsFd for SpanSender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
