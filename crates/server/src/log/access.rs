//! The access log: one line for each request.
//!
//! A lane appends lines to its own buffer and writes the buffer before it waits for events, so all requests of a turn cost one
//! system call.

use super::escape::{append_json, append_quoted};
use super::sink::LineSink;
use super::stamp::Stamp;
use crate::config::{AccessFormat, LogTarget};
use std::fs::File;
use std::io::{self, Write as _};
use std::time::{Duration, SystemTime};

/// The data about one request.
#[derive(Clone, Copy, Debug)]
pub struct AccessEntry<'a> {
    /// The address of the client; empty: unknown, as on a Unix socket.
    pub remote: &'a str,
    /// The method; empty if the request could not be read.
    pub method: &'a [u8],
    /// The target, as sent.
    pub target: &'a [u8],
    /// The version: `HTTP/1.1`.
    pub version: &'a str,
    /// The status of the response.
    pub status: u16,
    /// Bytes of content that were sent.
    pub bytes_sent: u64,
    /// The Referer field.
    pub referer: Option<&'a [u8]>,
    /// The User-Agent field.
    pub user_agent: Option<&'a [u8]>,
    /// When the request arrived.
    pub time: SystemTime,
    /// The time from then to the end of the response.
    pub duration: Duration,
}

/// The access log of one lane.
#[derive(Debug)]
pub struct AccessLog {
    format: AccessFormat,
    stamp: Stamp,
    sink: LineSink,
}

impl AccessLog {
    /// Opens the log; several lanes and processes may have the same file open.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(target: &LogTarget, format: AccessFormat) -> io::Result<Self> {
        Ok(Self { format, stamp: Stamp::new(), sink: LineSink::open(target)? })
    }

    /// The same for a server that serves already: a file that cannot be opened is tried again later.
    pub fn open_or_wait(target: &LogTarget, format: AccessFormat) -> Self {
        Self { format, stamp: Stamp::new(), sink: LineSink::open_or_wait(target) }
    }

    /// Opens the file again by its name, after log rotation has moved the old one away. Lines gathered so far go to the old
    /// file.
    ///
    /// # Errors
    /// The file cannot be opened; then the old one stays.
    pub fn reopen(&mut self) -> io::Result<()> {
        self.sink.reopen()
    }

    /// Goes on with `file`, which is the same log, opened again by somebody else. Lines gathered so far go to the old file.
    pub fn replace(&mut self, file: File) {
        self.sink.replace(file);
    }

    /// From now on only somebody else opens the file: see [`AccessLog::replace`].
    pub fn expect_file(&mut self) {
        self.sink.expect_file();
    }

    /// Adds the line of a request. The next [`AccessLog::flush`] writes it, or this call does if many lines have been gathered.
    pub fn record(&mut self, entry: &AccessEntry<'_>) {
        let (format, stamp) = (self.format, &mut self.stamp);
        self.sink.add(|line| append_entry(format, entry, stamp, line));
    }

    /// Writes the gathered lines; for a file by one system call. What a slow reader of a pipe cannot take yet waits for the
    /// next call.
    pub fn flush(&mut self) {
        self.sink.flush();
    }
}

fn append_entry(format: AccessFormat, entry: &AccessEntry<'_>, stamp: &mut Stamp, line: &mut Vec<u8>) {
    match format {
        AccessFormat::Common => append_common(entry, stamp, line),
        AccessFormat::Combined => {
            append_common(entry, stamp, line);
            for field in [entry.referer, entry.user_agent] {
                line.extend_from_slice(b" \"");
                append_quoted(field.unwrap_or(b"-"), line);
                line.push(b'"');
            }
        }
        AccessFormat::Json => append_object(entry, stamp, line),
    }
}

/// Apache's `%h %l %u %t "%r" %>s %b`.
fn append_common(entry: &AccessEntry<'_>, stamp: &mut Stamp, line: &mut Vec<u8>) {
    append_quoted(if entry.remote.is_empty() { b"-" } else { entry.remote.as_bytes() }, line);
    line.extend_from_slice(b" - - [");
    stamp.append_common(entry.time, line);
    line.extend_from_slice(b"] \"");
    if entry.method.is_empty() {
        line.push(b'-');
    } else {
        append_quoted(entry.method, line);
        line.push(b' ');
        append_quoted(entry.target, line);
        line.push(b' ');
        append_quoted(entry.version.as_bytes(), line);
    }
    // Writing into memory does not fail.
    let _ = match entry.bytes_sent {
        0 => write!(line, "\" {} -", entry.status),
        bytes => write!(line, "\" {} {bytes}", entry.status),
    };
}

