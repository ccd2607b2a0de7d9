//! The error log: the destination of the messages of the `log` facade.
//!
//! The server writes to standard error. If the destination is a file, this file replaces standard error, so that messages of
//! the app, its modules and the C library go to the file as well, in every process that is forked later. If the destination is
//! a log daemon, the messages of the server go to the daemon, and all other messages still go to the old standard error.
//!
//! A message that cannot be written, because a disk is full or a pipe has no reader, does not stop the server. Such messages
//! are lost and counted.

use super::date_cache::DateCache;
use super::escape::Message;
use super::messenger::{Composer, Failure, Messenger, Severity};
use super::output::{self, Kind, has_room, reason};
use log::{Level, LevelFilter, Log, Metadata, Record};
use oribi_config::LogTarget;
use oribi_io::process::environment;
use rustix::io::Errno;
use std::cell::RefCell;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// The longest message in bytes; longer messages are cut. The stack trace of a deeply nested app fits, but not an error of an
/// app that contains a whole response.
const MESSAGE_BYTES: usize = 32 << 10;

/// The longest wait for a slow reader of a pipe: a burst of messages may not fit into the pipe at once. If a message is lost
/// after such a wait, the log waits no more until a message can be written again.
const PATIENCE: Duration = Duration::from_millis(100);

/// Sends the messages of the `log` facade that are at least as important as `level` to standard error, to a file that replaces
/// standard error, or to a daemon. A second call changes the target and the level.
///
/// # Errors
/// The file, or a socket for the daemon, cannot be opened; then messages go to standard error.
pub fn install(target: &LogTarget, level: LevelFilter) -> io::Result<()> {
    // Fails if there is already a logger: this one, or that of an embedding program, which takes precedence.
    let _ = log::set_logger(&SINK);
    log::set_max_level(level);
    SINK.look();
    let messenger = if let LogTarget::System(log) = target { Some(Messenger::open(log)?) } else { None };
    if let Some(messenger) = &messenger
        && let Some(trouble) = messenger.trouble()
    {
        log::warn!("the error log at {} has no reader yet: {trouble}; messages are lost until it has one", messenger.name());
    }
    if let Ok(mut place) = MESSENGER.write() {
        *place = messenger;
    }
    reopen(target)
}

/// Opens the log file again by its name, after a log rotation has renamed the old file. Opens nothing if the log is not a file.
///
/// # Errors
/// The file cannot be opened; then the old file stays in use.
pub fn reopen(target: &LogTarget) -> io::Result<()> {
    match target {
        LogTarget::File(path) => replace(output::open(path)?),
        LogTarget::Standard | LogTarget::System(_) => {
            SINK.look();
            Ok(())
        }
    }
}

/// Continues with `file`, which was opened by the name of the log.
///
/// # Errors
/// The operating system refused a call; then the old file stays in use.
pub fn replace(file: File) -> io::Result<()> {
    rustix::stdio::dup2_stderr(file)?;
    SINK.torn.store(false, Ordering::Relaxed);
    SINK.look();
    Ok(())
}

/// Whether standard error is a socket of the journal. In this case JOURNAL_STREAM has the device and the inode of standard
/// error (systemd.exec(5)).
fn stderr_is_journal() -> bool {
    let Ok(stat) = rustix::fs::fstat(rustix::stdio::stderr()) else { return false };
    environment::variable("JOURNAL_STREAM").is_some_and(|stream| stream == format!("{}:{}", stat.st_dev, stat.st_ino))
}

static SINK: Sink = Sink::new();

/// The daemon that gets messages in place of standard error. It is set while the process has one thread. Later it is only read,
/// so that no thread can hold the write lock while another thread forks.
static MESSENGER: RwLock<Option<Messenger>> = RwLock::new(None);

/// Standard error as a sink for messages. All threads write to it, and a forked process has a copy of this state.
struct Sink {
    to_journal: AtomicBool,
    /// Whether standard error is a file, which accepts data at once.
    is_file: AtomicBool,
    is_socket: AtomicBool,
    /// Whether the last byte written is not the end of a line.
    torn: AtomicBool,
    /// The id of the process that lost the messages in `lost`; a forked process has another id, and starts a count of its own.
    loser: AtomicU32,
    lost: AtomicU64,
    why: AtomicI32,
}

thread_local! {
    /// The buffers of each thread are used again and again, so that a server in trouble does not allocate memory for each
    /// message.
    static LINE: RefCell<Paper> = RefCell::new(Paper::new());
}

/// The buffers in which a message is formatted.
struct Paper {
    line: Vec<u8>,
    date_cache: DateCache,
    composer: Composer,
}

impl Paper {
    fn new() -> Self {
        Self { line: Vec::new(), date_cache: DateCache::new(), composer: Composer::new() }
    }
}

impl Sink {
    const fn new() -> Self {
        Self {
            to_journal: AtomicBool::new(false),
            is_file: AtomicBool::new(false),
            is_socket: AtomicBool::new(false),
            torn: AtomicBool::new(false),
            loser: AtomicU32::new(0),
            lost: AtomicU64::new(0),
            why: AtomicI32::new(Errno::AGAIN.raw_os_error()),
        }
    }

