//! Stores the parts of a response for which the area of its exchange has no room yet.

use oribi_pool::{NotWritten, Taken, Worker};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

/// A part of a response.
#[derive(Debug)]
pub(super) enum ResponsePart {
    /// A head, and the number of its bytes that have been written.
    Head(Vec<u8>, usize),
    Interim(Vec<u8>),
    Trailers(Vec<u8>),
    /// Content, and the number of its bytes that have been written.
    Content(Vec<u8>, usize),
    /// Commands for the connection, and the number of their bytes that have been written.
    Commands(Vec<u8>, usize),
    File {
        file: Arc<File>,
        offset: u64,
        size: u64,
    },
}

/// Parts of a response in their order. The list is allocated only when a part must wait, because most responses never need it, and
/// is never empty.
#[derive(Debug, Default)]
pub(super) struct Backlog(Option<Box<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    parts: VecDeque<ResponsePart>,
    bytes: usize,
}

impl Backlog {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the number of bytes of memory that wait.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |waiting| waiting.bytes)
    }

    pub(super) fn push(&mut self, part: ResponsePart) {
        let waiting = self.0.get_or_insert_default();
        waiting.bytes += part.size();
        waiting.parts.push_back(part);
    }

    /// Writes as much as there is room for; returns whether it has written anything.
    ///
    /// # Errors
    /// A part can never be written.
    pub(super) fn flow(&mut self, worker: &mut Worker, taken: &mut Taken) -> io::Result<bool> {
        let mut flowed = false;
        let Some(waiting) = &mut self.0 else { return Ok(false) };
        while let Some(part) = waiting.parts.front_mut() {
            let before = part.size();
            let outcome = part.write(worker, taken);
            waiting.bytes -= before - part.size();
            flowed |= part.size() < before;
            match outcome {
                Ok(()) => {
                    flowed = true;
                    waiting.bytes -= part.size();
                    waiting.parts.pop_front();
                }
                Err(NotWritten::Full) => break,
                Err(NotWritten::Never(error)) => return Err(error),
            }
        }
        if waiting.parts.is_empty() {
            self.0 = None;
        }
        if flowed {
            worker.flush(taken);
        }
        Ok(flowed)
    }
}

impl ResponsePart {
    fn size(&self) -> usize {
        match self {
            Self::Interim(bytes) | Self::Trailers(bytes) => bytes.len(),
            Self::Head(bytes, written) | Self::Content(bytes, written) | Self::Commands(bytes, written) => {
                bytes.len() - written
            }
            Self::File { .. } => size_of::<Self>(),
        }
    }

    fn write(&mut self, worker: &mut Worker, taken: &mut Taken) -> Result<(), NotWritten> {
        match self {
            Self::Head(bytes, written) => worker.head_in_pieces(taken, bytes, written),
            Self::Interim(bytes) => worker.interim(taken, bytes),
            Self::Trailers(bytes) => worker.trailers(taken, bytes),
            Self::Content(bytes, written) => {
                *written += worker.content(taken, &bytes[*written..]);
                if *written == bytes.len() { Ok(()) } else { Err(NotWritten::Full) }
            }
            Self::Commands(bytes, written) => {
                *written += worker.commands(taken, &bytes[*written..]);
                if *written == bytes.len() { Ok(()) } else { Err(NotWritten::Full) }
            }
            Self::File { file, offset, size } => worker.file(taken, file.as_fd(), *offset, *size),
        }
    }
}
