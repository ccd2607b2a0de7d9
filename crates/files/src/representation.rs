//! A file as a representation: its fields in a response, and its bytes.

use crate::coding::Coding;
use crate::conditions::Validators;
use crate::date;
use oribi_host::Piece;
use oribi_message::PreparedFields;
use rustix::fs::{Stat, fstat};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Files up to this size are kept in memory and sent together with the head by one call, which costs two thirds of the CPU time
/// of a head and a sendfile (docs/static.md). Larger files gain less, and a lane may keep a thousand.
pub(crate) const SMALL: u64 = 16 << 10;

/// The metadata of a file that changes whenever its content does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileState {
    device: u64,
    inode: u64,
    size: u64,
    /// Seconds and nanoseconds.
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileState {
    #[allow(clippy::unnecessary_cast, reason = "the types of these fields differ between architectures")]
    pub(crate) fn of(status: &Stat) -> Self {
        Self {
            device: status.st_dev as u64,
            inode: status.st_ino as u64,
            size: u64::try_from(status.st_size).unwrap_or(0),
            modified: (status.st_mtime as i64, status.st_mtime_nsec as i64),
            changed: (status.st_ctime as i64, status.st_ctime_nsec as i64),
        }
    }

    /// When it was modified, in whole seconds.
    pub(crate) fn second(&self) -> i64 {
        self.modified.0
    }
}

/// A file that can be sent.
#[derive(Debug)]
pub struct Representation {
    pub(crate) state: FileState,
    pub(crate) media_type: &'static str,
    pub(crate) coding: Option<Coding>,
    etag: Box<[u8]>,
    modified: u64,
    last_modified: Box<[u8]>,
    pub(crate) content: Content,
    /// The fields of a response with the whole file, if they are always the same.
    pub(crate) prepared: Option<PreparedFields>,
}

/// Where the bytes are.
#[derive(Debug)]
pub(crate) enum Content {
    Memory(Box<[u8]>),
    File(Arc<File>),
}

impl Representation {
    /// Makes it from an open file.
    pub(crate) fn new(file: OwnedFd, status: &Stat, media_type: &'static str, coding: Option<Coding>) -> Self {
        let state = FileState::of(status);
        let (seconds, nanoseconds) = state.modified;
        let time = seconds.wrapping_mul(1_000_000_000).wrapping_add(nanoseconds) as u64;
        let etag = format!("\"{time:x}-{:x}-{:x}\"", state.size, state.inode);
        // The time of modification is never in the future (RFC 9110, section 8.8.2.1).
        let modified = u64::try_from(seconds).unwrap_or(0).min(date::now());
        Self {
            state,
            media_type,
            coding,
            etag: etag.into_bytes().into(),
            modified,
            last_modified: date::write(modified).into_bytes().into(),
            content: Content::of(file, &state),
            prepared: None,
        }
    }

    /// Makes it from a file that an app has named.
    #[must_use]
    pub fn of_path(file: OwnedFd, status: &Stat, path: &[u8]) -> Self {
        Self::new(file, status, crate::media_type::of(path), None)
    }

    /// All of it.
    #[inline]
    pub(crate) fn whole(&self) -> Piece<'_> {
        match &self.content {
            Content::Memory(bytes) => Piece::Bytes(bytes),
            Content::File(file) => Piece::File { file, offset: 0, size: self.state.size },
        }
    }

    /// Number of bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.state.size
    }

    /// Entity-tag and date.
    #[must_use]
    pub fn validators(&self) -> Validators<'_> {
        Validators { etag: &self.etag, modified: Some(self.modified) }
    }

    /// The Last-Modified field.
    pub(crate) fn last_modified(&self) -> &[u8] {
        &self.last_modified
    }
}

impl Content {
    /// Reads a small file. If the file changes meanwhile, its content is not kept, because it could be a mixture.
    fn of(file: OwnedFd, state: &FileState) -> Self {
        let file = File::from(file);
        if state.size <= SMALL
            && let Some(bytes) = read_all(&file, state.size as usize)
            && fstat(&file).is_ok_and(|status| FileState::of(&status) == *state)
        {
            return Self::Memory(bytes);
        }
        Self::File(Arc::new(file))
    }
}

/// The content of a file that has exactly `size` bytes.
fn read_all(file: &File, size: usize) -> Option<Box<[u8]>> {
    // One byte more shows the end.
    let mut bytes = vec![0; size + 1];
    let mut read = 0;
    loop {
        match file.read_at(&mut bytes[read..], read as u64) {
            Ok(0) if read == size => break,
            Ok(0) => return None,
            Ok(count) => read += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
        if read > size {
            return None;
        }
    }
    bytes.truncate(size);
    Some(bytes.into())
}
