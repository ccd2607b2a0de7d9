//! How a lane that was told of a connection, and does not take it, tells the next one.
//!
//! Where lanes share a listener, the kernel wakes one of those that sleep for each connection. That one may have something else to
//! do by then: it is in the middle of a batch, it has reached a limit, it has more connections than others. The kernel does not
//! ask again, so the lane rings: the bell is one more descriptor at which all lanes wait in the same way, and whoever is woken by
//! it looks at the listeners.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Readable while it has been rung more often than it was answered: each ring is for another connection.
#[derive(Debug)]
pub struct Bell(OwnedFd);

impl Bell {
    /// A bell for this process and those that it forks.
    ///
    /// # Errors
    /// The system's refusal.
    pub fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK | EventfdFlags::SEMAPHORE;
        Ok(Self(eventfd(0, flags)?))
    }

    /// Wakes a lane that sleeps, or has those that do not look when they next wait.
    pub fn ring(&self) {
        // It can fail only where nobody has answered for 2^64 rings: it rings still.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Answers one ring: who calls this sees to the listeners.
    pub fn answer(&self) {
        // Another lane may have been quicker. Looking at the listeners all the same does no harm.
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