/// A JSON object of one line.
fn append_object(entry: &AccessEntry<'_>, stamp: &mut Stamp, line: &mut Vec<u8>) {
    line.extend_from_slice(b"{\"time\":\"");
    stamp.append_iso(entry.time, line);
    line.push(b'"');
    let texts = [
        ("remote", Some(entry.remote.as_bytes()).filter(|text| !text.is_empty())),
        ("method", Some(entry.method).filter(|text| !text.is_empty())),
        ("target", Some(entry.target).filter(|_| !entry.method.is_empty())),
        ("version", Some(entry.version.as_bytes()).filter(|_| !entry.method.is_empty())),
        ("referer", entry.referer),
        ("user_agent", entry.user_agent),
    ];
    for (name, text) in texts {
        let Some(text) = text else { continue };
        let _ = write!(line, ",\"{name}\":\"");
        append_json(text, line);
        line.push(b'"');
    }
    let (status, bytes, duration) = (entry.status, entry.bytes_sent, entry.duration);
    let (seconds, microseconds) = (duration.as_secs(), duration.subsec_micros());
    let _ = write!(line, ",\"status\":{status},\"bytes\":{bytes},\"duration\":{seconds}.{microseconds:06}}}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    fn entry<'a>() -> AccessEntry<'a> {
        AccessEntry {
            remote: "127.0.0.1",
            method: b"GET",
            target: b"/a?b",
            version: "HTTP/1.1",
            status: 200,
            bytes_sent: 13,
            referer: None,
            user_agent: Some(b"curl/8"),
            time: UNIX_EPOCH + Duration::from_millis(784_111_777_123),
            duration: Duration::from_micros(1_000_123),
        }
    }

    fn line(format: AccessFormat, entry: &AccessEntry<'_>) -> String {
        let mut line = Vec::new();
        append_entry(format, entry, &mut Stamp::new(), &mut line);
        String::from_utf8(line).expect("UTF-8")
    }

    #[test]
    fn formats() {
        let common = "127.0.0.1 - - [06/Nov/1994:08:49:37 +0000] \"GET /a?b HTTP/1.1\" 200 13";
        assert_eq!(line(AccessFormat::Common, &entry()), common);
        assert_eq!(line(AccessFormat::Combined, &entry()), format!("{common} \"-\" \"curl/8\""));
        assert_eq!(
            line(AccessFormat::Json, &entry()),
            "{\"time\":\"1994-11-06T08:49:37.123Z\",\"remote\":\"127.0.0.1\",\"method\":\"GET\",\"target\":\"/a?b\",\
             \"version\":\"HTTP/1.1\",\"user_agent\":\"curl/8\",\"status\":200,\"bytes\":13,\"duration\":1.000123}"
        );
    }

    #[test]
    fn requests_that_could_not_be_read() {
        let unread =
            AccessEntry { remote: "", method: b"", target: b"", status: 400, bytes_sent: 0, user_agent: None, ..entry() };
        assert_eq!(line(AccessFormat::Common, &unread), "- - - [06/Nov/1994:08:49:37 +0000] \"-\" 400 -");
        assert_eq!(
            line(AccessFormat::Json, &unread),
            "{\"time\":\"1994-11-06T08:49:37.123Z\",\"status\":400,\"bytes\":0,\"duration\":1.000123}"
        );
    }

    #[test]
    fn nothing_from_outside_ends_a_line_or_a_text() {
        let hostile = b"\" 200 1\n127.0.0.1 - - [x] \"GET / HTTP/1.1\" 200 1\r\0\x1b\\\xff";
        let entry =
            AccessEntry { method: hostile, target: hostile, referer: Some(hostile), user_agent: Some(hostile), ..entry() };
        for (format, quotes) in [(AccessFormat::Common, 2), (AccessFormat::Combined, 6), (AccessFormat::Json, 34)] {
            let line = line(format, &entry);
            assert_eq!(line.matches(|character: char| character.is_control()).count(), 0, "{line}");
            let bare = line.replace("\\\\", "").replace("\\\"", "");
            assert_eq!(bare.matches('"').count(), quotes, "{line}");
        }
    }
}
