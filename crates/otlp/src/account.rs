//! Counts records that did not reach a collector, and logs the counts at most once a minute.

use crate::request::SPANS_OF_RECORD;
use std::time::{Duration, Instant};

const MINUTE: Duration = Duration::from_secs(60);

/// The counts since the last message in the log.
#[derive(Debug, Default)]
pub(crate) struct Account {
    /// Records that were lost because there was no room: in the queue, or on their way to the exporter.
    crowded: u64,
    /// Records that were not delivered in time.
    undelivered: u64,
    /// Spans that the collector has refused.
    refused: u64,
    /// Messages that cannot be read.
    broken: u64,
    /// The reason of the latest failure.
    why: Option<String>,
    told: Option<Instant>,
}

impl Account {
    pub(crate) fn crowded(&mut self, records: u64) {
        self.crowded += records;
    }

    pub(crate) fn undelivered(&mut self, records: usize) {
        self.undelivered += records as u64;
    }

    pub(crate) fn refused(&mut self, spans: u64, why: String) {
        // The collector chooses the number, and may send any.
        self.refused = self.refused.saturating_add(spans);
        self.why = Some(why);
    }

    pub(crate) fn broken(&mut self) {
        self.broken += 1;
    }

    pub(crate) fn trouble(&mut self, why: String) {
        self.why = Some(why);
    }

    fn is_empty(&self) -> bool {
        [self.crowded, self.undelivered, self.refused, self.broken] == [0; 4] && self.why.is_none()
    }

    /// The time until the next message may be logged; `None` if there is nothing to log.
    pub(crate) fn wait(&self, now: Instant) -> Option<Duration> {
        if self.is_empty() {
            return None;
        }
        Some(self.told.map_or(Duration::ZERO, |told| (told + MINUTE).saturating_duration_since(now)))
    }

    /// Returns the message to log now. `None` if there is nothing to log or if the last message is less than a minute old; with
    /// `all`, the age of the last message does not matter.
    pub(crate) fn message(&mut self, now: Instant, all: bool) -> Option<String> {
        if self.wait(now)? > Duration::ZERO && !all {
            return None;
        }
        let spans = SPANS_OF_RECORD as u64;
        let counted = [
            (self.crowded * spans, "were lost because there was no room for them"),
            (self.undelivered * spans, "were lost because they could not be delivered"),
            (self.refused, "were refused"),
        ];
        let mut parts: Vec<String> =
            counted.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
        if self.broken > 0 {
            parts.push(format!("messages of this server that make no sense: {}", self.broken));
        }
        parts.extend(self.why.take());
        *self = Self { told: Some(now), ..Self::default() };
        Some(format!("spans: {}", parts.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_told_once_a_minute_what_was_lost_until_then() {
        let (mut account, now) = (Account::default(), Instant::now());
        assert_eq!((account.wait(now), account.message(now, true)), (None, None));
        account.crowded(2);
        assert_eq!(account.message(now, false).as_deref(), Some("spans: 8 were lost because there was no room for them"));
        account.undelivered(1);
        account.refused(3, "no room there".to_owned());
        account.broken();
        assert_eq!((account.wait(now), account.message(now, false)), (Some(MINUTE), None));
        let expected = "spans: 4 were lost because they could not be delivered; 3 were refused; messages of this server that make no sense: 1; \
                        no room there";
        assert_eq!(account.message(now + MINUTE, false).as_deref(), Some(expected));
        account.refused(u64::MAX, "all".to_owned());
        account.refused(u64::MAX, "all".to_owned());
        let expected = format!("spans: {} were refused; all", u64::MAX);
        assert_eq!(account.message(now + MINUTE, true), Some(expected));
        account.trouble("nobody listens".to_owned());
        assert_eq!(account.message(now + MINUTE, true).as_deref(), Some("spans: nobody listens"));
    }
}
