//! The doorbell, by which a lane that was woken for a connection and cannot take it wakes another lane.
//!
//! If lanes share a listener, the kernel wakes one sleeping lane for each connection. That lane may be unable to take it: it
//! is in the middle of a batch, it has reached a limit, or it has more connections than others. The kernel does not wake
//! another one, so the lane rings the doorbell, a further descriptor at which all lanes wait in the same way. The lane that it
//! wakes checks the listeners.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// An eventfd that is readable while it has been rung more often than answered: each ring is for another connection.
#[derive(Debug)]
pub struct SharedDoorbell(OwnedFd);

impl SharedDoorbell {
    /// A doorbell for this process and its forked children.
    ///
    /// # Errors
    /// The operating system refused a call.
    pub fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK | EventfdFlags::SEMAPHORE;
        Ok(Self(eventfd(0, flags)?))
    }

    /// Wakes a sleeping lane; if none sleeps, the next lane that waits returns at once.
    pub fn ring(&self) {
        // It fails only after 2^64 unanswered rings; then the doorbell is still ringing.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Answers one ring: the caller then checks the listeners.
    pub fn answer(&self) {
        // Another lane may have answered first. Checking the listeners anyway is harmless.
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for SharedDoorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
