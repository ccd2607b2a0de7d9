//! Opens and writes log files and pipes. Neither opening nor writing waits, so a slow or missing reader of a log does not stop
//! the server. Only [`has_room`] waits, as long as its caller wants.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, OFlags};
use rustix::io::{Errno, ReadWriteFlags, ioctl_fionread, pwritev2, retry_on_intr};
use rustix::net::SendFlags;
use rustix::pipe::fcntl_getpipe_size;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The size up to which a pipe takes a write whole or not at all (PIPE_BUF of Linux, pipe(7)).
pub(super) const PIPE_BYTES: usize = 4096;

/// The room that other processes may use between the look for the room of a long line and its writing.
const ROOM_FOR_OTHERS: usize = 16 << 10;

/// The pause between two looks for the room of a long line: the system reports only the room for a short one.
const LOOK: Duration = Duration::from_millis(1);

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

/// Whether `output` accepts `size` bytes within `patience`; or a part of them, if it is no pipe.
pub(super) fn has_room(output: impl AsFd, size: usize, patience: Duration) -> bool {
    let end = Instant::now() + patience;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let wait = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 0 });
        if !matches!(poll(&mut [PollFd::new(&output, PollFlags::OUT)], Some(&wait)), Ok(1)) {
            return false;
        }
        if fits(&output, size) {
            return true;
        }
        if left.is_zero() {
            return false;
        }
        sleep(left.min(LOOK));
    }
}

/// Whether a pipe takes so many bytes in one piece, even if others write meanwhile. Of a longer piece than [`PIPE_BYTES`], it takes
/// as much as there is room for, and the lines of other processes would come between the two parts.
fn fits(output: impl AsFd, size: usize) -> bool {
    if size <= PIPE_BYTES {
        return true;
    }
    let (Ok(room), Ok(waiting)) = (fcntl_getpipe_size(&output), ioctl_fionread(&output)) else { return true };
    let waiting = usize::try_from(waiting).unwrap_or(usize::MAX);
    // A pipe consists of pages, and a write begins another one if the rest of the last one is too small for it: half of each
    // may be unused.
    let used = waiting.saturating_mul(2).saturating_add(PIPE_BYTES);
    waiting == 0 || size.saturating_add(used).saturating_add(ROOM_FOR_OTHERS) <= room
}

/// Writes as much as the output accepts now; a pipe accepts a line that fits into it whole or not at all. Returns the number of
/// bytes.
///
/// # Errors
/// `AGAIN` if the output accepts nothing now; otherwise the operating system refused the call.
pub(super) fn write(output: impl AsFd, kind: Kind, bytes: &[u8]) -> Result<usize, Errno> {
    retry_on_intr(|| match kind {
        Kind::File => rustix::io::write(&output, bytes),
        Kind::Socket => rustix::net::send(&output, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL),
        Kind::Stream if !fits(&output, bytes.len()) => Err(Errno::AGAIN),
        Kind::Stream => match pwritev2(&output, &[IoSlice::new(bytes)], HERE, ReadWriteFlags::NOWAIT) {
            // A terminal, or a pipe before Linux 6.4. If another process uses the room between `has_room` and this call, this
            // call waits after all.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::SPIPE)
                if has_room(&output, bytes.len(), Duration::ZERO) =>
            {
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
            assert!(!has_room(output, 1, Duration::from_millis(1)));
        }
    }

    #[test]
    fn a_pipe_takes_a_long_line_whole_or_not_at_all() {
        let _deadline = oribi_test_support::waits_for("the room of a pipe");
        let (mut reader, pipe) = io::pipe().expect("a pipe");
        let room = fcntl_getpipe_size(&pipe).expect("it is a pipe");
        assert_eq!(write(&pipe, Kind::Stream, &vec![b'x'; room]), Ok(room), "it is empty");
        let long = vec![b'y'; 3 * PIPE_BYTES];
        // There is room for two thirds of it.
        reader.read_exact(&mut vec![0; 2 * PIPE_BYTES]).expect("it is there");
        assert_eq!(write(&pipe, Kind::Stream, &long), Err(Errno::AGAIN));
        assert!(!has_room(&pipe, long.len(), Duration::from_millis(2)) && has_room(&pipe, PIPE_BYTES, Duration::ZERO));
        assert_eq!(write(&pipe, Kind::Stream, &long[..PIPE_BYTES]), Ok(PIPE_BYTES));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| has_room(&pipe, long.len(), Duration::from_secs(60)));
            reader.read_exact(&mut vec![0; room - PIPE_BYTES]).expect("it is there");
            assert!(waits.join().expect("no panic"));
        });
        assert_eq!(write(&pipe, Kind::Stream, &long), Ok(long.len()));
    }
}
