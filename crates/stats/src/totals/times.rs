//! Histograms of the times of the parts of requests, in memory that the parent process reads.
//!
//! The buckets are fixed, and fine enough for percentiles, so that numbers of different processes, generations and program
//! versions can be added. The bounds that are exported to Prometheus are a setting ([`Bound`]).

use oribi_config::bounds::{BOUNDS, Bound, NANOSECONDS};
use oribi_io::process::SharedLine;
use std::array;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// A part of the time of a request. The whole time runs from the last byte of the request to the last byte of its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum RequestPhase {
    /// The time from the request's last byte until a worker takes it.
    Queue,
    /// The time during which the app runs.
    App,
    /// The time from the app's end until all of the response has been sent.
    Send,
    /// The time from the request's last byte until all of the response has been sent.
    Total,
}

impl RequestPhase {
    /// All parts, in their order in memory.
    pub const ALL: [Self; 4] = [Self::Queue, Self::App, Self::Send, Self::Total];

    /// Returns the name for users.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::App => "app",
            Self::Send => "send",
            Self::Total => "total",
        }
    }
}

/// The number of buckets: one up to each bound, and one above all bounds.
const BUCKETS: usize = BOUNDS + 1;

/// The number of 64-bit words of a line.
pub(super) const EACH: usize = 4;

/// The number of lines of a histogram: its buckets, and the sum of all times in nanoseconds.
pub(super) const HISTOGRAM_LINES: usize = (BUCKETS + 1).div_ceil(EACH);

/// The number of lines of the histograms of all parts.
pub(super) const TIMES_LINES: usize = HISTOGRAM_LINES * RequestPhase::ALL.len();

/// The number of bits after the leading bit of a time that choose where the search for its bucket starts. Few bounds share
/// these bits.
const STEP_BITS: u32 = 3;
const STEPS: usize = 1 << STEP_BITS;

/// For each bit length of a time, and for each value of the first bits after the leading bit: the index of the first bound to
/// compare.
const FIRST_OF_STEP: [u8; 65 * STEPS] = {
    let mut first = [0; 65 * STEPS];
    let (mut bits, mut index) = (STEP_BITS + 1, 0);
    while bits <= 64 {
        let mut step = 0;
        while step < STEPS {
            // The shortest time in nanoseconds with these bits.
            let least = (STEPS as u64 + step as u64) << (bits - STEP_BITS - 1);
            while index < BOUNDS && NANOSECONDS[index] < least {
                index += 1;
            }
            first[bits as usize * STEPS + step] = index as u8;
            step += 1;
        }
        bits += 1;
    }
    first
};

/// Returns the bucket of a time.
#[inline]
fn bucket(nanoseconds: u64) -> usize {
    // Most requests do not wait, and most responses are sent at once.
    if nanoseconds <= NANOSECONDS[0] {
        return 0;
    }
    let bits = 64 - nanoseconds.leading_zeros();
    let step = (nanoseconds >> (bits - STEP_BITS - 1)) as usize % STEPS;
    let mut index = usize::from(FIRST_OF_STEP[bits as usize * STEPS + step]);
    while index < BOUNDS && NANOSECONDS[index] < nanoseconds {
        index += 1;
    }
    index
}

/// A time and its bucket.
#[derive(Clone, Copy, Debug)]
struct Sample {
    bucket: usize,
    nanoseconds: u64,
}

impl Sample {
    #[inline]
    fn of(nanoseconds: u64) -> Self {
        Self { bucket: bucket(nanoseconds), nanoseconds }
    }
}

/// Adds to a word that other threads may change at the same time.
pub(super) fn add_saturating(word: &AtomicU64, amount: u64) {
    let _ = word.fetch_update(Relaxed, Relaxed, |present| Some(present.saturating_add(amount)));
}

/// A histogram of one process, or of several processes one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct HistogramAccount(&'static [SharedLine; HISTOGRAM_LINES]);

impl HistogramAccount {
    /// Returns the histogram in `lines`.
    pub(super) const fn in_lines(lines: &'static [SharedLine; HISTOGRAM_LINES]) -> Self {
        Self(lines)
    }