    /// Finds out what standard error is: a file, a pipe or terminal, a socket, or the journal.
    fn look(&self) {
        let kind = Kind::of(rustix::stdio::stderr());
        self.is_file.store(kind == Kind::File, Ordering::Relaxed);
        self.is_socket.store(kind == Kind::Socket, Ordering::Relaxed);
        self.to_journal.store(stderr_is_journal(), Ordering::Relaxed);
    }

    fn kind(&self) -> Kind {
        match (self.is_file.load(Ordering::Relaxed), self.is_socket.load(Ordering::Relaxed)) {
            (true, _) => Kind::File,
            (_, true) => Kind::Socket,
            _ => Kind::Stream,
        }
    }

    /// Formats `record` as a line and writes the line. If it cannot be written, the message is lost and counted. A report of
    /// lost messages precedes the next message that can be written.
    fn write(&self, record: &Record<'_>, paper: &mut Paper) {
        if let Ok(messenger) = MESSENGER.try_read()
            && let Some(messenger) = &*messenger
        {
            return self.send(messenger, record, paper);
        }
        let Paper { line, date_cache, .. } = paper;
        let (process, time, to_journal) = (std::process::id(), SystemTime::now(), self.to_journal.load(Ordering::Relaxed));
        line.clear();
        if self.torn.load(Ordering::Relaxed) {
            line.push(b'\n');
        }
        let lost = self.lost_by(process);
        if lost > 0 {
            let report = &mut |report: &Record<'_>| append_line(report, to_journal, process, time, date_cache, line);
            self.report(lost, report);
        }
        append_line(record, to_journal, process, time, date_cache, line);
        match self.put(line, lost == 0) {
            Ok(()) if lost > 0 => {
                // Another thread may have lost more meanwhile.
                self.lost.fetch_sub(lost, Ordering::Relaxed);
            }
            Ok(()) => {}
            Err(error) => self.lose(process, error),
        }
    }

    /// Sends `record` to the daemon; counts and reports lost messages as [`Sink::write`] does.
    fn send(&self, messenger: &Messenger, record: &Record<'_>, Paper { line, composer, .. }: &mut Paper) {
        let process = std::process::id();
        let lost = self.lost_by(process);
        if lost > 0 {
            let mut told = false;
            self.report(lost, &mut |report| {
                append_message(report, line);
                told = messenger.send(severity(report.level()), line, false, composer).is_ok();
            });
            if told {
                self.lost.fetch_sub(lost, Ordering::Relaxed);
            }
        }
        append_message(record, line);
        match messenger.send(severity(record.level()), line, lost == 0, composer) {
            Ok(()) => {}
            Err(Failure::Full) => self.lose(process, Errno::AGAIN),
            Err(Failure::Earlier) => self.lose(process, Errno::CONNREFUSED),
            Err(Failure::Lost(error)) => self.lose(process, error),
        }
    }

    /// Returns the number of messages that this process has lost. A forked process does not report the losses of its parent.
    fn lost_by(&self, process: u32) -> u64 {
        if self.loser.load(Ordering::Relaxed) == process { self.lost.load(Ordering::Relaxed) } else { 0 }
    }

