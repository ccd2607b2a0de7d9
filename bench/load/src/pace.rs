//! The schedule of requests, and the way in which slow clients divide their bytes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Requests that are due at fixed times, whatever happens to earlier requests.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    start: u64,
    /// Nanoseconds from one request to the next.
    pub spacing: f64,
    next: u64,
    count: u64,
}

impl Schedule {
    /// Makes a schedule of `rate` requests a second, from `start` on, for `length` nanoseconds.
    pub fn new(start: u64, rate: f64, length: u64) -> Self {
        Self { start, spacing: 1e9 / rate, next: 0, count: (length as f64 * rate / 1e9) as u64 }
    }

    /// The time at which the next request that is not taken is due; `None` when all are taken.
    #[inline]
    pub fn next_due(&self) -> Option<u64> {
        (self.next < self.count).then(|| self.start + (self.next as f64 * self.spacing) as u64)
    }

    /// Takes up to `most` requests that are due. Returns the time at which the first of them was due, and their number; `None`
    /// if none is due.
    #[inline]
    pub fn take(&mut self, now: u64, most: u32) -> Option<(u64, u32)> {
        let due = self.next_due().filter(|&due| due <= now)?;
        let begun = ((now - self.start) as f64 / self.spacing) as u64 + 1;
        let taken = (begun.min(self.count) - self.next).clamp(1, u64::from(most));
        self.next += taken;
        Some((due, taken as u32))
    }

    /// Requests that no connection has taken.
    pub fn left(&self) -> u64 {
        self.count - self.next
    }
}

/// The largest portion in bytes, so that small socket buffers hold one. At low rates portions are smaller, so that there are at
/// least ten a second.
const LARGEST_PORTION: f64 = 4096.0;

/// A rate of bytes, as portions and the time between them.
#[derive(Clone, Copy, Debug)]
pub struct Portion {
    pub bytes: usize,
    pub nanoseconds: u64,
}

impl Portion {
    /// For a number of bytes a second.
    pub fn of(rate: f64) -> Self {
        let bytes = (rate / 10.0).floor().clamp(1.0, LARGEST_PORTION);
        Self { bytes: bytes as usize, nanoseconds: (bytes * 1e9 / rate) as u64 }
    }
}

/// Connections that are to be looked at later.
#[derive(Debug, Default)]
pub struct Agenda {
    heap: BinaryHeap<Reverse<(u64, u32, u32)>>,
}

impl Agenda {
    pub fn add(&mut self, when: u64, index: u32, generation: u32) {
        self.heap.push(Reverse((when, index, generation)));
    }

    pub fn next_due(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((when, ..))| *when)
    }

    pub fn take(&mut self, now: u64) -> Option<(u32, u32)> {
        self.next_due().filter(|&when| when <= now)?;
        self.heap.pop().map(|Reverse((_, index, generation))| (index, generation))
    }
}

#[cfg(test)]
mod tests {
    use super::{Agenda, Portion, Schedule};

    #[test]
    fn requests_are_due_at_their_rate_and_none_is_forgotten() {
        let mut schedule = Schedule::new(1_000, 1000.0, 10_000_000);
        assert_eq!(schedule.take(999, 8), None);
        assert_eq!(schedule.take(1_000, 8), Some((1_000, 1)));
        assert_eq!(schedule.take(1_000, 8), None);
        assert_eq!(schedule.next_due(), Some(1_001_000));
        assert_eq!(schedule.take(4_001_000, 2), Some((1_001_000, 2)));
        assert_eq!(schedule.take(4_001_000, 8), Some((3_001_000, 2)));
        assert_eq!(schedule.left(), 5);
        assert_eq!(schedule.take(1_000_000_000, 8), Some((5_001_000, 5)));
        assert_eq!((schedule.next_due(), schedule.take(u64::MAX, 8)), (None, None));
    }

    #[test]
    fn portions_keep_the_rate() {
        for rate in [0.5, 1.0, 9.0, 10.0, 1234.0, 1e6, 1e9] {
            let portion = Portion::of(rate);
            let kept = portion.bytes as f64 * 1e9 / portion.nanoseconds as f64;
            assert!((kept - rate).abs() <= rate / 100.0, "{rate}: {portion:?}");
        }
    }

    #[test]
    fn an_agenda_is_in_order() {
        let mut agenda = Agenda::default();
        agenda.add(20, 2, 0);
        agenda.add(10, 1, 0);
        assert_eq!((agenda.take(9), agenda.next_due()), (None, Some(10)));
        assert_eq!((agenda.take(30), agenda.take(30), agenda.take(30)), (Some((1, 0)), Some((2, 0)), None));
    }
}