    #[inline]
    fn word(self, index: usize) -> &'static AtomicU64 {
        &self.0[index / EACH].words[index % EACH]
    }

    /// Counts a time. `alone`: whether no other thread counts there, so that plain loads and stores suffice.
    #[inline]
    pub(super) fn count(self, nanoseconds: u64, alone: bool) {
        self.count_sample(Sample::of(nanoseconds), alone);
    }

    #[inline]
    fn count_sample(self, Sample { bucket, nanoseconds }: Sample, alone: bool) {
        for (index, amount) in [(bucket, 1), (BUCKETS, nanoseconds)] {
            let word = self.word(index);
            if alone {
                word.store(word.load(Relaxed).wrapping_add(amount), Relaxed);
            } else {
                word.fetch_add(amount, Relaxed);
            }
        }
    }

    /// Adds the numbers in `histogram`, a copy of another account.
    pub(super) fn add(self, histogram: &Histogram) {
        for (index, amount) in histogram.numbers().enumerate().filter(|(_, amount)| *amount > 0) {
            add_saturating(self.word(index), amount);
        }
    }

    pub(super) fn read(self) -> Histogram {
        Histogram::of(|index| self.word(index).load(Relaxed))
    }
}

/// The histograms of all parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimesAccount(&'static [SharedLine; TIMES_LINES]);

impl TimesAccount {
    /// Returns the histograms in `lines`.
    pub(super) const fn in_lines(lines: &'static [SharedLine; TIMES_LINES]) -> Self {
        Self(lines)
    }

    #[inline]
    fn of(self, part: RequestPhase) -> HistogramAccount {
        HistogramAccount(&self.0.as_chunks().0[part as usize])
    }

    /// Counts the time of each part of a request, in nanoseconds. `alone`: see [`HistogramAccount::count`].
    #[inline(always)]
    pub(super) fn count(self, [queue, app, send, total]: [u64; RequestPhase::ALL.len()], alone: bool) {
        let app_sample = Sample::of(app);
        // The total equals the app's time if the request waited for no worker and its response for no client.
        let total_sample = if total == app { app_sample } else { Sample::of(total) };
        self.of(RequestPhase::Queue).count(queue, alone);
        self.of(RequestPhase::App).count_sample(app_sample, alone);
        self.of(RequestPhase::Send).count(send, alone);
        self.of(RequestPhase::Total).count_sample(total_sample, alone);
    }

    /// Counts the time of one part.
    pub(super) fn count_one(self, part: RequestPhase, nanoseconds: u64, alone: bool) {
        self.of(part).count(nanoseconds, alone);
    }

    #[cfg(test)]
    pub(super) fn lines(&self) -> impl Iterator<Item = &SharedLine> {
        self.0.iter()
    }

    /// Adds the numbers in `times`, a copy of another account.
    pub(super) fn add(self, times: &Times) {
        RequestPhase::ALL.into_iter().for_each(|part| self.of(part).add(times.of(part)));
    }

    pub(super) fn read(self) -> Times {
        Times(RequestPhase::ALL.map(|part| self.of(part).read()))
    }
}

/// A copy of a histogram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    buckets: [u64; BUCKETS],
    /// The sum of all times in nanoseconds; 64 bits suffice for 584 years.
    sum: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: [0; BUCKETS], sum: 0 }
    }
}

impl Histogram {
    fn of(word: impl Fn(usize) -> u64) -> Self {
        Self { buckets: array::from_fn(&word), sum: word(BUCKETS) }
    }

    /// Decodes a histogram in a copy of its lines, which are the first of `lines`.
    pub(super) fn read_copy(lines: &[[u64; EACH]]) -> Self {
        Self::of(|index| lines.get(index / EACH).map_or(0, |line| line[index % EACH]))
    }

    /// Returns all numbers, in their order in memory.
    fn numbers(&self) -> impl Iterator<Item = u64> {
        self.buckets.iter().copied().chain([self.sum])
    }

    pub(super) fn with(&self, other: &Self, join: impl Fn(u64, u64) -> u64) -> Self {
        let buckets = array::from_fn(|index| join(self.buckets[index], other.buckets[index]));
        Self { buckets, sum: join(self.sum, other.sum) }
    }

    /// Returns the number of times counted.
    #[inline]
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, bucket| sum.saturating_add(*bucket))
    }

    /// Returns the sum of all times.
    #[inline]
    pub const fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum)
    }

    /// Returns the count of each bucket: one up to each bound, and one above all of them.
    pub fn counts(&self) -> impl Iterator<Item = u64> {
        self.buckets.iter().copied()
    }

    /// Returns the number of times that are not longer than `bound`.
    pub fn up_to(&self, bound: Bound) -> u64 {
        self.buckets[..=bound.number()].iter().fold(0, |sum, bucket| sum.saturating_add(*bucket))
    }

    /// Returns the bound and the count of each bucket that is not empty. The bound is `None` for the bucket above all bounds.
    pub fn filled(&self) -> impl Iterator<Item = (Option<Duration>, u64)> {
        let bounds = Bound::all().map(|bound| Some(bound.time())).chain([None]);
        bounds.zip(self.buckets).filter(|(_, count)| *count > 0)
    }
}

