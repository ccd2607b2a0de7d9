//! The queue of records for the collector.

use crate::request::SPANS_OF_RECORD;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The most records in one request: 512 spans.
const BATCH: usize = 512 / SPANS_OF_RECORD;
/// The most records in the queue: 8192 spans, a few megabytes.
const ROOM: usize = 8192 / SPANS_OF_RECORD;
/// The longest time that a record waits for others to fill a request.
const WAIT: Duration = Duration::from_secs(1);

/// Records in the order of their arrival.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    records: VecDeque<Box<[u8]>>,
    /// The time since which the oldest record waits for others; `None` without records.
    since: Option<Instant>,
}

impl Queue {
    /// Adds a record; `false` without room.
    pub(crate) fn add(&mut self, record: &[u8], now: Instant) -> bool {
        if self.records.len() >= ROOM {
            return false;
        }
        self.records.push_back(record.into());
        self.since.get_or_insert(now);
        true
    }

    /// Returns the time until the next batch should be taken; `None` without records.
    pub(crate) fn wait(&self, now: Instant) -> Option<Duration> {
        let since = self.since?;
        if self.records.len() >= BATCH { Some(Duration::ZERO) } else { Some((since + WAIT).saturating_duration_since(now)) }
    }

    /// Removes and returns the oldest records, at most a batch.
    pub(crate) fn take(&mut self, now: Instant) -> Vec<Box<[u8]>> {
        let taken = self.records.drain(..BATCH.min(self.records.len())).collect();
        self.since = (!self.records.is_empty()).then_some(now);
        taken
    }

    /// Removes all records and returns their number.
    pub(crate) fn clear(&mut self) -> usize {
        let left = self.records.len();
        (self.records, self.since) = (VecDeque::new(), None);
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_wait_for_others_but_not_for_long_and_there_is_an_end_to_them() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        assert_eq!(queue.wait(now), None);
        assert!(queue.add(b"0", now) && queue.add(b"1", now + WAIT / 2));
        assert_eq!((queue.wait(now + WAIT / 4), queue.wait(now + WAIT * 2)), (Some(WAIT * 3 / 4), Some(Duration::ZERO)));
        (2..BATCH).for_each(|_| assert!(queue.add(b"x", now)));
        assert_eq!(queue.wait(now), Some(Duration::ZERO), "a batch is there");
        (BATCH..ROOM).for_each(|_| assert!(queue.add(b"x", now)));
        assert!(!queue.add(b"x", now) && queue.records.len() == ROOM);
        let taken = queue.take(now);
        assert!(taken.len() == BATCH && *taken[0] == *b"0" && *taken[1] == *b"1");
        assert!(queue.add(b"x", now));
        assert_eq!((queue.clear(), queue.wait(now)), (ROOM - BATCH + 1, None));
    }
}
