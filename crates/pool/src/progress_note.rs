//! The edge's notes about a request, for the inspection of a pool. No decision depends on them. They are in a separate file
//! that workers do not have.
//!
//! | word | holds |
//! |---|---|
//! | since | when the request entered the pool, in nanoseconds of the edge's clock |
//! | progress note | low half: milliseconds from the arrival to the last sign of progress; high half: the app's own deadline |
//!
//! An edge passes the time to its pool once in each round of its loop ([`crate::Edge::set_time`]), so a note costs one store
//! and does not read a clock.

use std::time::Duration;

/// The word of a request before the first note about it.
pub(crate) const NOTHING: u64 = 0;

/// In the high half: the app has no deadline.
const LIFTED: u32 = u32::MAX;

/// The progress of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProgressNote {
    /// The time from the arrival of the request to the last sign of progress from its worker; `None` if the edge has not found
    /// the request with a worker.
    pub(crate) progress: Option<Duration>,
    /// The deadline that the app asked for last, counted from the last sign of progress. `None` if the app has not asked;
    /// `Some(None)` if it asked for no deadline.
    pub(crate) own_deadline: Option<Option<Duration>>,
}

impl ProgressNote {
    pub(crate) fn bits(self) -> u64 {
        // A progress of 0 ms is noted as 1 ms: zero means that no worker was seen.
        let progress = self.progress.map_or(0, |time| milliseconds(time).clamp(1, u32::MAX));
        let own_deadline = match self.own_deadline {
            None => 0,
            Some(None) => LIFTED,
            Some(Some(time)) => milliseconds(time).clamp(1, LIFTED - 1),
        };
        u64::from(own_deadline) << 32 | u64::from(progress)
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        let time = |number: u32| Duration::from_millis(u64::from(number));
        let (own_deadline, progress) = ((bits >> 32) as u32, bits as u32);
        let own_deadline = match own_deadline {
            0 => None,
            LIFTED => Some(None),
            number => Some(Some(time(number))),
        };
        Self { progress: (progress != 0).then(|| time(progress)), own_deadline }
    }
}

/// Milliseconds, at most as many as fit: 49 days.
fn milliseconds(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_read() {
        let second = Duration::from_secs(1);
        for progress in [None, Some(second), Some(second * 86_400 * 40)] {
            for own_deadline in [None, Some(None), Some(Some(second * 3))] {
                let progress_note = ProgressNote { progress, own_deadline };
                assert_eq!(ProgressNote::from_bits(progress_note.bits()), progress_note);
            }
        }
        assert_eq!(ProgressNote::from_bits(NOTHING), ProgressNote::default());
    }

    #[test]
    fn times_that_do_not_fit_are_still_times() {
        let (least, most) = (Duration::from_millis(1), Duration::from_millis(u64::from(u32::MAX)));
        let noted =
            |time| ProgressNote::from_bits(ProgressNote { progress: Some(time), own_deadline: Some(Some(time)) }.bits());
        assert_eq!(noted(Duration::ZERO), ProgressNote { progress: Some(least), own_deadline: Some(Some(least)) });
        assert_eq!(noted(Duration::MAX), ProgressNote { progress: Some(most), own_deadline: Some(Some(most - least)) });
        let _ = ProgressNote::from_bits(u64::MAX);
    }
}
