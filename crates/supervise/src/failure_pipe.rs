//! The pipe by which workers report to their supervisor why they cannot serve.

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use std::io;
use std::os::fd::OwnedFd;

/// The size of a message in bytes, at most. A write of this size is not mixed with those of other workers (PIPE_BUF, pipe(7)).
const LONGEST: usize = 4096;

/// The number of reasons that are kept until [`FailurePipe::of`] asks for them.
const KEPT: usize = 64;

/// The ends of the pipe in this process: a supervisor has both, a worker only the write end, an edge none.
#[derive(Debug, Default)]
pub(super) struct FailurePipe {
    reader: Option<OwnedFd>,
    writer: Option<OwnedFd>,
    /// Reasons that were read and that no call of [`FailurePipe::of`] has returned: process id and text.
    kept: Vec<(u32, String)>,
}

impl FailurePipe {
    /// Creates the pipe.
    ///
    /// # Errors
    /// The system has no descriptors for a pipe.
    pub(super) fn new() -> io::Result<Self> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        Ok(Self { reader: Some(reader), writer: Some(writer), kept: Vec::new() })
    }

    /// In a worker: closes the end that the supervisor reads from.
    pub(super) fn keep_writer(&mut self) {
        self.reader = None;
    }

    /// In a worker: writes the reason why `process`, this worker, cannot serve. If the pipe is full, only the log has the
    /// reason.
    pub(super) fn leave(&self, process: u32, reason: &str) {
        let mut end = reason.len().min(LONGEST - 16);
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        let line = reason[..end].replace('\0', " ");
        if let Some(writer) = &self.writer {
            let _ = rustix::io::write(writer, format!("{process} {line}\0").as_bytes());
        }
    }

    /// In the supervisor: returns the reason that worker `process`, which has ended, has written. `None` if it has written
    /// none. Keeps the last reasons of other workers, at most [`KEPT`].
    pub(super) fn of(&mut self, process: u32) -> Option<String> {
        let mut bytes = Vec::new();
        let mut buffer = [0; LONGEST];
        while let Some(reader) = &self.reader {
            match rustix::io::read(reader, &mut buffer) {
                Ok(0) => break,
                Ok(size) => bytes.extend_from_slice(&buffer[..size]),
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        for text in bytes.split(|byte| *byte == 0).map(String::from_utf8_lossy) {
            if let Some((process, reason)) = text.split_once(' ')
                && let Ok(process) = process.parse()
            {
                self.kept.push((process, reason.to_owned()));
            }
        }
        let index = self.kept.iter().rposition(|(whose, _)| *whose == process);
        let reason = index.map(|index| self.kept.remove(index).1);
        self.kept.drain(..self.kept.len().saturating_sub(KEPT));
        reason
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_read_once_and_only_for_its_process() {
        let mut reasons = FailurePipe::new().expect("a pipe is to be had");
        assert_eq!(reasons.of(7), None);
        reasons.leave(7, "no\0 such\nmodule");
        assert_eq!(reasons.of(7).as_deref(), Some("no  such\nmodule"));
        assert_eq!(reasons.of(7), None);
        reasons.leave(8, "other");
        assert_eq!(reasons.of(7), None);
        assert_eq!(reasons.of(8).as_deref(), Some("other"), "it was kept");
        reasons.leave(7, &"\u{e9}".repeat(LONGEST));
        let long = reasons.of(7).expect("the pipe has room");
        assert!(long.len() > LONGEST / 2 && long.chars().all(|letter| letter == '\u{e9}'));
    }
}
