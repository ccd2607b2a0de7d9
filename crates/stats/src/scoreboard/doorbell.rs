//! The doorbell, by which a lane that was woken for a connection and cannot take it wakes another lane.
//!
//! If lanes share a listener, the kernel wakes one sleeping lane for each connection. That lane may be unable to take the
//! connection: it is in the middle of a batch, it has reached a limit, or it has more connections than others. The kernel
//! does not wake another lane then. So the lane rings the doorbell: another descriptor, on which all lanes wait as they wait
//! on the listeners. The lane that the doorbell wakes checks the listeners.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// An eventfd that is readable while it has been rung more often than answered. Each ring is for one connection that needs
/// another lane.
#[derive(Debug)]
pub struct SharedDoorbell(OwnedFd);

impl SharedDoorbell {
    /// Creates a doorbell for this process and the children that it forks later.
    ///
    /// # Errors
    /// The operating system refused a call.
    pub fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK | EventfdFlags::SEMAPHORE;
        Ok(Self(eventfd(0, flags)?))
    }

    /// Wakes a sleeping lane; if none sleeps, the next lane that waits returns at once.
    pub fn ring(&self) {
        // The call fails only after 2^64 unanswered rings. Then the doorbell is still readable.
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
