//! Limits the rate of an event: a burst, and then a steady rate.

use std::time::{Duration, Instant};

/// A token bucket. It is full at the beginning, and gets one more token in each interval.
#[derive(Debug)]
pub(super) struct Allowance {
    /// The capacity in tokens.
    burst: u32,
    /// The time after which one token is added.
    interval: Duration,
    /// The time when the bucket is full again, if no more tokens are taken. `None` until its first use.
    full_at: Option<Instant>,
}

impl Allowance {
    /// Creates a full bucket. `burst` must not be zero.
    pub(super) const fn new(burst: u32, interval: Duration) -> Self {
        Self { burst, interval, full_at: None }
    }

    /// Returns the time until a token is available; zero if there is one.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        let Some(full_at) = self.full_at else { return Duration::ZERO };
        full_at.saturating_duration_since(now).saturating_sub(self.interval * (self.burst - 1))
    }

    /// Takes a token even if there is none: each missing token makes the wait for the next one longer by an interval.
    pub(super) fn take(&mut self, now: Instant) {
        self.full_at = Some(self.full_at.map_or(now, |full_at| full_at.max(now)) + self.interval);
    }

    /// Takes a token if there is one; returns whether there was.
    pub(super) fn try_take(&mut self, now: Instant) -> bool {
        let has_one = self.wait(now).is_zero();
        if has_one {
            self.take(now);
        }
        has_one
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_burst_is_followed_by_a_steady_rate() {
        let mut allowance = Allowance::new(3, SECOND);
        let now = Instant::now();
        assert_eq!([(); 5].map(|()| allowance.try_take(now)), [true, true, true, false, false]);
        assert_eq!(allowance.wait(now), SECOND);
        assert_eq!(allowance.wait(now + SECOND / 4), SECOND * 3 / 4);
        for number in 1..10 {
            let now = now + SECOND * number;
            assert_eq!([(); 2].map(|()| allowance.try_take(now)), [true, false], "after {number} seconds");
        }
    }

    #[test]
    fn a_quiet_time_fills_it_and_no_more_than_that() {
        let mut allowance = Allowance::new(3, SECOND);
        let now = Instant::now();
        (0..3).for_each(|_| allowance.take(now));
        let later = now + SECOND * 2;
        assert_eq!([(); 3].map(|()| allowance.try_take(later)), [true, true, false]);
        let much_later = now + SECOND * 10_000;
        assert_eq!([(); 4].map(|()| allowance.try_take(much_later)), [true, true, true, false]);
    }

    #[test]
    fn tokens_that_are_not_there_are_waited_for() {
        let mut allowance = Allowance::new(1, SECOND);
        let now = Instant::now();
        (0..3).for_each(|_| allowance.take(now));
        assert_eq!(allowance.wait(now), SECOND * 3);
    }
}
