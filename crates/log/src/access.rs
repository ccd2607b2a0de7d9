//! The access log: one line for each request.
//!
//! A lane appends lines to its own buffer and writes the buffer before it waits for events. So all requests of one iteration of
//! its event loop need only one system call.

use super::date_cache::DateCache;
use super::entry::{AccessEntry, Noted, PartDurations};
use super::escape::{append_json, append_quoted};
use super::pattern::{append_by, append_request_line, note};
use super::sink::LineSink;
use oribi_config::{AccessFormat, LogTarget};
use oribi_message::{FieldPair, KnownField};
use std::fs::File;
use std::io::{self, Write as _};

/// The access log of one lane.
#[derive(Debug)]
pub struct AccessLog {
    format: AccessFormat,
    date_cache: DateCache,
    sink: LineSink,
}

impl AccessLog {
    /// Opens the log; several lanes and processes may have the same file open.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(target: &LogTarget, format: &AccessFormat) -> io::Result<Self> {
        Ok(Self { format: format.clone(), date_cache: DateCache::new(), sink: LineSink::open(target)? })
    }

    /// Opens the log for a process of a server that starts. If a log rotation has just renamed the file, this call waits
    /// briefly until the first process of the server has created the new file.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open_in_time(target: &LogTarget, format: &AccessFormat) -> io::Result<Self> {
        Ok(Self { format: format.clone(), date_cache: DateCache::new(), sink: LineSink::open_in_time(target)? })
    }

    /// Opens the log for a server that is already serving: if the file cannot be opened, the log tries again later.
    pub fn open_or_wait(target: &LogTarget, format: &AccessFormat) -> Self {
        Self { format: format.clone(), date_cache: DateCache::new(), sink: LineSink::open_or_wait(target) }
    }

    /// Opens the file again by its name, after a log rotation has renamed the old file. Lines in the buffer go to the old file.
    ///
    /// # Errors
    /// The file cannot be opened; then the old file stays in use.
    pub fn reopen(&mut self) -> io::Result<()> {
        self.sink.reopen()
    }

    /// Continues with `file`, which another process has opened by the name of the log. Lines in the buffer go to the old file.
    pub fn replace(&mut self, file: File) {
        self.sink.replace(file);
    }

    /// From now on, this process does not open the file by its name; another process does and passes it to
    /// [`AccessLog::replace`].
    pub fn expect_file(&mut self) {
        self.sink.expect_file();
    }

    /// Adds the line of a request to the buffer. The next [`AccessLog::flush`] writes the buffer, or this call does if the
    /// buffer is large.
    pub fn record(&mut self, entry: &AccessEntry<'_>) {
        let Self { format, date_cache, sink } = self;
        sink.add(|line| append_entry(format, entry, date_cache, line));
    }

    /// Copies the fields of a response that the format of the log names; `None` if it names none.
    pub fn note<'a>(&self, fields: &(impl Iterator<Item = FieldPair<'a>> + Clone)) -> Option<Box<Noted>> {
        match &self.format {
            AccessFormat::Pattern(pattern) => note(pattern, fields),
            AccessFormat::Common | AccessFormat::Combined | AccessFormat::Rack | AccessFormat::Json => None,
        }
    }

    /// Writes the lines in the buffer, to a file by one system call. Lines for which a slow reader of a pipe has no room yet
    /// stay in the buffer until the next call.
    pub fn flush(&mut self) {
        self.sink.flush();
    }
}

fn append_entry(format: &AccessFormat, entry: &AccessEntry<'_>, date_cache: &mut DateCache, line: &mut Vec<u8>) {
    match format {
        AccessFormat::Common => append_common(entry, date_cache, line),
        AccessFormat::Combined => {
            append_common(entry, date_cache, line);
            for field in [KnownField::Referer, KnownField::UserAgent] {
                line.extend_from_slice(b" \"");
                append_quoted(entry.head.and_then(|head| head.field(field)).unwrap_or(b"-"), line);
                line.push(b'"');
            }
        }
        AccessFormat::Rack => {
            append_common(entry, date_cache, line);
            // Writing into memory does not fail.
            let _ = write!(line, " {:.4}", entry.duration.as_secs_f64());
        }
        AccessFormat::Json => append_object(entry, date_cache, line),
        AccessFormat::Pattern(pattern) => append_by(pattern, entry, date_cache, line),
    }
}

/// Apache's `%h %l %u %t "%r" %>s %b`.
fn append_common(entry: &AccessEntry<'_>, date_cache: &mut DateCache, line: &mut Vec<u8>) {
    append_quoted(if entry.remote.is_empty() { b"-" } else { entry.remote.as_bytes() }, line);
    line.extend_from_slice(b" - ");
    append_quoted(entry.user.filter(|user| !user.is_empty()).unwrap_or(b"-"), line);
    line.extend_from_slice(b" [");
    date_cache.append_common(entry.time, line);
    line.extend_from_slice(b"] \"");
    append_request_line(entry.head, line);
    // Writing into memory does not fail.
    let _ = match entry.bytes_sent {
        0 => write!(line, "\" {} -", entry.status),
        bytes => write!(line, "\" {} {bytes}", entry.status),
    };
}

/// A JSON object of one line.
fn append_object(entry: &AccessEntry<'_>, date_cache: &mut DateCache, line: &mut Vec<u8>) {
    line.extend_from_slice(b"{\"time\":\"");
    date_cache.append_iso(entry.time, line);
    line.push(b'"');
    let texts = [
        ("remote", Some(entry.remote.as_bytes()).filter(|text| !text.is_empty())),
        ("user", entry.user),
        ("request_id", entry.id),
        ("trace_id", entry.trace.map(|ids| ids.trace)),
        ("span_id", entry.trace.map(|ids| ids.span)),
        ("method", entry.head.map(|head| head.method())),
        ("target", entry.head.map(|head| head.target())),
        ("version", entry.head.map(|head| head.version().as_str().as_bytes())),
        ("referer", entry.head.and_then(|head| head.field(KnownField::Referer))),
        ("user_agent", entry.head.and_then(|head| head.field(KnownField::UserAgent))),
    ];
    for (name, text) in texts {
        let Some(text) = text else { continue };
        let _ = write!(line, ",\"{name}\":\"");
        append_json(text, line);
        line.push(b'"');
    }
    let (status, bytes, duration) = (entry.status, entry.bytes_sent, entry.duration);
    let (seconds, microseconds) = (duration.as_secs(), duration.subsec_micros());
    let _ = write!(line, ",\"status\":{status},\"bytes\":{bytes},\"duration\":{seconds}.{microseconds:06}");
    for (name, time) in entry.parts.iter().flat_map(PartDurations::named) {
        let _ = write!(line, ",\"{name}\":{}.{:06}", time.as_secs(), time.subsec_micros());
    }
    line.push(b'}');
}

#[cfg(test)]
mod tests;
