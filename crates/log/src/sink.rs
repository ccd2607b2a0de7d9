//! Writes lines to a file or a pipe, or sends them to a daemon.
//!
//! If a log cannot be written, lines are lost, but requests continue. Lost lines are counted. The error log reports their
//! number at most once a minute, and also reports when the log can be written again.

use super::messenger::{Composer, Failure, Messenger, Severity};
use super::output::{self, Kind, PIPE_BYTES, has_room, reason};
use oribi_config::LogTarget;
use oribi_config::value::show_log_target;
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// If the buffer has this size in bytes, it is written before the end of the event loop's iteration.
const BATCH_BYTES: usize = 64 << 10;
/// The number of bytes that may wait for a slow reader of a pipe.
const WAITING_BYTES: usize = 256 << 10;
/// The interval at which lost lines are reported.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);
/// The interval at which a file that could not be opened is tried again.
const OPEN_INTERVAL: Duration = Duration::from_secs(1);
/// The longest time between the moment when a log rotation renames the files and the moment when it notifies the server.
/// Rotation programs do the second directly after the first.
const ROTATION_TIME: Duration = Duration::from_secs(1);
/// The interval at which to try again whether a rotation has ended.
const ROTATION_STEP: Duration = Duration::from_millis(10);
/// The longest wait of an ending lane for a slow reader of its last lines.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// Gathers lines and writes them together.
#[derive(Debug)]
pub struct LineSink {
    output: Output,
    kind: Kind,
    /// Lines that are not yet written, and the line that is being formatted.
    buffer: Vec<u8>,
    /// Whether the last byte written is inside a line instead of at its end.
    torn: bool,
    losses: Losses,
    /// Whether another process opens the file: see [`LineSink::expect_file`].
    is_given: bool,
}

#[derive(Debug)]
enum Output {
    Standard,
    /// A file and its path, by which it is opened again.
    File(File, PathBuf),
    /// A daemon that takes each line as a message.
    Daemon(Box<(Messenger, Composer)>),
    /// An output that could not be opened: the target, the error, and the time of the next attempt.
    Missing(LogTarget, Errno, Instant),
}

impl Output {
    fn open(target: &LogTarget) -> io::Result<Self> {
        match target {
            LogTarget::Standard => Ok(Self::Standard),
            LogTarget::File(path) => Ok(Self::File(output::open(path)?, path.clone())),
            LogTarget::System(log) => Ok(Self::Daemon(Box::new((Messenger::open(log)?, Composer::new())))),
        }
    }

    fn missing(target: LogTarget, error: &io::Error) -> Self {
        Self::Missing(target, Errno::from_io_error(error).unwrap_or(Errno::IO), Instant::now() + OPEN_INTERVAL)
    }

    fn name(&self) -> String {
        match self {
            Self::Standard => "standard output".to_owned(),
            Self::Daemon(daemon) => daemon.0.name(),
            Self::File(_, path) => path.display().to_string(),
            Self::Missing(target, ..) => show_log_target(target),
        }
    }

    /// Returns the path of a file, for opening it again.
    fn path(&self) -> Option<&Path> {
        match self {
            Self::File(_, path) | Self::Missing(LogTarget::File(path), ..) => Some(path),
            _ => None,
        }
    }
}

impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            // A missing file is never written to, and daemons have a socket.
            Self::Standard | Self::Daemon(_) | Self::Missing(..) => rustix::stdio::stdout(),
            Self::File(file, _) => file.as_fd(),
        }
    }
}

/// Lines that could not be written.
#[derive(Debug, Default)]
struct Losses {
    lines: u64,
    last_error: Option<Errno>,
    reported: Option<Instant>,
    /// Whether lines were lost, and the error log has not yet reported that the log can be written again.
    failing: bool,
    /// The time of the last report that the log can be written again.
    recovered: Option<Instant>,
}

