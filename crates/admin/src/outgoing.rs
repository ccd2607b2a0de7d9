//! An answer of the first process to one of its own clients. The answer waits in memory until the socket takes it, so that a
//! slow client blocks nothing.

use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use std::os::fd::OwnedFd;
use std::time::Instant;

/// The unsent part of an answer.
#[derive(Debug)]
pub(crate) struct Outgoing {
    bytes: Vec<u8>,
    sent: usize,
    /// The time until which the client must have taken the answer.
    pub(crate) until: Instant,
}

impl Outgoing {
    pub(crate) fn new(bytes: Vec<u8>, until: Instant) -> Self {
        Self { bytes, sent: 0, until }
    }

    /// Sends as much as `socket` takes. Returns whether the answer is finished: it has been sent, or the client has
    /// disconnected.
    pub(crate) fn send(&mut self, socket: &OwnedFd) -> bool {
        while self.sent < self.bytes.len() {
            match send(socket, &self.bytes[self.sent..], SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(sent) => self.sent += sent,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return false,
                Err(_) => return true,
            }
        }
        true
    }
}
