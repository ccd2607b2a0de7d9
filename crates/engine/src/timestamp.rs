//! A time on the backend's clock in 8 bytes; a `Duration` takes 16.

use std::time::Duration;

/// A time for tables with an entry for each connection, in nanoseconds, enough for centuries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Timestamp(u64);

impl Timestamp {
    pub(super) const ZERO: Self = Self(0);

    /// The time of an event that has not happened.
    pub(super) const NEVER: Self = Self(u64::MAX);

    /// Nanoseconds since an earlier time.
    #[inline]
    pub(super) const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The time this many nanoseconds later.
    #[inline]
    pub(super) const fn after(self, nanoseconds: u64) -> Self {
        Self(self.0.saturating_add(nanoseconds))
    }

    /// The time as a `Duration`, for arithmetic.
    #[inline]
    pub(super) const fn time(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

impl From<Duration> for Timestamp {
    #[inline]
    fn from(time: Duration) -> Self {
        Self(time.as_secs().saturating_mul(1_000_000_000).saturating_add(time.subsec_nanos().into()))
    }
}

#[cfg(test)]
mod tests {
    use super::Timestamp;
    use std::time::Duration;

    #[test]
    fn a_moment_is_small_and_exact() {
        assert_eq!(size_of::<Timestamp>(), 8);
        for time in [Duration::ZERO, Duration::new(7, 999_999_999), Duration::from_nanos(u64::MAX)] {
            assert_eq!(Timestamp::from(time).time(), time);
        }
        assert_eq!(Timestamp::from(Duration::MAX).time(), Duration::from_nanos(u64::MAX));
    }
}
