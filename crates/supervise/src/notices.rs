//! Notices: a pipe by which workers wake their supervisor.

use super::signals;
use rustix::pipe::{PipeFlags, pipe_with};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What this process has of the pipe: a supervisor has both ends, for itself and for workers that are forked later.
#[derive(Debug, Default)]
pub(super) struct Notices {
    reader: Option<OwnedFd>,
    writer: Option<OwnedFd>,
}

impl Notices {
    /// # Errors
    /// An error of the system.
    pub(super) fn new() -> io::Result<Self> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        Ok(Self { reader: Some(reader), writer: Some(writer) })
    }

    /// In the supervisor: readable when a worker has something to say.
    pub(super) fn arrival(&self) -> Option<BorrowedFd<'_>> {
        self.reader.as_ref().map(AsFd::as_fd)
    }

    /// In the supervisor: waits for the next notice.
    pub(super) fn rearm(&self) {
        self.reader.iter().for_each(signals::empty);
    }

    /// In a worker: the end to write to. The other end is closed, or the app could take notices away from the supervisor.
    ///
    /// # Errors
    /// This process has it no more.
    pub(super) fn into_writer(self) -> io::Result<OwnedFd> {
        self.writer.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}
