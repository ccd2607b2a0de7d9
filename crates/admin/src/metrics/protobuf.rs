//! Writes the binary format of metrics: messages `io.prometheus.client.MetricFamily` of Protocol Buffers, each preceded by
//! its length.
//!
//! Prometheus accepts native histograms in no other format. [`oribi_protobuf`] encodes the fields; the field numbers are
//! those of `metrics.proto` of the project client_model. Families have the full names of their samples, unlike in
//! OpenMetrics.

use super::kind::Kind;
use super::native::{Native, SCHEMA, ZERO_THRESHOLD};
use oribi_protobuf::{bytes, double, number, signed, varint};

/// The families written so far, and the one being written.
#[derive(Debug, Default)]
pub(super) struct Messages {
    written: Vec<u8>,
    family: Vec<u8>,
    /// The number of the field of `Metric` that holds a value of the current family's kind.
    value: u32,
}

impl Messages {
    /// Begins a family whose samples have this name.
    pub(super) fn family(&mut self, kind: Kind, name: &str, help: &str) {
        self.finish_family();
        // The numbers of `MetricType`, and of the fields of `Metric` for them.
        let (kind, value) = match kind {
            Kind::Counter => (0, 3),
            // There is no type for info, so it is a gauge.
            Kind::Gauge | Kind::Info => (1, 2),
            Kind::Histogram => (4, 7),
        };
        self.value = value;
        bytes(&mut self.family, 1, name.as_bytes());
        bytes(&mut self.family, 2, help.as_bytes());
        number(&mut self.family, 3, kind);
    }

    /// Adds a sample to the family.
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: f64) {
        let mut message = Vec::new();
        double(&mut message, 1, value);
        self.metric(labels, &message);
    }

    /// Adds a histogram to the family: the number of values up to each bound, their sum and count, and the native histogram,
    /// if there is one.
    pub(super) fn histogram(
        &mut self,
        labels: &[(&str, &str)],
        buckets: impl Iterator<Item = (f64, u64)>,
        sum: f64,
        count: u64,
        native: Option<&Native>,
    ) {
        let mut message = Vec::new();
        number(&mut message, 1, count);
        double(&mut message, 2, sum);
        for (bound, count) in buckets {
            let mut bucket = Vec::new();
            number(&mut bucket, 1, count);
            double(&mut bucket, 2, bound);
            bytes(&mut message, 3, &bucket);
        }
        if let Some(native) = native {
            number(&mut message, 5, signed(SCHEMA.into()));
            // Without this field, Prometheus treats an empty native histogram as a classic one.
            double(&mut message, 6, ZERO_THRESHOLD);
            number(&mut message, 7, native.zero);
            let mut deltas = Vec::new();
            for (offset, counts) in native.spans() {
                let mut span = Vec::new();
                number(&mut span, 1, signed(offset.into()));
                number(&mut span, 2, counts.len() as u64);
                bytes(&mut message, 12, &span);
                counts.iter().for_each(|delta| varint(&mut deltas, signed(*delta)));
            }
            bytes(&mut message, 13, &deltas);
        }
        self.metric(labels, &message);
    }

    fn metric(&mut self, labels: &[(&str, &str)], value: &[u8]) {
        let mut metric = Vec::new();
        for (name, value) in labels {
            let mut label = Vec::new();
            bytes(&mut label, 1, name.as_bytes());
            bytes(&mut label, 2, value.as_bytes());
            bytes(&mut metric, 1, &label);
        }
        bytes(&mut metric, self.value, value);
        bytes(&mut self.family, 4, &metric);
    }

    fn finish_family(&mut self) {
        if !self.family.is_empty() {
            varint(&mut self.written, self.family.len() as u64);
            self.written.append(&mut self.family);
        }
    }

    pub(super) fn end(mut self) -> Vec<u8> {
        self.finish_family();
        self.written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_stand_behind_their_lengths() {
        let mut messages = Messages::default();
        messages.family(Kind::Counter, "a_total", "A.");
        messages.sample(&[("b", "c")], 1.0);
        messages.sample(&[], 2.0);
        messages.family(Kind::Info, "d_info", "");
        let one = 1.0_f64.to_le_bytes();
        let two = 2.0_f64.to_le_bytes();
        let expected = [
            &[49][..],
            &[0x0a, 7],
            b"a_total",
            &[0x12, 2],
            b"A.",
            &[0x18, 0],
            &[0x22, 19, 0x0a, 6, 0x0a, 1, b'b', 0x12, 1, b'c', 0x1a, 9, 0x09],
            &one,
            &[0x22, 11, 0x1a, 9, 0x09],
            &two,
            &[12, 0x0a, 6],
            b"d_info",
            &[0x12, 0, 0x18, 1],
        ];
        assert_eq!(messages.end(), expected.concat());
    }

    #[test]
    fn a_histogram_has_both_kinds_of_buckets() {
        let mut messages = Messages::default();
        messages.family(Kind::Histogram, "a", "");
        let native = Native { zero: 5, buckets: vec![(-3, 7), (-2, 4), (1, 300)] };
        messages.histogram(&[], [(0.5, 9)].into_iter(), 2.5, 316, Some(&native));
        let histogram = [
            &[0x08, 0xbc, 0x02, 0x11][..],
            &2.5_f64.to_le_bytes(),
            &[0x1a, 11, 0x08, 9, 0x11],
            &0.5_f64.to_le_bytes(),
            &[0x28, 6, 0x31],
            &ZERO_THRESHOLD.to_le_bytes(),
            &[0x38, 5],
            &[0x62, 4, 0x08, 5, 0x10, 2],
            &[0x62, 4, 0x08, 4, 0x10, 1],
            // 7, then 3 less, then 296 more.
            &[0x6a, 4, 14, 5, 0xd0, 0x04],
        ]
        .concat();
        let metric = [&[0x3a, histogram.len() as u8][..], &histogram].concat();
        let family = [&[0x0a, 1, b'a', 0x12, 0, 0x18, 4, 0x22, metric.len() as u8][..], &metric].concat();
        assert_eq!(messages.end(), [&[family.len() as u8][..], &family].concat());
    }
}
