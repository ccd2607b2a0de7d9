//! Converts histograms of times to native histograms of Prometheus, whose bounds are powers of 2^(1/8) and need no setting.
//!
//! The server counts in buckets with other bounds ([`Bound`]), which are farther apart. The count of each such bucket goes as
//! a whole to the native bucket that covers most of it. So no two counted buckets share a native bucket. If counts were
//! split, numbers could decrease. Apart from its edges, the native bucket lies within the counted bucket. So the error of a
//! quantile is at most the width of a counted bucket, which is a quarter at most: not more than with classic buckets at all
//! bounds. To count in native buckets as well would take twice the memory, and two more writes for each part of each request.

use oribi_config::Bound;
use oribi_stats::totals::Histogram;

/// Bounds are powers of 2^(2^-3). The bounds of the next coarser schema would be farther apart than some counted bounds.
pub(super) const SCHEMA: i32 = 3;
const EACH_DOUBLING: f64 = 8.0;

/// The end of the bucket around zero, in seconds: the first counted bound, 10 microseconds.
pub(super) const ZERO_THRESHOLD: f64 = 1e-5;

/// A histogram in Prometheus's native form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Native {
    /// The count of the bucket around zero.
    pub(super) zero: u64,
    /// The nonempty buckets: their indexes and counts. Bucket N ends at 2^(N/8) seconds.
    pub(super) buckets: Vec<(i32, u64)>,
}

impl Native {
    /// Converts a histogram of the server.
    pub(super) fn of(histogram: &Histogram) -> Self {
        let (mut zero, mut buckets) = (0, Vec::new());
        let mut lower = None;
        let counts = histogram.counts();
        let uppers = Bound::all().map(Some).chain([None]);
        for (upper, count) in uppers.zip(counts) {
            let place = lower.map(|lower| place(lower, upper));
            lower = upper;
            match place {
                _ if count == 0 => {}
                None => zero = count,
                Some(place) => buckets.push((place, count)),
            }
        }
        Self { zero, buckets }
    }

    /// Returns the runs of adjacent nonempty buckets. The number of a run is the index of its first bucket, counted from the
    /// end of the previous run, or from 0 for the first run. The list of a run has, for each bucket, the difference of its
    /// count from that of the nonempty bucket before it.
    pub(super) fn spans(&self) -> Vec<(i32, Vec<i64>)> {
        let mut spans: Vec<(i32, Vec<i64>)> = Vec::new();
        let (mut next, mut before) = (0, 0);
        for (number, count) in &self.buckets {
            let delta = (*count).cast_signed().wrapping_sub(before);
            match spans.last_mut().filter(|_| *number == next) {
                Some((_, deltas)) => deltas.push(delta),
                None => spans.push((number - next, vec![delta])),
            }
            (next, before) = (number + 1, (*count).cast_signed());
        }
        spans
    }
}

/// Returns the index of the native bucket that covers most of the range above `lower` and up to `upper`. `upper` is `None` if
/// the range has no end.
fn place(lower: Bound, upper: Option<Bound>) -> i32 {
    let position = |bound: Bound| bound.time().as_secs_f64().log2() * EACH_DOUBLING;
    let start = position(lower);
    let first = start.floor() as i32 + 1;
    let Some(end) = upper.map(position) else { return first };
    let covered = |number: i32| end.min(number.into()) - start.max(f64::from(number - 1));
    (first..=end.ceil() as i32).rev().max_by(|one, other| covered(*one).total_cmp(&covered(*other))).unwrap_or(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use oribi_stats::totals::{Account, RequestPhase, Tally};
    use std::time::Duration;

    fn native(times: &[Duration]) -> Native {
        let account = Account::unshared();
        let tally = Tally::of_only_lane(account);
        times.iter().for_each(|time| tally.timed_one(RequestPhase::App, time.as_nanos() as u64));
        Native::of(account.read().times.of(RequestPhase::App))
    }

    fn end(number: i32) -> f64 {
        (f64::from(number) / EACH_DOUBLING).exp2()
    }

    #[test]
    fn each_time_is_told_as_one_that_differs_by_a_quarter_at_most() {
        let bounds: Vec<Bound> = Bound::all().collect();
        assert_eq!(ZERO_THRESHOLD, bounds[0].time().as_secs_f64());
        let (mut last, mut farthest) = (i32::MIN, 0.0_f64);
        for pair in bounds.windows(2) {
            let number = place(pair[0], Some(pair[1]));
            assert!(number > last, "{pair:?} shares a bucket with another");
            last = number;
            let [lower, upper] = [pair[0], pair[1]].map(|bound| bound.time().as_secs_f64());
            farthest = farthest.max(end(number) / lower).max(upper / end(number - 1));
            // A time is counted in the native bucket for its counted range.
            assert_eq!(native(&[pair[1].time()]).buckets, [(number, 1)]);
        }
        assert!((1.2..=1.2500001).contains(&farthest), "{farthest}");
        let number = place(bounds[bounds.len() - 1], None);
        assert!(number > last && end(number - 1) <= 100.0 && end(number) > 100.0);
    }

    #[test]
    fn everything_is_in_one_bucket() {
        let times = [0, 10, 11, 1_000_000, 1_000_000, 200_000_000].map(Duration::from_micros);
        let native = native(&times);
        assert_eq!(native.zero, 2);
        assert_eq!(native.buckets.iter().map(|(_, count)| count).sum::<u64>(), 4);
        assert_eq!(native.buckets[1], (0, 2), "a second is the end of bucket 0");
    }

    #[test]
    fn rows_say_how_far_they_are_apart_and_by_how_much_numbers_differ() {
        let native = Native { zero: 1, buckets: vec![(-3, 7), (-2, 4), (1, 300), (2, 300)] };
        assert_eq!(native.spans(), [(-3, vec![7, -3]), (2, vec![296, 0])]);
        assert!(Native { zero: 1, buckets: Vec::new() }.spans().is_empty());
    }
}
