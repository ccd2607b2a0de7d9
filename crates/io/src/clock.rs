//! The kernel's clocks.

use rustix::event::Timespec;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Time since some moment before the process began.
pub(crate) fn monotonic() -> Duration {
    duration(clock_gettime(ClockId::Monotonic))
}

/// Time since the Unix epoch.
pub(crate) fn wall() -> Duration {
    duration(clock_gettime(ClockId::Realtime))
}

/// Rounded up: a wait that ended before its deadline would spin until the deadline. Whole milliseconds suit the older system
/// calls, which every sandbox allows. No deadline is longer than a day.
pub(crate) fn whole_milliseconds(time: Duration) -> Timespec {
    let milliseconds = time.min(Duration::from_secs(86_400)).as_nanos().div_ceil(1_000_000) as i64;
    Timespec { tv_sec: milliseconds / 1000, tv_nsec: milliseconds % 1000 * 1_000_000 }
}

fn duration(time: Timespec) -> Duration {
    // Both clocks count up from zero, and the nanoseconds of a timespec are fewer than a second's.
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