impl LineSink {
    /// Opens the output; several lanes and processes may have the same file open.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(target: &LogTarget) -> io::Result<Self> {
        Output::open(target).map(Self::new)
    }

    /// Opens the output for a process of a server that starts. If a log rotation has just renamed the file, this process may
    /// not have the right to create a new file. Then it tries again for up to a second: the first process of the server creates
    /// the file as soon as it is notified of the rotation.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open_in_time(target: &LogTarget) -> io::Result<Self> {
        let end = Instant::now() + ROTATION_TIME;
        loop {
            match Self::open(target) {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied && Instant::now() < end => sleep(ROTATION_STEP),
                opened => return opened,
            }
        }
    }

    /// Opens the output for a server that is already serving and that continues without a log if necessary: if a file cannot be
    /// opened, the sink tries again later, and lines are lost until then.
    pub fn open_or_wait(target: &LogTarget) -> Self {
        let output = Output::open(target).unwrap_or_else(|error| {
            log::error!("cannot open the access log {}: {error}; continuing without it", show_log_target(target));
            Output::missing(target.clone(), &error)
        });
        Self::new(output)
    }

    fn new(output: Output) -> Self {
        Self { kind: Kind::of(&output), output, buffer: Vec::new(), torn: false, losses: Losses::default(), is_given: false }
    }

    /// Opens the file again by its name. Lines in the buffer go to the old file.
    ///
    /// # Errors
    /// The file cannot be opened; then the old file stays in use.
    pub fn reopen(&mut self) -> io::Result<()> {
        self.flush();
        if let Some(path) = self.output.path() {
            self.replace(output::open(path)?);
        }
        Ok(())
    }

    /// Continues with `file`, which was opened by the name of the log. Lines in the buffer go to the old file.
    pub fn replace(&mut self, file: File) {
        self.flush();
        if let Some(path) = self.output.path() {
            self.output = Output::File(file, path.to_owned());
            self.kind = Kind::of(&self.output);
            self.torn = false;
        }
    }

    /// From now on, this process does not open the file by its name. If the file is missing now, lines are lost until the next
    /// call of [`LineSink::replace`].
    pub fn expect_file(&mut self) {
        self.is_given = true;
        if let Output::Missing(target, ..) = &self.output {
            let path = show_log_target(target);
            log::error!("this process does not write the access log {path} until the server reopens its log files (USR1)");
        }
    }

    /// Adds the line that `write` appends to the buffer. The next [`LineSink::flush`] writes the buffer, or this call does if
    /// the buffer is large.
    pub fn add(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let before = self.buffer.len();
        if before == 0 && self.torn {
            self.buffer.push(b'\n');
        }
        write(&mut self.buffer);
        self.buffer.push(b'\n');
        // Once per batch, because a pipe with a sleeping reader need not be tried for every line.
        if before / BATCH_BYTES != self.buffer.len() / BATCH_BYTES {
            self.flush();
        }
    }

    /// Writes the lines in the buffer, to a file by one system call. Lines for which a slow reader of a pipe has no room yet
    /// stay in the buffer until the next call.
    pub fn flush(&mut self) {
        if self.buffer.is_empty() {
            return;
        }
        self.look_for_missing();
        let lost = self.losses.lines;
        match (&self.output, self.kind) {
            (Output::Missing(_, error, _), _) => {
                let error = *error;
                self.lose(0, error);
            }
            (Output::Daemon(_), _) => self.send_messages(false),
            (_, Kind::File) => self.write_file(),
            (_, Kind::Stream | Kind::Socket) => self.write_stream(Duration::ZERO),
        }
        self.report(self.losses.lines == lost && self.buffer.is_empty());
    }

    /// Tries to open a file that could not be opened before.
    fn look_for_missing(&mut self) {
        if let Output::Missing(target, _, next) = &self.output
            && !self.is_given
            && Instant::now() >= *next
        {
            let target = target.clone();
            self.output = Output::open(&target).unwrap_or_else(|error| Output::missing(target, &error));
            self.kind = Kind::of(&self.output);
        }
    }

    fn write_file(&mut self) {
        match output::write(&self.output, Kind::File, &self.buffer) {
            Ok(written) if written == self.buffer.len() => self.take(written),
            Ok(written) => self.lose(written, Errno::NOSPC),
            Err(error) => self.lose(0, error),
        }
    }

    /// Writes the buffer to a pipe in pieces that the pipe accepts whole or not at all. For each piece, waits up to `patience`
    /// until the pipe has room.
    fn write_stream(&mut self, patience: Duration) {
        let mut done = 0;
        while done < self.buffer.len() {
            let piece = &self.buffer[done..done + whole_lines(&self.buffer[done..])];
            if !patience.is_zero() && !has_room(&self.output, piece.len(), patience) {
                break;
            }
            match output::write(&self.output, self.kind, piece) {
                Ok(written) => done += written,
                Err(Errno::AGAIN) => break,
                Err(error) => return self.lose(done, error),
            }
        }
        self.take(done);
        if self.buffer.len() > WAITING_BYTES {
            self.lose(0, Errno::AGAIN);
        }
    }

    /// Sends each line in the buffer as a message. Lines for which the daemon has no room stay in the buffer until the next
    /// call. With `waits`, this call first waits briefly for room.
    fn send_messages(&mut self, waits: bool) {
        let Output::Daemon(daemon) = &mut self.output else { return };
        let (messenger, composer) = &mut **daemon;
        let mut done = 0;
        while let Some(length) = self.buffer[done..].iter().position(|&byte| byte == b'\n') {
            match messenger.send(Severity::Informational, &self.buffer[done..done + length], waits, composer) {
                Ok(()) => {}
                Err(Failure::Earlier) => {
                    self.losses.lines += 1;
                    self.losses.last_error = Some(Errno::CONNREFUSED);
                    self.losses.failing = true;
                }
                Err(Failure::Full) => break,
                Err(Failure::Lost(error)) => return self.lose(done, error),
            }
            done += length + 1;
        }
        self.take(done);
        if self.buffer.len() > WAITING_BYTES {
            self.lose(0, Errno::AGAIN);
        }
    }

    /// Removes the first `written` bytes from the buffer, which have been written.
    fn take(&mut self, written: usize) {
        if let Some(last) = written.checked_sub(1) {
            self.torn = self.buffer[last] != b'\n';
        }
        self.buffer.drain(..written);
    }

    /// Drops the buffer, and counts its lines as lost. `written` of its bytes have been written; if they end inside a line, a
    /// line end is written before the next line.
    fn lose(&mut self, written: usize, error: Errno) {
        self.take(written);
        self.losses.lines += self.buffer.iter().filter(|&&byte| byte == b'\n').count() as u64;
        self.losses.last_error = Some(error);
        self.losses.failing = true;
        self.buffer.clear();
    }

    /// Reports the number of lost lines, unless it was reported less than a minute ago. `works` means that this call of `flush`
    /// has written all lines; then it reports that the log can be written again.
    fn report(&mut self, works: bool) {
        let losses = &mut self.losses;
        let now = Instant::now();
        let recently = |last: Option<Instant>| last.is_some_and(|last| now.duration_since(last) < REPORT_INTERVAL);
        if works && losses.failing && !recently(losses.recovered) {
            let (name, lines) = (self.output.name(), losses.lines);
            log::warn!("access log: {name} can be written again; {lines} more lines were lost");
            *losses = Losses { recovered: Some(now), reported: losses.reported, ..Losses::default() };
        } else if let Some(error) = losses.last_error
            && !recently(losses.reported)
        {
            let (name, lines) = (self.output.name(), losses.lines);
            log::warn!("access log: {lines} lines could not be written to {name}: {}", reason(error));
            let Losses { recovered, failing, .. } = *losses;
            *losses = Losses { reported: Some(now), recovered, failing, ..Losses::default() };
        }
    }
}

