//! The pipe by which workers wake their supervisor.

use super::signals;
use rustix::pipe::{PipeFlags, pipe_with};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The ends of the pipe in this process. A supervisor has both ends, because workers that are forked later need the write end.
#[derive(Debug, Default)]
pub(super) struct WakePipe {
    reader: Option<OwnedFd>,
    writer: Option<OwnedFd>,
}

impl WakePipe {
    /// Creates the pipe.
    ///
    /// # Errors
    /// The system has no descriptors for a pipe.
    pub(super) fn new() -> io::Result<Self> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        Ok(Self { reader: Some(reader), writer: Some(writer) })
    }

    /// In the supervisor: returns the end that is readable when a worker has changed its state.
    pub(super) fn arrival(&self) -> Option<BorrowedFd<'_>> {
        self.reader.as_ref().map(AsFd::as_fd)
    }

    /// In the supervisor: empties the pipe, and waits for the next wake-up.
    pub(super) fn rearm(&self) {
        self.reader.iter().for_each(signals::empty);
    }

    /// In a worker: returns the write end. Closes the read end, because otherwise the app could consume wake-ups of the
    /// supervisor.
    ///
    /// # Errors
    /// This process no longer has the write end.
    pub(super) fn into_writer(self) -> io::Result<OwnedFd> {
        self.writer.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}
