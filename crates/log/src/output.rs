//! Opens and writes log files and pipes. Neither opening nor writing waits, so a slow or missing reader of a log does not stop
//! the server. Only [`has_room`] waits, as long as its caller wants.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, OFlags};
use rustix::io::{Errno, ReadWriteFlags, pwritev2, retry_on_intr};
use rustix::net::SendFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

/// The offset that means the current position. A pipe accepts no other offset (pwritev2(2)).
const HERE: u64 = u64::MAX;

/// The way in which an output accepts data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The output accepts data at once, whole or not at all.
    File,
    /// A pipe or a terminal, which accepts data as fast as its reader.
    Stream,
    /// A socket: it accepts data as fast as its reader, and has calls that do not wait.
    Socket,
}

impl Kind {
    pub(super) fn of(output: impl AsFd) -> Self {
        match rustix::fs::fstat(output).map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            Ok(FileType::Socket) => Self::Socket,
            Ok(FileType::Fifo | FileType::CharacterDevice) => Self::Stream,
            _ => Self::File,
        }
    }
}

/// The names of this process's standard output and standard error as files.
const OUTPUTS: [&str; 3] = ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];
const ERRORS: [&str; 3] = ["/dev/stderr", "/dev/fd/2", "/proc/self/fd/2"];
/// The most symbolic links that are followed.
const LINKS: usize = 8;

/// Standard output or standard error, if `path`, or the file to which it is a symbolic link, is a name of it.
fn standard(path: &Path) -> Option<BorrowedFd<'static>> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        if OUTPUTS.iter().any(|name| path == Path::new(name)) {
            return Some(rustix::stdio::stdout());
        }
        if ERRORS.iter().any(|name| path == Path::new(name)) {
            return Some(rustix::stdio::stderr());
        }
        let next = std::fs::read_link(&path).ok()?;
        path = path.parent()?.join(next);
    }
    None
}

/// Opens a log to append to it. A missing file is created.
///
/// Standard output and standard error are not opened by their names, but duplicated: a socket, such as that of the journal,
/// cannot be opened, and a pipe only by the user who made it.
///
/// A named pipe is opened for reading as well, which the kernel permits at any time (fifo(7)). So this call neither waits for a
/// reader nor fails without one, for example while the log collector restarts. Lines that are written meanwhile wait in the
/// pipe.
pub(super) fn open(path: &Path) -> io::Result<File> {
    if let Some(output) = standard(path) {
        return output.try_clone_to_owned().map(File::from);
    }
    let mut options = OpenOptions::new();
    options.append(true).create(true).custom_flags(OFlags::NONBLOCK.bits() as i32);
    if std::fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo()) {
        match options.clone().read(true).create(false).open(path) {
            // This process may write to the pipe but not read it.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            opened => return opened,
        }
    }
    options.open(path)
}

/// Whether `output` accepts data within `patience`.
pub(super) fn has_room(output: impl AsFd, patience: Duration) -> bool {
    let wait = Timespec::try_from(patience).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 0 });
    matches!(poll(&mut [PollFd::new(&output, PollFlags::OUT)], Some(&wait)), Ok(1))
}

/// Writes as much as the output accepts now. Returns the number of bytes.
///
/// # Errors
/// `AGAIN` if the output accepts nothing now; otherwise the operating system refused the call.
pub(super) fn write(output: impl AsFd, kind: Kind, bytes: &[u8]) -> Result<usize, Errno> {
    retry_on_intr(|| match kind {
        Kind::File => rustix::io::write(&output, bytes),
        Kind::Socket => rustix::net::send(&output, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL),
        Kind::Stream => match pwritev2(&output, &[IoSlice::new(bytes)], HERE, ReadWriteFlags::NOWAIT) {
            // A terminal, or a pipe before Linux 6.4. If another process uses the room between `has_room` and this call, this
            // call waits after all.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::SPIPE) if has_room(&output, Duration::ZERO) => {
                rustix::io::write(&output, bytes)
            }
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::SPIPE) => Err(Errno::AGAIN),
            written => written,
        },
    })
}

/// Describes the error by which lines were lost.
pub(super) fn reason(error: Errno) -> String {
    match error {
        Errno::AGAIN => "its reader is too slow".to_owned(),
        error => io::Error::from(error).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, Mode, mknodat};
    use std::io::Read;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_named_pipe_without_a_reader_is_opened_and_keeps_what_it_can() {
        let _deadline = oribi_test_support::waits_for("the end of a named pipe");
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("fifo");
        mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).expect("it is writable");
        let pipe = open(&path).expect("nothing is waited for");
        assert_eq!(Kind::of(&pipe), Kind::Stream);
        assert_eq!(write(&pipe, Kind::Stream, b"first\n"), Ok(6));
        let mut reader = OpenOptions::new().read(true).open(&path).expect("there is a writer");
        drop(pipe);
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("UTF-8");
        assert_eq!(text, "first\n");
    }

    #[test]
    fn standard_outputs_are_known_by_their_names_and_links() {
        let folder = tempfile::tempdir().expect("a directory");
        let (link, other) = (folder.path().join("link"), folder.path().join("other"));
        std::os::unix::fs::symlink("/dev/stderr", &link).expect("it is writable");
        std::os::unix::fs::symlink("link", &other).expect("it is writable");
        let number = |path: &Path| standard(path).map(|output| output.as_raw_fd());
        for (path, expected) in [
            (Path::new("/dev/stdout"), Some(1)),
            (Path::new("/proc/self/fd/1"), Some(1)),
            (Path::new("/dev/fd/2"), Some(2)),
            (&other, Some(2)),
            (folder.path(), None),
            (Path::new("/dev/null"), None),
            (Path::new("/dev/fd/10"), None),
        ] {
            assert_eq!(number(path), expected, "{}", path.display());
        }
        std::fs::remove_file(&link).expect("it is there");
        std::os::unix::fs::symlink("other", &link).expect("it is writable");
        assert_eq!(number(&other), None, "links without end");
    }

    #[test]
    fn a_full_pipe_or_socket_is_not_waited_for() {
        let (_reader, pipe) = io::pipe().expect("a pipe");
        let (_peer, socket) = std::os::unix::net::UnixStream::pair().expect("a pair");
        for (output, kind) in [(pipe.as_fd(), Kind::Stream), (socket.as_fd(), Kind::Socket)] {
            assert_eq!(Kind::of(output), kind);
            let taken = std::iter::from_fn(|| write(output, kind, &[b'x'; 1000]).ok()).sum::<usize>();
            assert!(taken > 10_000, "{taken}");
            assert_eq!(write(output, kind, b"x".repeat(5000).as_slice()), Err(Errno::AGAIN));
            assert!(!has_room(output, Duration::from_millis(1)));
        }
    }
}