impl Drop for LineSink {
    fn drop(&mut self) {
        self.flush();
        if !self.buffer.is_empty() {
            match self.output {
                Output::Daemon(_) => self.send_messages(true),
                _ => self.write_stream(LAST_WAIT),
            }
            let waiting = self.buffer.len();
            if waiting > 0 {
                self.lose(0, Errno::AGAIN);
            }
        }
        if self.losses.lines > 0 {
            self.losses.reported = None;
            self.report(false);
        }
    }
}

/// Returns the number of bytes of the whole lines that fit into a piece. A line that does not fit is a piece of its own.
fn whole_lines(buffer: &[u8]) -> usize {
    let fits = &buffer[..buffer.len().min(PIPE_BYTES)];
    if let Some(end) = fits.iter().rposition(|&byte| byte == b'\n') {
        return end + 1;
    }
    buffer.iter().position(|&byte| byte == b'\n').map_or(buffer.len(), |end| end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::OwnedFd;

    const LINE: &str = "127.0.0.1 - - [06/Nov/1994:08:49:37 +0000] \"GET / HTTP/1.1\" 200 13";

    fn line(buffer: &mut Vec<u8>) {
        buffer.extend_from_slice(LINE.as_bytes());
    }

    /// A file that is removed when the value is dropped.
    struct TempFile(PathBuf);

    impl TempFile {
        fn new(name: &str) -> Self {
            Self(std::env::temp_dir().join(format!("oribi-access-{}-{name}", std::process::id())))
        }

        fn read(&self) -> String {
            std::fs::read_to_string(&self.0).expect("readable")
        }
    }

    impl Drop for TempFile {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn log_into(descriptor: impl Into<OwnedFd>) -> LineSink {
        LineSink::new(Output::File(File::from(descriptor.into()), PathBuf::from("a pipe")))
    }

    #[test]
    fn lines_are_written_together_and_after_rotation_to_the_new_file() {
        let (place, moved) = (TempFile::new("log"), TempFile::new("log.1"));
        let mut log = LineSink::open(&LogTarget::File(place.0.clone())).expect("opened");
        log.add(line);
        log.add(line);
        assert_eq!(place.read(), "");
        log.flush();
        assert_eq!(place.read().lines().count(), 2);
        log.add(line);
        std::fs::rename(&place.0, &moved.0).expect("moved");
        log.reopen().expect("opened again");
        log.add(line);
        drop(log);
        assert_eq!((moved.read().lines().count(), place.read().lines().count()), (3, 1));
    }

    #[test]
    fn a_full_disk_costs_lines_only() {
        let full = PathBuf::from("/dev/full");
        let mut log = LineSink::open(&LogTarget::File(full)).expect("opened");
        for kind in [log.kind, Kind::File] {
            log.kind = kind;
            log.losses.reported = Some(Instant::now());
            log.add(line);
            log.add(line);
            log.flush();
            assert!(log.buffer.is_empty());
            assert_eq!(std::mem::take(&mut log.losses.lines), 2);
            assert_eq!(log.losses.last_error, Some(Errno::NOSPC));
        }
    }

    #[test]
    fn a_file_that_is_missing_is_opened_when_it_can_be() {
        let place = TempFile::new("missing");
        std::fs::create_dir(&place.0).expect("the folder is writable");
        let mut log = LineSink::open_or_wait(&LogTarget::File(place.0.clone()));
        log.add(line);
        log.flush();
        assert!(matches!(log.output, Output::Missing(..)) && log.losses.failing && log.losses.reported.is_some());
        std::fs::remove_dir(&place.0).expect("it is empty");
        log.add(line);
        log.flush();
        assert_eq!(log.losses.lines, 1, "it is not tried for each line");
        if let Output::Missing(_, _, next) = &mut log.output {
            *next = Instant::now();
        }
        log.add(line);
        log.flush();
        assert_eq!(place.read().lines().count(), 1);
        assert!(!log.losses.failing && log.losses.lines == 0 && log.losses.recovered.is_some());
    }

    #[test]
    fn a_missing_file_that_others_open_is_waited_for() {
        let place = TempFile::new("given");
        std::fs::create_dir(&place.0).expect("the folder is writable");
        let mut log = LineSink::open_or_wait(&LogTarget::File(place.0.clone()));
        log.expect_file();
        std::fs::remove_dir(&place.0).expect("it is empty");
        if let Output::Missing(_, _, next) = &mut log.output {
            *next = Instant::now();
        }
        log.add(line);
        log.flush();
        assert!(!place.0.exists() && log.losses.failing, "it does not open it");
        log.replace(output::open(&place.0).expect("the folder is writable"));
        log.add(line);
        log.flush();
        assert_eq!(place.read().lines().count(), 1);
        assert!(!log.losses.failing && log.losses.recovered.is_some());
    }

    #[test]
    fn a_torn_line_is_closed_before_the_next() {
        let place = TempFile::new("torn");
        let mut log = LineSink::open(&LogTarget::File(place.0.clone())).expect("opened");
        log.add(line);
        log.lose(10, Errno::NOSPC);
        assert_eq!(log.losses.lines, 1);
        log.add(line);
        assert!(log.buffer.starts_with(b"\n127"));
        log.flush();
        log.add(line);
        assert!(log.buffer.starts_with(b"127"));
    }

    #[test]
    fn a_reader_that_has_gone_costs_lines_only() {
        let (reader, writer) = io::pipe().expect("a pipe");
        drop(reader);
        let mut log = log_into(writer);
        log.losses.reported = Some(Instant::now());
        log.add(line);
        log.flush();
        assert_eq!((log.losses.lines, log.losses.last_error), (1, Some(Errno::PIPE)));
    }

    #[test]
    fn a_slow_reader_gets_whole_lines_later_and_holds_nobody() {
        let _deadline = oribi_test_support::waits_for("the end of a log");
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let mut log = log_into(writer);
        log.losses.reported = Some(Instant::now());
        let mut recorded = 0;
        // More than a pipe holds (64 KiB), less than the buffer may hold.
        while recorded < 1500 {
            log.add(line);
            recorded += 1;
        }
        log.flush();
        assert!(!log.buffer.is_empty() && log.losses.lines == 0);
        assert!(log.buffer.starts_with(b"127"), "what waits must start with a line");
        // The pipe has no reader: in the end lines are lost, but no call has blocked.
        while log.losses.lines == 0 {
            log.add(line);
            recorded += 1;
        }
        let lost = log.losses.lines;
        log.flush();
        let rest = std::thread::spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).map(|_| text)
        });
        drop(log);
        let text = rest.join().expect("a reader").expect("UTF-8");
        assert_eq!(text.lines().count() as u64, recorded - lost);
        assert!(text.lines().all(|line| line == LINE));
    }

    #[test]
    fn long_lines_of_several_processes_stay_whole_at_a_slow_reader() {
        let _deadline = oribi_test_support::waits_for("the end of two logs");
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let mut logs = [writer.try_clone().expect("a descriptor"), writer].map(log_into);
        let lines = [b"a", b"b"].map(|letter| letter.repeat(9000));
        let mut text = Vec::new();
        for round in 0..10 {
            for (log, line) in logs.iter_mut().zip(&lines) {
                log.add(|buffer| buffer.extend_from_slice(line));
                log.flush();
            }
            // From then on the pipe is full, or almost.
            if round >= 3 {
                let mut piece = vec![0; 6000];
                reader.read_exact(&mut piece).expect("it is there");
                text.extend_from_slice(&piece);
                logs.iter_mut().rev().for_each(LineSink::flush);
            }
        }
        let read = std::thread::spawn(move || reader.read_to_end(&mut text).map(|_| text));
        drop(logs);
        let text = read.join().expect("a reader").expect("it is read");
        let whole = text.split_inclusive(|byte| *byte == b'\n').collect::<Vec<_>>();
        assert_eq!(whole.len(), 20);
        assert!(whole.iter().all(|line| line.len() == 9001 && line[..9000].iter().all(|byte| *byte == line[0])));
    }

    #[test]
    fn sockets_are_written_without_waiting() {
        let _deadline = oribi_test_support::waits_for("the end of a log");
        let (mut near, far) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let mut log = log_into(far);
        assert_eq!(log.kind, Kind::Socket);
        log.add(line);
        log.flush();
        drop(log);
        let mut text = String::new();
        near.read_to_string(&mut text).expect("UTF-8");
        assert_eq!(text.lines().count(), 1);
    }

    #[test]
    fn pieces_end_with_lines() {
        let short = b"abc\n".repeat(2000);
        assert_eq!(whole_lines(&short), PIPE_BYTES);
        let long = [b"x".repeat(5000), b"\nabc\n".to_vec()].concat();
        assert_eq!(whole_lines(&long), 5001);
        assert_eq!(whole_lines(b"abc"), 3);
    }
}
