//! A file as a representation: its fields in a response, and its bytes.

use crate::conditions::Validators;
use crate::date;
use crate::media_type::MediaTypes;
use oribi_host::Piece;
use oribi_message::{Coding, PreparedFields};
use rustix::fs::{Stat, fstat};
use std::borrow::Cow;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Files up to this size are kept in memory and sent together with the head by one system call, which costs two thirds of the
/// CPU time of a head and a sendfile (docs/static.md). Larger files gain less, and a lane may keep a thousand files.
pub(crate) const SMALL: u64 = 16 << 10;

/// The first second of 1990. Earlier times are not informative: many packaging tools give all files the same time, so that
/// packages of the same files are equal. Known such times are in 1970 (images of containers; Nix has its first second), 1980
/// (archives of ZIP) and 1985 (npm).
const TELLING: u64 = 631_152_000;

/// Metadata that changes whenever the content of the file does.
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

    /// The time of the last modification, in whole seconds.
    pub(crate) fn second(&self) -> i64 {
        self.modified.0
    }

    /// The same time, if it is informative.
    fn telling_second(&self) -> Option<u64> {
        u64::try_from(self.modified.0).ok().filter(|second| *second >= TELLING)
    }
}

/// A file that can be sent.
#[derive(Debug)]
pub struct Representation {
    pub(crate) state: FileState,
    pub(crate) media_type: Cow<'static, str>,
    pub(crate) coding: Option<Coding>,
    /// Empty without any.
    etag: Box<[u8]>,
    /// The time of the last modification; `None` if it is not informative.
    modified: Option<u64>,
    last_modified: Box<[u8]>,
    pub(crate) content: Content,
    /// The fields of a response with the whole file, if they are always the same.
    pub(crate) prepared: Option<PreparedFields>,
}

/// The bytes of a file.
#[derive(Debug)]
pub(crate) enum Content {
    Memory(Box<[u8]>),
    File(Arc<File>),
}

impl Representation {
    /// Makes the representation of an open file.
    pub(crate) fn new(file: OwnedFd, status: &Stat, media_type: Cow<'static, str>, coding: Option<Coding>) -> Self {
        let state = FileState::of(status);
        let content = Content::of(file, &state);
        // The time of modification is never in the future (RFC 9110, section 8.8.2.1).
        let modified = state.telling_second().map(|second| second.min(date::now()));
        Self {
            state,
            media_type,
            coding,
            etag: etag(&state, coding, &content).into(),
            modified,
            last_modified: modified.map(date::write).unwrap_or_default().into_bytes().into(),
            content,
            prepared: None,
        }
    }

    /// Makes the representation of a file that an app has named.
    #[must_use]
    pub fn of_path(file: OwnedFd, status: &Stat, path: &[u8], media_types: &MediaTypes) -> Self {
        Self::new(file, status, media_types.of(path), None)
    }

    /// The whole content.
    #[inline]
    pub(crate) fn whole(&self) -> Piece<'_> {
        match &self.content {
            Content::Memory(bytes) => Piece::Bytes(bytes),
            Content::File(file) => Piece::File { file, offset: 0, size: self.state.size },
        }
    }

    /// The number of bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.state.size
    }

    /// The entity-tag and the date.
    #[must_use]
    pub fn validators(&self) -> Validators<'_> {
        Validators { etag: &self.etag, modified: self.modified }
    }

    /// The Last-Modified field; empty without any.
    pub(crate) fn last_modified(&self) -> &[u8] {
        &self.last_modified
    }
}

/// A strong entity-tag, the same on every machine with the same file: from time and size or, if the time is not informative,
/// from the content of a small file. A larger file has no tag then, because another content could get the same one.
fn etag(state: &FileState, coding: Option<Coding>, content: &Content) -> Vec<u8> {
    let (seconds, nanoseconds) = state.modified;
    let state_of_content = match content {
        _ if state.telling_second().is_some() => {
            format!("{:x}", seconds.wrapping_mul(1_000_000_000).wrapping_add(nanoseconds) as u64)
        }
        Content::Memory(bytes) => format!("{:032x}", hash(bytes)),
        Content::File(_) => return Vec::new(),
    };
    // Variants of a file often have its time, and could have its size.
    let (dash, coding) = coding.map_or(("", ""), |coding| ("-", coding.name()));
    format!("\"{state_of_content}-{:x}{dash}{coding}\"", state.size).into_bytes()
}

/// FNV-1a with 128 bits. It does not resist authors that look for two texts with one hash, but they could only deceive their
/// own visitors.
fn hash(bytes: &[u8]) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME))
}

impl Content {
    /// Reads a small file. A file that changes meanwhile is not kept in memory, because its content could be a mixture.
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
    // One more byte would show that the file is longer.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{FileTimes, write};
    use std::time::{Duration, UNIX_EPOCH};

    /// The representation of a new file with this content and time.
    fn file(content: &[u8], second: u64, coding: Option<Coding>) -> Representation {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        write(&path, content).expect("written");
        let file = File::options().write(true).read(true).open(&path).expect("opened");
        file.set_times(FileTimes::new().set_modified(UNIX_EPOCH + Duration::from_secs(second))).expect("dated");
        let status = fstat(&file).expect("its status");
        Representation::new(file.into(), &status, Cow::Borrowed("text/plain"), coding)
    }

    fn tag(content: &[u8], second: u64) -> String {
        String::from_utf8(file(content, second, None).validators().etag.to_vec()).expect("ASCII")
    }

    #[test]
    fn two_machines_with_the_same_file_have_the_same_tag() {
        const TIME: u64 = 1_700_000_000;
        let large = vec![b'x'; SMALL as usize + 1];
        for content in [b"a", &large[..]] {
            assert_eq!(tag(content, TIME), tag(content, TIME));
            assert_ne!(tag(content, TIME), tag(content, TIME + 1));
        }
        assert_ne!(tag(b"a", TIME), tag(b"ab", TIME));
        let codings = [None, Some(Coding::Brotli), Some(Coding::Gzip)];
        let tags = codings.map(|coding| file(b"a", TIME, coding).validators().etag.to_vec());
        assert!(tags[0] != tags[1] && tags[1] != tags[2] && tags[0] != tags[2]);
    }

    #[test]
    fn times_that_say_nothing_validate_nothing() {
        let large = vec![b'x'; SMALL as usize + 1];
        for second in [0, 1, 315_532_800, 499_162_500, TELLING - 1] {
            let small = file(b"a", second, None);
            assert_eq!((small.validators().modified, small.last_modified()), (None, &b""[..]), "{second}");
            assert_ne!(tag(b"a", second), tag(b"b", second), "{second}");
            assert_eq!(tag(b"a", second), tag(b"a", second), "{second}");
            let validators = file(&large, second, None);
            assert_eq!((validators.validators().etag, validators.validators().modified), (&b""[..], None), "{second}");
        }
        let known = file(&large, TELLING, None);
        assert_eq!(known.validators().modified, Some(TELLING));
        assert_eq!(known.last_modified(), b"Mon, 01 Jan 1990 00:00:00 GMT");
    }

    #[test]
    fn hashes_are_those_of_the_specification() {
        assert_eq!(hash(b""), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_eq!(hash(b"a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
    }
}
