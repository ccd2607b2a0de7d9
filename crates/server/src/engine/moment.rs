//! A time on the backend's clock in 12 bytes; a `Duration`, alone or next to small fields, takes 16.

use std::time::Duration;

/// For tables with an entry for each connection.
#[derive(Clone, Copy, Debug, Default)]
#[repr(Rust, packed(4))]
pub(super) struct Moment {
    seconds: u64,
    nanoseconds: u32,
}

impl Moment {
    pub(super) const ZERO: Self = Self { seconds: 0, nanoseconds: 0 };

    /// As a `Duration`, for arithmetic.
    #[inline]
    pub(super) fn time(self) -> Duration {
        Duration::new(self.seconds, self.nanoseconds)
    }
}

impl From<Duration> for Moment {
    #[inline]
    fn from(time: Duration) -> Self {
        Self { seconds: time.as_secs(), nanoseconds: time.subsec_nanos() }
    }
}

#[cfg(test)]
mod tests {
    use super::Moment;
    use std::time::Duration;

    #[test]
    fn a_moment_is_small_and_exact() {
        assert_eq!(size_of::<Moment>(), 12);
        for time in [Duration::ZERO, Duration::new(7, 999_999_999), Duration::MAX] {
            assert_eq!(Moment::from(time).time(), time);
        }
    }
}
