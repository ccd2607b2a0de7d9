//! Slow requests in the error log (`--slow`): a line for each, with the parts of its time.

use super::entry::{AccessEntry, PartDurations};
use super::escape::append_quoted;
use oribi_config::{Timeouts, counted};
use std::fmt::Write as _;
use std::time::Duration;

/// The most lines in a second, which are enough to find the cause. If more requests are slow, the server is overloaded, and a
/// growing log would make it even slower.
const LINES: u32 = 10;
const SECOND: Duration = Duration::from_secs(1);

/// The size in bytes to which a request target is cut, so that the rest of the line stays readable.
const TARGET_BYTES: usize = 1000;

/// The slow requests of one lane.
#[derive(Debug)]
pub struct SlowLog {
    least: Duration,
    least_nanoseconds: u64,
    /// The start of the second whose lines `lines` counts.
    since: Duration,
    lines: u32,
    /// The number of slow requests in that second that got no line.
    more: u64,
}

impl SlowLog {
    /// Creates the log of requests that take at least the time `least`. Returns `None` if no request counts as slow.
    pub fn new(least: Duration) -> Option<Self> {
        let least_nanoseconds = u64::try_from(least.as_nanos()).unwrap_or(u64::MAX);
        (least < Timeouts::NEVER).then_some(Self { least, least_nanoseconds, since: Duration::ZERO, lines: 0, more: 0 })
    }

    /// Whether a request that took this time in nanoseconds is slow.
    #[inline]
    pub fn includes(&self, took: u64) -> bool {
        took >= self.least_nanoseconds
    }

    /// Logs a slow request, or counts it if there are too many. `worker` is the id of the process whose app answered it, if
    /// known.
    pub fn record(&mut self, entry: &AccessEntry<'_>, worker: Option<u32>, now: Duration) {
        self.tell_more(now);
        if now >= self.end() {
            (self.since, self.lines) = (now, 0);
        }
        if self.lines == LINES {
            self.more += 1;
        } else {
            self.lines += 1;
            log::warn!("{}", line(entry, worker));
        }
    }

    /// Returns the time at which [`SlowLog::tell_more`] will have something to log; `None` if there is nothing to log.
    #[inline]
    pub fn due(&self) -> Option<Duration> {
        (self.more > 0).then(|| self.end())
    }

    /// Logs the number of slow requests that got no line, once the second of these requests is over.
    #[inline]
    pub fn tell_more(&mut self, now: Duration) {
        if self.due().is_some_and(|due| now >= due) {
            self.tell_rest();
        }
    }

    fn end(&self) -> Duration {
        self.since + SECOND
    }

    #[cold]
    fn tell_rest(&mut self) {
        if self.more > 0 {
            let least = seconds(self.least);
            log::warn!("slow requests: {} took {least} or longer within that second (--slow)", counted_more(self.more));
            self.more = 0;
        }
    }
}

impl Drop for SlowLog {
    fn drop(&mut self) {
        self.tell_rest();
    }
}

fn counted_more(more: u64) -> String {
    counted(usize::try_from(more).unwrap_or(usize::MAX), "more request")
}

/// Formats a time in seconds with milliseconds.
fn seconds(time: Duration) -> String {
    format!("{:.3} s", time.as_secs_f64())
}

/// Returns the line of a slow request: all data of the access log about it, and the worker.
fn line(entry: &AccessEntry<'_>, worker: Option<u32>) -> String {
    let PartDurations { queue, first, app, send } = entry.parts.unwrap_or_default();
    let request =
        entry.head.map_or_else(|| "-".to_owned(), |head| format!("{} {}", quoted(head.method()), target(head.target())));
    let client = if entry.remote.is_empty() { "-".to_owned() } else { quoted(entry.remote.as_bytes()) };
    let mut line =
        format!("slow request: {request} took {}: status {}, client {client}", seconds(entry.duration), entry.status);
    // Writing into memory does not fail.
    if let Some(worker) = worker {
        let _ = write!(line, ", worker {worker}");
    }
    let _ = write!(
        line,
        ", queue {}, app {}, first byte {}, send {}, {}",
        seconds(queue),
        seconds(app),
        seconds(first),
        seconds(send),
        counted(usize::try_from(entry.bytes_sent).unwrap_or(usize::MAX), "byte"),
    );
    let named = [("id", entry.id), ("trace", entry.trace.map(|ids| ids.trace)), ("span", entry.trace.map(|ids| ids.span))];
    for (name, value) in named {
        if let Some(value) = value {
            let _ = write!(line, ", {name} {}", quoted(value));
        }
    }
    line
}

