//! Where request content is stored until the app gets it: in the input buffer, in memory, or in an unlinked file.

use super::input::{BUFFER_BYTES, Input};
use crate::config::Settings;
use oribi_host::Content;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::AsFd;
use std::path::Path;

/// Smaller pieces on their way to a file are gathered up to this size: a client may send content in chunks of one byte, and each write
/// costs the same.
const GATHERED_BYTES: usize = 16 << 10;

/// The content of one request, complete or being received.
#[derive(Debug, Default)]
pub(super) enum StoredContent {
    /// The request has none.
    #[default]
    None,
    /// It is in the input buffer, starting at `start`.
    Inline { start: usize, size: usize },
    /// In memory. `bytes` has room for everything that is expected, or more; `filled` bytes have arrived.
    Memory { bytes: Vec<u8>, filled: usize },
    /// In an unlinked file, behind which small pieces are gathered; `size` bytes altogether.
    File { file: File, gathered: Vec<u8>, size: u64 },
}

/// The places for content that is about to arrive.
pub(super) struct Room<'a> {
    /// The buffer with the head, if content may follow the head there.
    pub(super) input: Option<&'a mut Input>,
    /// Memory of earlier content.
    pub(super) spare: &'a mut Vec<u8>,
    pub(super) settings: &'a Settings,
}

impl StoredContent {
    /// Content of no bytes.
    pub(super) const EMPTY: Self = Self::Memory { bytes: Vec::new(), filled: 0 };

    /// Chooses a place for content: the input buffer if all of it fits behind what has been received, else memory, else a file.
    /// Content of unknown size begins in memory.
    pub(super) fn with_room(size: Option<u64>, room: &mut Room<'_>) -> io::Result<Self> {
        let Some(size) = size else { return Ok(Self::EMPTY) };
        if let Some(input) = &mut room.input
            && size <= BUFFER_BYTES.saturating_sub(input.position()) as u64
        {
            input.pinned = true;
            return Ok(Self::Inline { start: input.position(), size: 0 });
        }
        if size > room.settings.limits.content_memory_bytes as u64 {
            return Self::file(&room.settings.temporary_directory);
        }
        // A declared size alone costs nothing, because the kernel allocates fresh pages only when content arrives. Reused pages
        // cost nothing, either, because the kernel need not clear them.
        let size = size as usize;
        let bytes = if room.spare.len() >= size { std::mem::take(room.spare) } else { vec![0; size] };
        Ok(Self::Memory { bytes, filled: 0 })
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
    fn file(directory: &Path) -> io::Result<Self> {
        Ok(Self::File { file: tempfile::tempfile_in(directory)?, gathered: Vec::new(), size: 0 })
    }

    /// Adds a piece. Content in memory that grows above `largest` moves to a file.
    pub(super) fn add(&mut self, piece: &[u8], largest: usize, directory: &Path) -> io::Result<()> {
        match self {
            // A request without content gets none.
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
            Self::File { file, gathered, size } => {
                if gathered.len() + piece.len() > GATHERED_BYTES {
                    file.write_all(gathered)?;
                    gathered.clear();
                }
                if piece.len() < GATHERED_BYTES {
                    gathered.extend_from_slice(piece);
                } else {
                    file.write_all(piece)?;
                }
                *size += piece.len() as u64;
            }
        }
        Ok(())
    }

    /// Whether the request has no content at all.
    #[inline]
    pub(super) const fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Whether no content has arrived.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::None => true,
            Self::Inline { size, .. } => *size == 0,
            Self::Memory { filled, .. } => *filled == 0,
            Self::File { size, .. } => *size == 0,
        }
    }

    /// Prepares it for reading from its start.
    pub(super) fn complete(&mut self) -> io::Result<()> {
        match self {
            Self::File { file, gathered, .. } => {
                file.write_all(&std::mem::take(gathered))?;
                file.rewind()
            }
            _ => Ok(()),
        }
    }

    /// The content in the form for hosts; `input` is the buffer with inline content.
    #[inline]
    pub(super) fn view<'a>(&'a self, input: &'a [u8]) -> Content<'a> {
        match self {
            Self::None => Content::None,
            Self::Inline { start, size } => Content::Memory(&input[*start..*start + *size]),
            Self::Memory { bytes, filled } => Content::Memory(&bytes[..*filled]),
            Self::File { file, size, .. } => Content::File { file: file.as_fd(), size: *size },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{GATHERED_BYTES, StoredContent};
    use oribi_host::Content;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    #[test]
    fn small_pieces_reach_a_file_in_blocks_and_in_order() {
        let directory = std::env::temp_dir();
        let (mut content, mut all) = (StoredContent::file(&directory).expect("a file"), Vec::new());
        let mut lengths = Vec::new();
        let sizes =
            [1; 3 * GATHERED_BYTES].into_iter().chain([GATHERED_BYTES - 1, 2, 3 * GATHERED_BYTES, 5, GATHERED_BYTES, 7]);
        for size in sizes {
            let piece: Vec<u8> = (all.len()..all.len() + size).map(|number| (number % 251) as u8).collect();
            content.add(&piece, 0, &directory).expect("there is room");
            all.extend(piece);
            let StoredContent::File { file, .. } = &content else { panic!("it stays a file") };
            lengths.push(file.metadata().expect("it is open").len());
        }
        lengths.dedup();
        assert!(lengths.len() < 12, "{} writes", lengths.len());
        content.complete().expect("there is room");
        let Content::File { file, size } = content.view(&[]) else { panic!("it stays a file") };
        assert_eq!(size, all.len() as u64);
        let file = std::fs::File::from(file.as_fd().try_clone_to_owned().expect("a descriptor"));
        let mut read = vec![0; all.len()];
        file.read_exact_at(&mut read, 0).expect("all has been written");
        assert!(read == all && file.metadata().expect("it is open").len() == size);
    }
}