    fn lose(&self, process: u32, why: Errno) {
        if self.loser.swap(process, Ordering::Relaxed) != process {
            self.lost.store(0, Ordering::Relaxed);
        }
        self.why.store(why.raw_os_error(), Ordering::Relaxed);
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    /// Formats a message that `lost` messages were lost, and passes it to `write`.
    fn report(&self, lost: u64, write: &mut dyn FnMut(&Record<'_>)) {
        let why = reason(Errno::from_raw_os_error(self.why.load(Ordering::Relaxed)));
        let text = format_args!("error log: {lost} messages before this one could not be written: {why}");
        write(&Record::builder().level(Level::Warn).args(text).build());
    }

    /// Writes `line`. With `waits`, the call waits up to [`PATIENCE`] for a slow reader; otherwise a line without room is an
    /// error at once.
    fn put(&self, mut line: &[u8], waits: bool) -> Result<(), Errno> {
        let (kind, patience) = (self.kind(), if waits { PATIENCE } else { Duration::ZERO });
        loop {
            let written = match output::write(rustix::stdio::stderr(), kind, line) {
                Ok(written) => written,
                Err(Errno::AGAIN) if kind != Kind::File && has_room(rustix::stdio::stderr(), line.len(), patience) => {
                    // Other processes may have used the room. There is no second wait for such a slow reader.
                    output::write(rustix::stdio::stderr(), kind, line)?
                }
                Err(error) => return Err(error),
            };
            if let Some(last) = written.checked_sub(1) {
                self.torn.store(line[last] != b'\n', Ordering::Relaxed);
            }
            line = &line[written..];
            if line.is_empty() {
                return Ok(());
            }
            if kind == Kind::File || written == 0 {
                return Err(Errno::NOSPC);
            }
        }
    }
}

impl Log for Sink {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let most = log::max_level();
        metadata.level() <= most && (most >= LevelFilter::Debug || !is_remark(metadata))
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let kept = LINE.try_with(|kept| {
            kept.try_borrow_mut().map(|mut kept| {
                self.write(record, &mut kept);
            })
        });
        // The message logs while it is being formatted, or the thread is ending: rare enough to allocate.
        if !matches!(kept, Ok(Ok(()))) {
            self.write(record, &mut Paper::new());
        }
    }

    fn flush(&self) {}
}

/// Whether this is a message of a library about the behaviour of a peer: a client that sends an address where TLS requires a
/// host name, or a slow authority. Peers can cause many such messages, so they are logged only at the level `debug`. Errors of
/// the libraries do not count as such messages.
fn is_remark(metadata: &Metadata<'_>) -> bool {
    const LIBRARIES: [&str; 2] = ["rustls", "ureq"];
    let is_of = |library: &&str| metadata.target().starts_with(*library);
    metadata.level() > Level::Error && LIBRARIES.iter().any(is_of)
}

/// Appends one line: `2026-11-21T03:00:00.123Z [error] [4711] message`. The journal gets `<3>[error] [4711] message`, because
/// it adds the time itself and reads the priority from the start of the line (sd-daemon(3)).
fn append_line(
    record: &Record<'_>,
    to_journal: bool,
    process: u32,
    time: SystemTime,
    date_cache: &mut DateCache,
    line: &mut Vec<u8>,
) {
    let (name, priority) = (name(record.level()), severity(record.level()) as u8);
    // Writing into memory does not fail; an argument whose `Display` fails has written a part of its text.
    if to_journal {
        let _ = write!(line, "<{priority}>");
    } else {
        date_cache.append_iso(time, line);
        line.push(b' ');
    }
    let _ = write!(line, "[{name}] [{process}] ");
    let _ = Message::new(line, MESSAGE_BYTES).write_fmt(*record.args());
    line.push(b'\n');
}

/// Formats the text of a message for a daemon into `line`, as `[error] message`. The daemon's own format already has the time
/// and the process id.
fn append_message(record: &Record<'_>, line: &mut Vec<u8>) {
    line.clear();
    // Writing into memory does not fail.
    let _ = write!(line, "[{}] ", name(record.level()));
    let _ = Message::new(line, MESSAGE_BYTES).write_fmt(*record.args());
}

const fn name(level: Level) -> &'static str {
    match level {
        Level::Error => "error",
        Level::Warn => "warn",
        Level::Info => "info",
        Level::Debug => "debug",
        Level::Trace => "trace",
    }
}

const fn severity(level: Level) -> Severity {
    match level {
        Level::Error => Severity::Error,
        Level::Warn => Severity::Warning,
        Level::Info => Severity::Informational,
        Level::Debug | Level::Trace => Severity::Debug,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    fn line(level: Level, to_journal: bool, text: &str) -> String {
        let time = UNIX_EPOCH + Duration::from_millis(784_111_777_123);
        let mut line = Vec::new();
        let arguments = format_args!("{text}");
        let record = Record::builder().level(level).args(arguments).build();
        append_line(&record, to_journal, 4711, time, &mut DateCache::new(), &mut line);
        String::from_utf8(line).expect("UTF-8")
    }

    #[test]
    fn lines() {
        assert_eq!(line(Level::Error, false, "no\nway\n"), "1994-11-06T08:49:37.123Z [error] [4711] no\\nway\n");
        assert_eq!(line(Level::Info, false, "\u{1b}[2J"), "1994-11-06T08:49:37.123Z [info] [4711] \\x1b[2J\n");
        for (level, expected) in [
            (Level::Error, "<3>[error] [4711] x\n"),
            (Level::Warn, "<4>[warn] [4711] x\n"),
            (Level::Info, "<6>[info] [4711] x\n"),
            (Level::Debug, "<7>[debug] [4711] x\n"),
            (Level::Trace, "<7>[trace] [4711] x\n"),
        ] {
            assert_eq!(line(level, true, "x"), expected);
        }
    }

    #[test]
    fn remarks_of_libraries_are_told_from_messages_of_the_server() {
        for (target, level, expected) in [
            ("rustls::msgs::handshake", Level::Warn, true),
            ("ureq_proto::client", Level::Info, true),
            ("rustls::msgs::handshake", Level::Error, false),
            ("oribi_engine::receive", Level::Warn, false),
            ("oribi_tls", Level::Info, false),
        ] {
            assert_eq!(is_remark(&Metadata::builder().target(target).level(level).build()), expected, "{target} {level}");
        }
    }

    #[test]
    fn long_messages_are_cut() {
        let line = line(Level::Error, false, &format!("GET /: the app died: {}", "x".repeat(MESSAGE_BYTES)));
        assert!(line.contains(" GET /: the app died: xxx") && line.ends_with("xxx...\n"), "{line}");
        assert!((MESSAGE_BYTES..MESSAGE_BYTES + 100).contains(&line.len()), "{}", line.len());
    }
}