/// Escapes bytes as the access log does.
fn quoted(bytes: &[u8]) -> String {
    let mut text = Vec::with_capacity(bytes.len());
    append_quoted(bytes, &mut text);
    // The text is ASCII.
    String::from_utf8(text).unwrap_or_default()
}

fn target(bytes: &[u8]) -> String {
    match bytes.get(..TARGET_BYTES) {
        Some(beginning) if bytes.len() > TARGET_BYTES => quoted(beginning) + "...",
        _ => quoted(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ending, TraceIds};
    use oribi_message::{HeadLayout, RequestHead, Span};
    use std::time::SystemTime;

    fn entry<'a>(head: RequestHead<'a>) -> AccessEntry<'a> {
        let milliseconds = Duration::from_millis;
        AccessEntry {
            user: None,
            remote: "192.0.2.7",
            remote_port: "40044",
            peer: "192.0.2.7",
            earlier: Some(0),
            ending: Ending::Persists,
            server: None,
            head: Some(head),
            id: None,
            trace: None,
            status: 200,
            bytes_sent: 5120,
            noted: None,
            time: SystemTime::UNIX_EPOCH,
            duration: milliseconds(2318),
            parts: Some(PartDurations {
                queue: milliseconds(113),
                first: milliseconds(20),
                app: milliseconds(2104),
                send: milliseconds(101),
            }),
        }
    }

    fn layout(bytes: &[u8]) -> HeadLayout {
        let (method, target) = (Span { start: 0, end: 3 }, Span { start: 4, end: bytes.len() as u32 });
        HeadLayout { method, target, ..HeadLayout::default() }
    }

    #[test]
    fn a_line_has_all_that_is_known() {
        let bytes = b"GET /report?year=2026";
        let layout = layout(bytes);
        let plain = entry(RequestHead::new(bytes, &layout));
        assert_eq!(
            line(&plain, None),
            "slow request: GET /report?year=2026 took 2.318 s: status 200, client 192.0.2.7, queue 0.113 s, app 2.104 s, first byte \
             0.020 s, send 0.101 s, 5120 bytes"
        );
        let trace = Some(TraceIds { trace: b"4bf9", span: b"00f0" });
        let full = AccessEntry { id: Some(b"checkout-4711"), trace, remote: "", bytes_sent: 1, status: 499, ..plain };
        assert_eq!(
            line(&full, Some(4711)),
            "slow request: GET /report?year=2026 took 2.318 s: status 499, client -, worker 4711, queue 0.113 s, app 2.104 s, first byte \
             0.020 s, send 0.101 s, 1 byte, id checkout-4711, trace 4bf9, span 00f0"
        );
    }

    #[test]
    fn nobody_forges_a_line() {
        let bytes = b"GET /a\" took 0 s\n\x1b[31m\\\xff";
        let layout = layout(bytes);
        let said = line(&entry(RequestHead::new(bytes, &layout)), None);
        assert!(said.starts_with("slow request: GET /a\\\" took 0 s\\n\\x1b[31m\\\\\\xff took 2.318 s: "), "{said}");
    }

    #[test]
    fn a_long_target_leaves_room_for_the_rest() {
        let bytes = [b"GET /", "x".repeat(5000).as_bytes()].concat();
        let layout = layout(&bytes);
        let said = line(&entry(RequestHead::new(&bytes, &layout)), None);
        assert!(said.contains("xxx... took 2.318 s: ") && said.ends_with("5120 bytes") && said.len() < 1200, "{said}");
    }

    #[test]
    fn a_second_has_some_lines_and_the_rest_is_counted() {
        let bytes = b"GET /";
        let layout = layout(bytes);
        let entry = entry(RequestHead::new(bytes, &layout));
        let mut log = SlowLog::new(SECOND).expect("it is on");
        assert!(log.includes(1_000_000_000) && !log.includes(999_999_999));
        let start = SECOND * 100;
        for number in 0..LINES + 7 {
            log.record(&entry, None, start + Duration::from_millis(u64::from(number)));
        }
        assert_eq!((log.lines, log.more, log.due()), (LINES, 7, Some(start + SECOND)));
        log.tell_more(start + SECOND - Duration::from_nanos(1));
        assert_eq!(log.more, 7, "the second is not over");
        log.tell_more(start + SECOND);
        assert_eq!((log.more, log.due()), (0, None));
        log.record(&entry, None, start + SECOND);
        assert_eq!((log.lines, log.since), (1, start + SECOND));
        assert!(SlowLog::new(Timeouts::NEVER).is_none());
    }
}
