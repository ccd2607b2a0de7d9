//! The distribution of the times of requests.

use crate::Seconds;
use crate::lenient::{elements, or_default};
use serde::ser::SerializeTuple;
use serde::{Deserialize, Serialize, Serializer};

/// The histograms of the times of requests, by the part of the time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Times {
    /// From the request's last byte until a worker takes it.
    #[serde(deserialize_with = "or_default")]
    pub queue: Histogram,
    /// While its app runs.
    #[serde(deserialize_with = "or_default")]
    pub app: Histogram,
    /// From the app's end until all of the response has been sent.
    #[serde(deserialize_with = "or_default")]
    pub send: Histogram,
    /// From the request's last byte until all of the response has been sent.
    #[serde(deserialize_with = "or_default")]
    pub total: Histogram,
}

/// The distribution of times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Histogram {
    /// The number of times.
    #[serde(deserialize_with = "or_default")]
    pub count: u64,
    /// The sum of the times.
    #[serde(deserialize_with = "or_default")]
    pub seconds: Seconds,
    /// The buckets that are not empty, the shortest first.
    #[serde(deserialize_with = "elements")]
    pub buckets: Vec<Bucket>,
}

/// The times up to `bound` that are longer than the bound of the previous bucket. In JSON a bucket is an array of its bound and
/// its count.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(from = "(Option<f64>, u64)")]
pub struct Bucket {
    /// The longest time of the bucket, in seconds; `None` for the bucket above all bounds.
    pub bound: Option<f64>,
    /// The number of times.
    pub count: u64,
}

impl From<(Option<f64>, u64)> for Bucket {
    fn from((bound, count): (Option<f64>, u64)) -> Self {
        Self { bound, count }
    }
}

impl Serialize for Bucket {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut pair = serializer.serialize_tuple(2)?;
        pair.serialize_element(&self.bound)?;
        pair.serialize_element(&self.count)?;
        pair.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::to_json;

    #[test]
    fn bounds_have_all_their_digits_and_no_exponent() {
        let bucket = |bound| Bucket { bound, count: 7 };
        let buckets = [Some(0.00001), Some(0.0025), Some(1.0), Some(100.0), None].map(bucket);
        let json = "[[0.00001,7],[0.0025,7],[1.000,7],[100.000,7],[null,7]]";
        assert_eq!(to_json(&buckets), json);
        assert_eq!(serde_json::from_str::<[Bucket; 5]>(json).expect("they are buckets"), buckets);
    }

    #[test]
    fn what_is_no_bucket_is_left_out() {
        let json = r#"{ "buckets": [[1], ["a", 2], 3, [1, null], [1, 2, 3], [0.5, 4]], "count": "x", "seconds": [] }"#;
        let buckets = vec![Bucket { bound: Some(0.5), count: 4 }];
        assert_eq!(serde_json::from_str::<Histogram>(json).expect("it is one"), Histogram { buckets, ..Histogram::default() });
    }
}
