//! The error log: the destination of the messages of the `log` facade.
//!
//! It is always standard error. If there is a log file, it replaces standard error, so that messages of the app, its modules
//! and the C library go to the same file, in every process that is forked from now on.

use super::escape::Message;
use super::stamp::Stamp;
use crate::config::LogTarget;
use log::{Level, LevelFilter, Log, Metadata, Record};
use std::cell::RefCell;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

/// The longest message in bytes: the stack trace of a deep app fits, but a whole response that an app died with does not.
const MESSAGE_BYTES: usize = 32 << 10;

/// Sends the messages of the `log` facade from `level` on to standard error, or to a file that replaces it. A second call
/// changes both.
///
/// # Errors
/// The file cannot be opened.
pub fn install(target: &LogTarget, level: LevelFilter) -> io::Result<()> {
    reopen(target)?;
    // It fails if there is a logger already: ours, or that of a program that contains Oribi, which takes precedence.
    let _ = log::set_logger(&SINK);
    log::set_max_level(level);
    Ok(())
}

/// Opens the file again by its name, after log rotation has moved the old one away. Does nothing without a file.
///
/// # Errors
/// The file cannot be opened; then the old one stays.
pub fn reopen(target: &LogTarget) -> io::Result<()> {
    if let LogTarget::File(path) = target {
        rustix::stdio::dup2_stderr(open(path)?)?;
    }
    SINK.to_journal.store(stderr_is_journal(), Ordering::Relaxed);
    Ok(())
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

/// Whether standard error is the journal: JOURNAL_STREAM then names its device and inode (systemd.exec(5)).
fn stderr_is_journal() -> bool {
    let Ok(stat) = rustix::fs::fstat(rustix::stdio::stderr()) else { return false };
    std::env::var("JOURNAL_STREAM").is_ok_and(|stream| stream == format!("{}:{}", stat.st_dev, stat.st_ino))
}

static SINK: Sink = Sink { to_journal: AtomicBool::new(false) };

/// Standard error as a sink for messages.
struct Sink {
    to_journal: AtomicBool,
}

thread_local! {
    /// The line and the clock are reused: a server in trouble should not allocate for each message.
    static LINE: RefCell<(Vec<u8>, Stamp)> = RefCell::new((Vec::new(), Stamp::new()));
}

impl Log for Sink {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let write = |line: &mut Vec<u8>, stamp: &mut Stamp| {
            line.clear();
            append_line(record, self.to_journal.load(Ordering::Relaxed), std::process::id(), SystemTime::now(), stamp, line);
            // There is nowhere to report that the log cannot be written.
            let _ = rustix::io::retry_on_intr(|| rustix::io::write(rustix::stdio::stderr(), line));
        };
        let kept = LINE.try_with(|kept| {
            kept.try_borrow_mut().map(|mut kept| {
                let (line, stamp) = &mut *kept;
                write(line, stamp);
            })
        });
        // A message that logs while it is being formatted, or a thread that is ending: rare enough to allocate.
        if !matches!(kept, Ok(Ok(()))) {
            write(&mut Vec::new(), &mut Stamp::new());
        }
    }

    fn flush(&self) {}
}

/// Appends one line: `2026-11-21T03:00:00.123Z [error] [4711] message`. The journal gets `<3>[error] [4711] message`, because
/// it knows the time and reads the priority from the front (sd-daemon(3)).
fn append_line(record: &Record<'_>, to_journal: bool, process: u32, time: SystemTime, stamp: &mut Stamp, line: &mut Vec<u8>) {
    let (name, priority) = match record.level() {
        Level::Error => ("error", 3),
        Level::Warn => ("warn", 4),
        Level::Info => ("info", 6),
        Level::Debug => ("debug", 7),
        Level::Trace => ("trace", 7),
    };
    // Writing into memory does not fail; an argument whose display fails has written what it could.
    if to_journal {
        let _ = write!(line, "<{priority}>");
    } else {
        stamp.append_iso(time, line);
        line.push(b' ');
    }
    let _ = write!(line, "[{name}] [{process}] ");
    let _ = Message::new(line, MESSAGE_BYTES).write_fmt(*record.args());
    line.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    fn line(level: Level, to_journal: bool, text: &str) -> String {
        let time = UNIX_EPOCH + Duration::from_millis(784_111_777_123);
        let mut line = Vec::new();
        let arguments = format_args!("{text}");
        let record = Record::builder().level(level).args(arguments).build();
        append_line(&record, to_journal, 4711, time, &mut Stamp::new(), &mut line);
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
    fn long_messages_are_cut() {
        let line = line(Level::Error, false, &"x".repeat(MESSAGE_BYTES + 1));
        assert!(line.len() < 100 && line.ends_with("...\n"), "{line}");
    }
}