/// A copy of the histograms of all parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times([Histogram; RequestPhase::ALL.len()]);

impl Times {
    /// Returns the histogram of one part.
    #[inline]
    pub const fn of(&self, part: RequestPhase) -> &Histogram {
        &self.0[part as usize]
    }

    /// Decodes a copy of the lines of all histograms.
    pub(super) fn read_copy(lines: &[[u64; EACH]]) -> Self {
        Self(array::from_fn(|part| Histogram::read_copy(lines.get(part * HISTOGRAM_LINES..).unwrap_or_default())))
    }

    pub(super) fn with(&self, other: &Self, join: impl Fn(u64, u64) -> u64) -> Self {
        Self(array::from_fn(|part| self.0[part].with(&other.0[part], &join)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account() -> TimesAccount {
        TimesAccount::in_lines(Box::leak(Box::new(array::from_fn(|_| SharedLine::default()))))
    }

    #[test]
    fn each_time_is_in_the_bucket_of_the_first_bound_that_is_no_shorter() {
        assert_eq!(NANOSECONDS[0], 10_000);
        assert_eq!(NANOSECONDS[BOUNDS - 1], 100_000_000_000);
        assert!(NANOSECONDS.windows(2).all(|pair| pair[0] < pair[1] && pair[1] * 4 <= pair[0] * 5), "{NANOSECONDS:?}");
        let slowly = |time: u64| NANOSECONDS.partition_point(|bound| *bound < time);
        let near = NANOSECONDS.iter().flat_map(|bound| [bound - 1, *bound, bound + 1]);
        let powers = (0..64).flat_map(|bits| [(1 << bits) - 1, 1 << bits]);
        for time in near.chain(powers).chain([0, u64::MAX]) {
            assert_eq!(bucket(time), slowly(time), "{time}");
        }
    }

    #[test]
    fn each_part_is_counted_by_itself() {
        for (parts, alone) in
            [([1, 40_000_000, 2, 40_000_000], true), ([7_000_000, 40_000_000, 90_000_000, 137_000_000], false)]
        {
            let account = account();
            account.count(parts, alone);
            let read = account.read();
            for (part, nanoseconds) in RequestPhase::ALL.into_iter().zip(parts) {
                let mut expected = Histogram::default();
                expected.buckets[bucket(nanoseconds)] = 1;
                expected.sum = nanoseconds;
                assert_eq!(read.of(part), &expected, "{}", part.name());
            }
        }
    }

    #[test]
    fn what_is_counted_is_read_and_added_and_copied() {
        let times = [
            (RequestPhase::Queue, 3),
            (RequestPhase::App, 90),
            (RequestPhase::App, 91),
            (RequestPhase::App, 700_000),
            (RequestPhase::Total, 91),
        ];
        let account = account();
        for (number, (part, milliseconds)) in times.into_iter().enumerate() {
            account.count_one(part, milliseconds * 1_000_000, number % 2 == 0);
        }
        let read = account.read();
        let app = read.of(RequestPhase::App);
        assert_eq!((app.count(), app.sum()), (3, Duration::from_millis(700_181)));
        let bound = |milliseconds| Bound::at(Duration::from_millis(milliseconds)).expect("there is such a bound");
        assert_eq!([80, 90, 100].map(|milliseconds| app.up_to(bound(milliseconds))), [0, 1, 2]);
        let filled: Vec<_> = app.filled().collect();
        let milliseconds = |number| Some(Duration::from_millis(number));
        assert_eq!(filled, [(milliseconds(90), 1), (milliseconds(100), 1), (None, 1)]);
        assert_eq!([RequestPhase::Queue, RequestPhase::Send, RequestPhase::Total].map(|part| read.of(part).count()), [1, 0, 1]);
        let lines: Vec<[u64; EACH]> =
            account.lines().map(|line| line.words.each_ref().map(|word| word.load(Relaxed))).collect();
        assert_eq!(Times::read_copy(&lines), read);
        account.add(&read);
        assert_eq!(account.read(), read.with(&read, u64::saturating_add));
        assert_eq!(account.read().of(RequestPhase::App).count(), 6);
    }
}
