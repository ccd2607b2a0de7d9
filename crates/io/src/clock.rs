//! The kernel's clocks.

use rustix::event::Timespec;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Time since some moment before the process began. All processes share this clock, and nobody sets it.
#[must_use]
pub fn monotonic() -> Duration {
    duration(clock_gettime(ClockId::Monotonic))
}

/// Time since the Unix epoch.
pub(crate) fn wall() -> Duration {
    duration(clock_gettime(ClockId::Realtime))
}

/// Rounds a timeout up to whole milliseconds, and limits it to a day: no deadline is longer. A wait that ended before its
/// deadline would make the loop spin until the deadline. For whole milliseconds the older system calls suffice, which every
/// sandbox allows.
pub(crate) fn whole_milliseconds(time: Duration) -> Timespec {
    let time = time.min(Duration::from_secs(86_400));
    // This may make a whole second more.
    let rounded = Duration::new(time.as_secs(), time.subsec_nanos().next_multiple_of(1_000_000));
    Timespec { tv_sec: rounded.as_secs() as i64, tv_nsec: rounded.subsec_nanos().into() }
}

fn duration(time: Timespec) -> Duration {
    // Both clocks count up from zero, and the nanoseconds of a timespec are fewer than a second's.
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_up_to_whole_milliseconds() {
        for (nanoseconds, milliseconds) in [
            (0, 0),
            (1, 1),
            (1_000_000, 1),
            (1_000_001, 2),
            (999_000_001, 1000),
            (1_999_999_999, 2000),
            (2_000_000_000, 2000),
            (86_400_000_000_000, 86_400_000),
            (u64::MAX, 86_400_000),
        ] {
            let Timespec { tv_sec, tv_nsec } = whole_milliseconds(Duration::from_nanos(nanoseconds));
            assert!((0..1_000_000_000).contains(&tv_nsec) && tv_nsec % 1_000_000 == 0);
            assert_eq!(tv_sec * 1000 + tv_nsec / 1_000_000, milliseconds, "{nanoseconds}");
        }
    }
}
