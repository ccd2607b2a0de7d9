//! The distribution of the times of requests, in buckets.

use serde_json::Value;

/// Buckets that are not empty, each with its longest time, in seconds, and the number of its requests; the shortest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distribution(Vec<(f64, f64)>);

impl Distribution {
    /// Reads the `times` of a part of the response to `status`. A value of another form counts as empty.
    pub fn read(part: &Value) -> Self {
        let buckets = part.get("buckets").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let bucket = |bucket: &Value| match bucket.as_array()?.as_slice() {
            [bound, count] => Some((if bound.is_null() { f64::INFINITY } else { bound.as_f64()? }, count.as_f64()?)),
            _ => None,
        };
        let mut buckets: Vec<(f64, f64)> = buckets.iter().filter_map(bucket).collect();
        buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
        Self(buckets)
    }

    /// The requests added since `before`.
    pub fn since(&self, before: &Self) -> Self {
        let then = |bound: f64| before.0.iter().find(|(known, _)| *known == bound).map_or(0.0, |(_, count)| *count);
        Self(self.0.iter().map(|(bound, count)| (*bound, (count - then(*bound)).max(0.0))).collect())
    }

    /// The time within which this part of the requests was answered, rounded up to that of a bucket; `None` without
    /// requests.
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
    use serde_json::json;

    #[test]
    fn quantiles_are_those_of_what_has_come_since() {
        let before = Distribution::read(&json!({ "buckets": [[0.001, 1000], [2.0, 5]] }));
        let now = Distribution::read(&json!({ "buckets": [[0.001, 1098], [0.5, 1], [2.0, 5], [null, 1]] }));
        let new = now.since(&before);
        let told = [0.0, 0.5, 0.98, 0.985, 0.99, 1.0].map(|part| new.quantile(part));
        assert_eq!(told, [0.001, 0.001, 0.001, 0.5, 0.5, f64::INFINITY].map(Some));
        assert_eq!(now.since(&now).quantile(0.5), None);
        assert_eq!(Distribution::default().quantile(0.5), None);
    }

    #[test]
    fn what_is_of_another_form_counts_as_nothing() {
        for odd in
            [json!(null), json!([1]), json!({ "buckets": 7 }), json!({ "buckets": [[1], ["a", 2], 3, [1, null], [1, 2, 3]] })]
        {
            assert_eq!(Distribution::read(&odd), Distribution::default(), "{odd}");
        }
    }
}
