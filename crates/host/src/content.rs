//! The content of a request, wherever it is kept.

use std::os::fd::BorrowedFd;

/// The content of a request, complete.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// The request has none.
    None,
    /// All of it in memory.
    Memory(&'a [u8]),
    /// All of it in an unlinked file, read from its start; the reader may move the descriptor's offset.
    File {
        /// The file, open for reading and writing.
        file: BorrowedFd<'a>,
        /// Its size in bytes.
        size: u64,
    },
}

impl Content<'_> {
    /// The number of bytes; `None` if the request has no content at all.
    #[must_use]
    pub const fn size(&self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Memory(bytes) => Some(bytes.len() as u64),
            Self::File { size, .. } => Some(*size),
        }
    }
}
