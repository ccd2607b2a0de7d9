//! The distribution of the times of requests, in buckets.

use oribi_control_api::{Bucket, Histogram};

/// Buckets that are not empty, the shortest times first. Each has its longest time in seconds, and the number of its requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distribution(Vec<(f64, f64)>);

impl Distribution {
    /// Returns the distribution of a histogram in the response to `status`.
    pub fn of(histogram: &Histogram) -> Self {
        let bucket = |bucket: &Bucket| (bucket.bound.unwrap_or(f64::INFINITY), bucket.count as f64);
        let mut buckets: Vec<(f64, f64)> = histogram.buckets.iter().map(bucket).collect();
        buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
        Self(buckets)
    }

    /// The requests added since `before`.
    pub fn since(&self, before: &Self) -> Self {
        let then = |bound: f64| before.0.iter().find(|(known, _)| *known == bound).map_or(0.0, |(_, count)| *count);
        Self(self.0.iter().map(|(bound, count)| (*bound, (count - then(*bound)).max(0.0))).collect())
    }

    /// Returns the time, in seconds, within which this part of the requests (from 0 to 1) was answered. The time is rounded up
    /// to the longest time of a bucket. `None` without requests.
    pub fn quantile(&self, part: f64) -> Option<f64> {
        let rank = self.0.iter().map(|(_, count)| count).sum::<f64>() * part;
        let mut seen = 0.0;
        let reached = |(_, count): &&(f64, f64)| {
            seen += count;
            *count > 0.0 && seen >= rank
        };
        self.0.iter().find(reached).map(|(bound, _)| *bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distribution(buckets: &[(Option<f64>, u64)]) -> Distribution {
        let buckets = buckets.iter().map(|&(bound, count)| Bucket { bound, count }).collect();
        Distribution::of(&Histogram { buckets, ..Histogram::default() })
    }

    #[test]
    fn quantiles_are_those_of_what_has_come_since() {
        let before = distribution(&[(Some(0.001), 1000), (Some(2.0), 5)]);
        let now = distribution(&[(None, 1), (Some(0.001), 1098), (Some(0.5), 1), (Some(2.0), 5)]);
        let new = now.since(&before);
        let told = [0.0, 0.5, 0.98, 0.985, 0.99, 1.0].map(|part| new.quantile(part));
        assert_eq!(told, [0.001, 0.001, 0.001, 0.5, 0.5, f64::INFINITY].map(Some));
        assert_eq!(now.since(&now).quantile(0.5), None);
        assert_eq!(Distribution::default().quantile(0.5), None);
    }
}
