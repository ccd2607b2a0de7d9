//! The number of worker processes: a fixed one, or two between which it follows the load.

use super::counted::counted;
use std::fmt::{self, Display, Formatter};

/// The number of worker processes of an app.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerRange {
    least: usize,
    most: usize,
}

impl WorkerRange {
    /// Returns the range in which the number of workers follows the load. With 0 for `least` the app sleeps, without any process,
    /// while nobody asks for it. `most` counts as at least 1, and as at least `least`.
    #[must_use]
    pub fn between(least: usize, most: usize) -> Self {
        Self { least, most: most.max(least).max(1) }
    }

    /// The lowest number of workers. 0: the app may sleep.
    #[must_use]
    pub const fn least(self) -> usize {
        self.least
    }

    /// The highest number of workers, at least 1. Memory and descriptors are made for that many.
    #[must_use]
    pub const fn most(self) -> usize {
        self.most
    }

    /// The number of workers with which an app starts, and with which it wakes up: at least 1.
    #[must_use]
    pub fn at_start(self) -> usize {
        self.least.max(1)
    }

    /// Whether the number of workers follows the load.
    #[must_use]
    pub const fn follows_load(self) -> bool {
        self.least < self.most
    }

    /// Whether the app may be without any process.
    #[must_use]
    pub const fn may_sleep(self) -> bool {
        self.least == 0
    }
}

/// A fixed number. 0 counts as 1, as in Puma and Starlet, where 0 asks for a single process.
impl From<usize> for WorkerRange {
    fn from(number: usize) -> Self {
        Self { least: number.max(1), most: number.max(1) }
    }
}

/// Writes the value so that it can be set again: `4`, or `2:8`.
impl Display for WorkerRange {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        if self.follows_load() { write!(formatter, "{}:{}", self.least, self.most) } else { write!(formatter, "{}", self.most) }
    }
}

impl WorkerRange {
    /// Describes the number for users: `1 worker`, `2 to 8 workers`.
    #[must_use]
    pub fn in_words(self) -> String {
        let most = counted(self.most, "worker");
        if self.follows_load() { format!("{} to {most}", self.least) } else { most }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_range_from_0_lets_an_app_sleep() {
        assert!(WorkerRange::between(0, 4).may_sleep());
        assert!(!WorkerRange::between(1, 4).may_sleep() && !WorkerRange::from(0).may_sleep());
        assert_eq!(WorkerRange::between(0, 0).most(), 1);
        assert_eq!(
            [WorkerRange::from(1), WorkerRange::between(0, 4)].map(WorkerRange::in_words),
            ["1 worker", "0 to 4 workers"]
        );
    }
}
