//! Writes lines in a format defined by the user.

use super::date_cache::DateCache;
use super::entry::{AccessEntry, Ending, Noted};
use super::escape::append_quoted;
use oribi_config::{AccessItem, AccessPart, AccessPattern, Instant, Radix, TimeForm, Unit};
use oribi_message::{FieldPair, KnownField, RequestHead};
use std::io::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Copies the response fields that the pattern names. `None` if it names none.
pub(super) fn note<'a>(pattern: &AccessPattern, fields: &(impl Iterator<Item = FieldPair<'a>> + Clone)) -> Option<Box<Noted>> {
    let wanted = &pattern.response_fields;
    let value = |wanted: &Vec<u8>| fields.clone().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value);
    (!wanted.is_empty()).then(|| Box::new(Noted(wanted.iter().map(|name| value(name).unwrap_or_default().to_vec()).collect())))
}

pub(super) fn append_by(pattern: &AccessPattern, entry: &AccessEntry<'_>, date_cache: &mut DateCache, line: &mut Vec<u8>) {
    for part in &pattern.parts {
        match part {
            AccessPart::Text(text) => line.extend_from_slice(text),
            AccessPart::Item(_, Some(statuses)) if !statuses.include(entry.status) => line.push(b'-'),
            AccessPart::Item(item, _) => append_item(item, entry, date_cache, line),
        }
    }
}

fn append_item(item: &AccessItem, entry: &AccessEntry<'_>, date_cache: &mut DateCache, line: &mut Vec<u8>) {
    let head = entry.head;
    let text = match item {
        AccessItem::Client => Some(entry.remote.as_bytes()),
        // An unknown port is 0.
        AccessItem::ClientPort => Some(entry.remote_port.as_bytes()).filter(|port| *port != b"0"),
        AccessItem::Peer => Some(entry.peer.as_bytes()),
        AccessItem::User => entry.user,
        AccessItem::RequestLine => return append_request_line(head, line),
        AccessItem::Method => head.map(|head| head.method()),
        AccessItem::Path => head.map(|head| head.path()),
        AccessItem::PathAndQuery => head.map(|head| head.path_and_query()),
        AccessItem::Query => return append_query(head, line),
        AccessItem::Version => head.map(|head| head.version().as_str().as_bytes()),
        AccessItem::Host => head.and_then(|head| head.host()).or(entry.server.map(|server| server.address)),
        AccessItem::ServerName => entry.server.map(|server| server.address),
        AccessItem::ServerPort => entry.server.map(|server| server.port),
        AccessItem::RequestField(name) => head.and_then(|head| field(&head, name)),
        AccessItem::Cookie(name) => head.and_then(|head| cookie(&head, name)),
        AccessItem::ResponseField(number) => entry.noted.and_then(|noted| noted.0.get(*number)).map(Vec::as_slice),
        AccessItem::Status => return append_number(entry.status.into(), line),
        AccessItem::BytesOrDash if entry.bytes_sent == 0 => None,
        AccessItem::Bytes | AccessItem::BytesOrDash => return append_number(entry.bytes_sent, line),
        AccessItem::Duration(unit) => return append_number(whole(entry.duration, *unit), line),
        AccessItem::Part(name, unit) => {
            let part = entry.parts.and_then(|parts| parts.named().into_iter().find(|(named, _)| named == name));
            let Some((_, time)) = part else { return line.push(b'-') };
            return append_number(whole(time, *unit), line);
        }
        AccessItem::Time(Instant::Begin, form) => return append_time(entry.time, form, date_cache, line),
        AccessItem::Time(Instant::End, form) => return append_time(entry.time + entry.duration, form, date_cache, line),
        AccessItem::RequestId => entry.id,
        AccessItem::Trace => entry.trace.map(|ids| ids.trace),
        AccessItem::Span => entry.trace.map(|ids| ids.span),
        AccessItem::Process => return append_number(std::process::id().into(), line),
        AccessItem::Thread(radix) => return append_thread(*radix, line),
        AccessItem::Earlier => {
            let Some(earlier) = entry.earlier else { return line.push(b'-') };
            return append_number(earlier.into(), line);
        }
        AccessItem::Ending => Some(match entry.ending {
            Ending::Aborted => &b"X"[..],
            Ending::Persists => b"+",
            Ending::Closes => b"-",
        }),
    };
    append_quoted(text.filter(|text| !text.is_empty()).unwrap_or(b"-"), line);
}

fn append_number(number: u64, line: &mut Vec<u8>) {
    // Writing into memory does not fail.
    let _ = write!(line, "{number}");
}

fn append_thread(radix: Radix, line: &mut Vec<u8>) {
    let thread = rustix::thread::gettid().as_raw_nonzero();
    // Writing into memory does not fail.
    let _ = match radix {
        Radix::Decimal => write!(line, "{thread}"),
        Radix::Hexadecimal => write!(line, "{thread:x}"),
    };
}

/// Appends the request line as sent by the client; `-` if it could not be read.
pub(super) fn append_request_line(head: Option<RequestHead<'_>>, line: &mut Vec<u8>) {
    let Some(head) = head else { return line.push(b'-') };
    append_quoted(head.method(), line);
    line.push(b' ');
    append_quoted(head.target(), line);
    line.push(b' ');
    append_quoted(head.version().as_str().as_bytes(), line);
}

/// Appends the query with its `?`; nothing without a query, as Apache does.
fn append_query(head: Option<RequestHead<'_>>, line: &mut Vec<u8>) {
    let query = head.map(|head| head.query()).unwrap_or_default();
    if !query.is_empty() {
        line.push(b'?');
        append_quoted(query, line);
    }
}

fn append_time(time: SystemTime, form: &TimeForm, date_cache: &mut DateCache, line: &mut Vec<u8>) {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    // Writing into memory does not fail.
    let _ = match form {
        TimeForm::Common => {
            line.push(b'[');
            date_cache.append_common(time, line);
            line.push(b']');
            Ok(())
        }
        TimeForm::Calendar(form) => {
            date_cache.append_calendar(time, form, line);
            Ok(())
        }
        TimeForm::Since(unit) => write!(line, "{}", whole(since, *unit)),
        TimeForm::Fraction(Unit::Microseconds) => write!(line, "{:06}", since.subsec_micros()),
        TimeForm::Fraction(Unit::Seconds | Unit::Milliseconds) => write!(line, "{:03}", since.subsec_millis()),
    };
}

fn whole(duration: Duration, unit: Unit) -> u64 {
    match unit {
        Unit::Seconds => duration.as_secs(),
        Unit::Milliseconds => duration.as_millis() as u64,
        Unit::Microseconds => duration.as_micros() as u64,
    }
}

/// Returns the value of the first field of that name.
fn field<'a>(head: &RequestHead<'a>, wanted: &[u8]) -> Option<&'a [u8]> {
    head.fields().find(|(_, name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, _, value)| value)
}

/// Returns the value of the first cookie of that name (RFC 6265, section 4.2.1).
fn cookie<'a>(head: &RequestHead<'a>, wanted: &[u8]) -> Option<&'a [u8]> {
    let fields = head.fields().filter(|(known, ..)| *known == Some(KnownField::Cookie)).map(|(_, _, value)| value);
    fields.flat_map(|value| value.split(|byte| *byte == b';')).find_map(|pair| {
        let pair = pair.trim_ascii();
        let (name, value) = pair.split_at_checked(wanted.len())?;
        value.strip_prefix(b"=").filter(|_| name.eq_ignore_ascii_case(wanted))
    })
}
