//! Where request content is kept until the app gets it: in the input buffer, in memory, or in an unlinked file.

use oribi_host::Content;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::AsFd;
use std::path::Path;

/// The content of one request, complete or on its way.
#[derive(Debug, Default)]
pub(super) enum StoredContent {
    /// The request has none.
    #[default]
    None,
    /// It stands in the input buffer, from `start` on.
    Inline { start: usize, size: usize },
    /// In memory. `bytes` has room for all that is known to come, and maybe more; `filled` of them have come.
    Memory { bytes: Vec<u8>, filled: usize },
    /// In an unlinked file.
    File { file: File, size: u64 },
}

impl StoredContent {
    /// Room in memory for content of a known size: the spare one if it is large enough.
    pub(super) fn memory(size: usize, spare: &mut Vec<u8>) -> Self {
        // Fresh pages are the kernel's until content arrives in them, so a declared size alone costs nothing. Pages that have
        // been used before cost nothing either: the kernel need not clear them again.
        let bytes = if spare.len() >= size { std::mem::take(spare) } else { vec![0; size] };
        Self::Memory { bytes, filled: 0 }
    }

    /// Keeps memory of up to `largest` bytes for the next content.
    pub(super) fn recycle(self, spare: &mut Vec<u8>, largest: usize) {
        if let Self::Memory { bytes, .. } = self
            && bytes.len() > spare.len()
            && bytes.len() <= largest
        {
            *spare = bytes;
        }
    }

    /// A file in `directory`.
    pub(super) fn file(directory: &Path) -> io::Result<Self> {
        Ok(Self::File { file: tempfile::tempfile_in(directory)?, size: 0 })
    }

    /// Adds a piece. Content in memory that grows above `largest` moves to a file.
    pub(super) fn add(&mut self, piece: &[u8], largest: usize, directory: &Path) -> io::Result<()> {
        match self {
            // Nothing is added where nothing was announced.
            Self::None => {}
            Self::Inline { size, .. } => *size += piece.len(),
            Self::Memory { bytes, filled } if *filled + piece.len() > largest => {
                let mut spilled = Self::file(directory)?;
                spilled.add(&bytes[..*filled], largest, directory)?;
                spilled.add(piece, largest, directory)?;
                *self = spilled;
            }
            Self::Memory { bytes, filled } => {
                let end = *filled + piece.len();
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[*filled..end].copy_from_slice(piece);
                *filled = end;
            }
            Self::File { file, size } => {
                file.write_all(piece)?;
                *size += piece.len() as u64;
            }
        }
        Ok(())
    }

    /// Whether none has come.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::None => true,
            Self::Inline { size, .. } => *size == 0,
            Self::Memory { filled, .. } => *filled == 0,
            Self::File { size, .. } => *size == 0,
        }
    }

    /// Makes it ready to be read from its start.
    pub(super) fn complete(&mut self) -> io::Result<()> {
        match self {
            Self::File { file, .. } => file.rewind(),
            _ => Ok(()),
        }
    }

    /// As hosts see it; `input` is the buffer that inline content stands in.
    #[inline]
    pub(super) fn view<'a>(&'a self, input: &'a [u8]) -> Content<'a> {
        match self {
            Self::None => Content::None,
            Self::Inline { start, size } => Content::Memory(&input[*start..*start + *size]),
            Self::Memory { bytes, filled } => Content::Memory(&bytes[..*filled]),
            Self::File { file, size } => Content::File { file: file.as_fd(), size: *size },
        }
    }
}
