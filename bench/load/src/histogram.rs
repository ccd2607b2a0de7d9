//! Latencies, counted in buckets that are at most 1 % wide: a few lines, and the only thing asked of it are quantiles.

/// The number of buckets for each power of two.
const STEPS: u64 = 1 << STEP_BITS;
const STEP_BITS: u32 = 7;

/// The number of times that each latency was seen.
#[derive(Debug, Default)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    largest: u64,
}

impl Histogram {
    /// Counts one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        let bucket = bucket(value);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.total += 1;
        self.largest = self.largest.max(value);
    }

    /// Returns the value that the given share (from 0 to 1) of all values does not exceed; it is at most 1 % too large. 0 if
    /// there are no values.
    pub fn quantile(&self, share: f64) -> u64 {
        let wanted = ((self.total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return last_of(bucket).min(self.largest);
            }
        }
        self.largest
    }

    /// The largest value, exactly.
    pub fn largest(&self) -> u64 {
        self.largest
    }
}

/// Returns the bucket of a value. Each small value has its own bucket; larger values with the same leading bits share one.
fn bucket(value: u64) -> usize {
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(STEP_BITS + 1);
    (u64::from(shift) * STEPS + (value >> shift)) as usize
}

/// The largest value of a bucket.
fn last_of(bucket: usize) -> u64 {
    let shift = (bucket as u64 / STEPS).saturating_sub(1);
    ((bucket as u64 - shift * STEPS + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::{Histogram, bucket, last_of};

    #[test]
    fn buckets_follow_one_another_and_are_narrow() {
        let mut next = 0;
        for number in 0..5000 {
            let last = last_of(number);
            assert_eq!((bucket(next), bucket(last)), (number, number));
            assert!(last - next <= next / 100, "{next} to {last}");
            next = last + 1;
        }
    }

    #[test]
    fn quantiles_are_those_of_the_values() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), 0);
        (1..=1000).for_each(|value| histogram.record(value * 1000));
        for (share, exact) in [(0.5, 500_000), (0.99, 990_000), (0.999, 999_000), (1.0, 1_000_000)] {
            let found = histogram.quantile(share);
            assert!(found >= exact && found <= exact + exact / 100, "{share}: {found}");
        }
        assert_eq!(histogram.largest(), 1_000_000);
    }
}
