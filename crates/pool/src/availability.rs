//! Whether workers answer the requests of an app, as the parent process of edge and workers has said.

use crate::mapping::Shared;
use crate::memory::Memory;
use crate::shape::{Layout, WORD};
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::SeqCst;

/// Whether workers answer the requests of an app.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Availability {
    /// Workers answer requests, or will.
    Available = 0,
    /// No request should wait for a worker.
    Unavailable = 1,
    /// There is no worker, and one starts as soon as the parent process knows that there is a request.
    Asleep = 2,
}

impl Memory {
    /// Informs the edge whether workers will answer requests.
    ///
    /// # Errors
    /// The operating system refuses to map the memory.
    pub fn set_availability(&self, availability: Availability) -> io::Result<()> {
        let requests = Shared::map(self.file.as_fd(), self.layout.requests())?;
        requests.words()[Layout::AVAILABILITY].store(availability as u64, SeqCst);
        self.edge_doorbell.ring();
        Ok(())
    }

    /// Returns the number of requests that were ever put into the queue. If it has not changed, no request has arrived.
    ///
    /// # Errors
    /// The operating system refuses a read.
    pub fn arrived(&self) -> io::Result<u64> {
        self.word(self.layout.requests().start + Layout::TAIL * WORD)
    }
}
