//! Records that wait for the collector.

use crate::request::SPANS_OF_RECORD;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// So many spans are sent at once at most.
const BATCH: usize = 512 / SPANS_OF_RECORD;
/// So many may wait. The memory for that is no more than a few megabytes.
const ROOM: usize = 8192 / SPANS_OF_RECORD;
/// So long a record waits for others.
const WAIT: Duration = Duration::from_secs(1);

/// Records in their order.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    records: VecDeque<Box<[u8]>>,
    /// When the first of those came that wait for others.
    since: Option<Instant>,
}

impl Queue {
    /// Adds a record; `false`: there is no room.
    pub(crate) fn add(&mut self, record: &[u8], now: Instant) -> bool {
        if self.records.len() >= ROOM {
            return false;
        }
        self.records.push_back(record.into());
        self.since.get_or_insert(now);
        true
    }

    /// How long to wait before records are taken; `None`: there are none.
    pub(crate) fn wait(&self, now: Instant) -> Option<Duration> {
        let since = self.since?;
        if self.records.len() >= BATCH { Some(Duration::ZERO) } else { Some((since + WAIT).saturating_duration_since(now)) }
    }

    /// Takes the oldest, as many as are sent at once.
    pub(crate) fn take(&mut self, now: Instant) -> Vec<Box<[u8]>> {
        let taken = self.records.drain(..BATCH.min(self.records.len())).collect();
        self.since = (!self.records.is_empty()).then_some(now);
        taken
    }

    /// Removes all, and says how many there were.
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
