//! The times of a request, and the durations of its parts.
//!
//! ```text
//! complete        taken          first byte from the app      last byte from the app       last byte sent
//!    |--- queue ----|---- first ----------|                            |                         |
//!                   |---- app ----------------------------------------|---- send ---------------|
//! ```

use super::timestamp::Timestamp;
use oribi_log::PartDurations;
use oribi_stats::totals::Tally;
use std::time::Duration;

/// The times of a request that was handed out. Each connection has one, so it is small: its two durations, which are mostly
/// short, are limited to 71 minutes.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestTimings {
    /// The time at which the request was complete.
    complete: Timestamp,
    /// Microseconds from its completion until a worker took the request.
    queue: u32,
    /// Microseconds from that moment until the final response began; 0 if it has not begun.
    first: u32,
    /// The time at which the app's part of the response ended.
    ended: Timestamp,
}

/// The wait of a request for a worker.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    /// Nanoseconds from the completion of the request until a worker took it.
    pub nanoseconds: u64,
    /// The pid of the worker that took the request, if it is known and needed.
    pub worker: Option<u32>,
}

/// Nanoseconds as microseconds, limited to 32 bits.
#[inline]
fn microseconds(nanoseconds: u64) -> u32 {
    u32::try_from(nanoseconds / 1000).unwrap_or(u32::MAX)
}

/// Appends nanoseconds as milliseconds with three decimals, such as `0.057`: each response may need two of them, and
/// formatting floating-point numbers takes a thousand instructions.
fn append_milliseconds(nanoseconds: u64, text: &mut Vec<u8>) {
    let mut rest = (nanoseconds.saturating_add(500)) / 1000;
    // Room for all digits of the largest number, and the point.
    let mut digits = [b'0'; 18];
    let point = digits.len() - 4;
    let mut start = digits.len();
    while rest > 0 || start >= point {
        start -= 1;
        if start == point {
            digits[start] = b'.';
        } else {
            digits[start] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
    }
    text.extend_from_slice(&digits[start..]);
}

impl RequestTimings {
    /// The times of a request that a lane takes at `now`, or that an edge puts into its queue.
    #[inline]
    pub(super) fn new(complete: Timestamp, now: Duration) -> Self {
        let queue = microseconds(Timestamp::from(now).since(complete));
        Self { complete, queue, first: 0, ended: Timestamp::NEVER }
    }

    /// Notes that a worker took the request `wait` nanoseconds after its completion.
    #[inline]
    pub(super) fn wait(&mut self, wait: u64) {
        self.queue = microseconds(wait);
    }

    /// The time from the completion of the request until a worker took it.
    pub(super) fn queue_time(&self) -> Duration {
        Duration::from_micros(self.queue.into())
    }

    #[inline]
    fn taken(&self) -> Timestamp {
        self.complete.after(u64::from(self.queue) * 1000)
    }

    /// Notes that the final response begins.
    #[inline]
    pub(super) fn begin_response(&mut self, now: Timestamp) {
        self.first = microseconds(now.since(self.taken())).max(1);
    }

    /// The time since the request was complete.
    pub(super) fn age(&self, now: Duration) -> Duration {
        now.saturating_sub(self.complete.time())
    }

    /// Notes that the app has finished the response.
    #[inline]
    pub(super) fn end_app(&mut self, now: Timestamp) {
        self.ended = now;
    }
}

impl RequestTimings {
    /// The durations of the parts of a request. At `now`, the last byte of its response was sent, or its client disconnected.
    /// An app that has not finished counts as ended at `now`.
    pub(super) fn parts(&self, now: Timestamp) -> PartDurations {
        let ended = self.ended.min(now);
        // Another process may have reported this time, so it is limited.
        let taken = self.taken().min(ended);
        let time = |from: Timestamp, to: Timestamp| Duration::from_nanos(to.since(from));
        let app = time(taken, ended);
        let first = if self.first == 0 { app } else { app.min(Duration::from_micros(self.first.into())) };
        PartDurations { queue: time(self.complete, taken), first, app, send: time(ended, now) }
    }

    /// Writes the wait of the request and the run time of its app until `now`, as the value of a field Server-Timing, in
    /// milliseconds.
    pub(super) fn write_timing(&self, now: Duration, value: &mut Vec<u8>) {
        let now = Timestamp::from(now);
        let ended = self.ended.min(now);
        let taken = self.taken().min(ended);
        value.clear();
        value.extend_from_slice(b"queue;dur=");
        append_milliseconds(taken.since(self.complete), value);
        value.extend_from_slice(b", app;dur=");
        append_milliseconds(ended.since(taken), value);
    }

    /// The nanoseconds of all parts together, of a response whose last byte was sent at `now`.
    #[inline]
    pub(super) const fn total(&self, now: Timestamp) -> u64 {
        now.since(self.complete)
    }

    #[inline]
    pub(super) fn count(&self, now: Timestamp, tally: &Tally) {
        let ended = self.ended.min(now);
        let taken = self.taken().min(ended);
        tally.timed([taken.since(self.complete), ended.since(taken), now.since(ended), self.total(now)]);
    }
}

#[cfg(test)]
mod tests {
    use super::append_milliseconds;

    #[test]
    fn milliseconds_have_three_places() {
        for (nanoseconds, text) in [
            (0, "0.000"),
            (499, "0.000"),
            (500, "0.001"),
            (57_000, "0.057"),
            (999_500, "1.000"),
            (30_000_000, "30.000"),
            (1_234_567_890, "1234.568"),
            (u64::MAX, "18446744073709.551"),
        ] {
            let mut written = b"x".to_vec();
            append_milliseconds(nanoseconds, &mut written);
            assert_eq!(String::from_utf8_lossy(&written), format!("x{text}"));
        }
    }
}
