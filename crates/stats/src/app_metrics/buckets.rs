//! The buckets of the histograms of apps. The bounds depend only on the name of the metric, so that numbers of different
//! processes, generations and program versions can be added up.

/// The number of bounds of a histogram. There is a bucket up to each bound, and one bucket above all bounds.
pub(crate) const BOUNDS: usize = 14;

/// Bounds for times in seconds, the same as those of the server's own histograms.
const SECONDS: [f64; BOUNDS] = [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 50.0];

/// Bounds for all other values, such as bytes and numbers of rows: powers of four.
const OTHERS: [f64; BOUNDS] = {
    let mut bounds = [1.0; BOUNDS];
    let mut index = 1;
    while index < BOUNDS {
        bounds[index] = bounds[index - 1] * 4.0;
        index += 1;
    }
    bounds
};

/// Returns the bounds of the histogram with this name.
pub fn bounds(name: &str) -> &'static [f64; BOUNDS] {
    if name.ends_with("_seconds") { &SECONDS } else { &OTHERS }
}

/// Returns the index of a value's bucket.
pub(super) fn bucket(name: &str, value: f64) -> usize {
    bounds(name).partition_point(|bound| *bound < value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_in_the_bucket_of_the_first_bound_that_is_no_smaller() {
        assert_eq!([0.0, 0.001, 0.0011, 50.0, 51.0].map(|value| bucket("a_seconds", value)), [0, 0, 1, 13, 14]);
        assert_eq!([0.0, 1.0, 1.5, 67_108_864.0, 1e300].map(|value| bucket("a_bytes", value)), [0, 0, 1, 13, 14]);
    }
}
