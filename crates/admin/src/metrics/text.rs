//! Writes metrics in the text formats Prometheus 0.0.4 and OpenMetrics 1.0, which are nearly the same, or, by
//! [`super::protobuf`], in the binary format.
//!
//! The kinds of metrics add a suffix to the names of samples. In OpenMetrics the name of a family has no such suffix: HELP
//! and TYPE of a counter name `oribi_upgrades`, and its sample is `oribi_upgrades_total`. In the older format all three lines
//! have the suffix. OpenMetrics also escapes quotes in HELP, and has an end marker.

pub(super) use super::kind::Kind;

use super::native::Native;
use super::protobuf::Messages;
use oribi_config::Bound;
use oribi_stats::totals::Histogram;
use std::fmt::{Display, Write as _};
use std::time::Duration;

/// A format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Format {
    /// Prometheus's text format, version 0.0.4.
    Plain,
    /// OpenMetrics 1.0.
    Open,
    /// Prometheus's binary format (Protocol Buffers).
    Binary,
}

impl Format {
    /// All formats.
    pub(super) const ALL: [Self; 3] = [Self::Plain, Self::Open, Self::Binary];

    /// Returns the value of Content-Type.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Plain => "text/plain; version=0.0.4; charset=utf-8",
            Self::Open => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Binary => "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited",
        }
    }
}

/// The output for one scrape, being written.
#[derive(Debug)]
pub(super) struct Text {
    format: Format,
    text: String,
    /// The name of the samples of the current family.
    name: String,
    /// The output in the binary format, which is used instead of `text`.
    messages: Messages,
}

impl Text {
    pub(super) fn new(format: Format) -> Self {
        Self { format, text: String::new(), name: String::new(), messages: Messages::default() }
    }

    /// Begins a family. `name` is without the suffix of its kind.
    pub(super) fn family(&mut self, kind: Kind, name: &str, help: &str) {
        self.name = format!("{name}{}", kind.ending());
        if self.format == Format::Binary {
            return self.messages.family(kind, &self.name, help);
        }
        let (named, kind) = match (self.format, kind) {
            (Format::Plain | Format::Binary, Kind::Counter) => (self.name.as_str(), "counter"),
            // The older format has no type for info.
            (Format::Plain | Format::Binary, Kind::Info) => (self.name.as_str(), "gauge"),
            (Format::Open, Kind::Counter) => (name, "counter"),
            (Format::Open, Kind::Info) => (name, "info"),
            (_, Kind::Gauge) => (name, "gauge"),
            (_, Kind::Histogram) => (name, "histogram"),
        };
        let help = escaped(help, self.format == Format::Open);
        // Writing to a String cannot fail.
        let _ = write!(self.text, "# HELP {named} {help}\n# TYPE {named} {kind}\n");
    }

    /// Adds a sample to the family. `value` is formatted as a number.
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        if self.format == Format::Binary {
            return self.messages.sample(labels, double(value));
        }
        self.sample_of("", labels, value);
    }

    /// Adds a sample whose name has a suffix.
    fn sample_of(&mut self, ending: &str, labels: &[(&str, &str)], value: impl Display) {
        self.text.push_str(&self.name);
        self.text.push_str(ending);
        for (index, (name, value)) in labels.iter().enumerate() {
            let before = if index == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{before}{name}=\"{}\"", escaped(value, true));
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{end} {value}");
    }

    /// Adds the samples of a histogram to the family: the number of values up to each bound, their sum and count.
    pub(super) fn histogram(
        &mut self,
        labels: &[(&str, &str)],
        buckets: impl Iterator<Item = (f64, u64)>,
        sum: impl Display,
        count: u64,
    ) {
        if self.format == Format::Binary {
            return self.messages.histogram(labels, buckets, double(sum), count, None);
        }
        for (bound, number) in buckets {
            // OpenMetrics requires a decimal point in these numbers.
            self.bucket(labels, &format!("{bound:?}"), number);
        }
        self.bucket(labels, "+Inf", count);
        self.sample_of("_sum", labels, sum);
        self.sample_of("_count", labels, count);
    }

    fn bucket(&mut self, labels: &[(&str, &str)], bound: &str, number: u64) {
        let labels: Vec<(&str, &str)> = labels.iter().copied().chain([("le", bound)]).collect();
        self.sample_of("_bucket", &labels, number);
    }

    /// Adds a histogram of times to the family, in seconds: with classic buckets up to `bounds` and, in the binary format,
    /// with native buckets.
    pub(super) fn times(&mut self, labels: &[(&str, &str)], times: &Histogram, bounds: &[Bound]) {
        let buckets = bounds.iter().map(|bound| (bound.time().as_secs_f64(), times.up_to(*bound)));
        let (sum, count) = (times.sum(), times.count());
        if self.format == Format::Binary {
            return self.messages.histogram(labels, buckets, sum.as_secs_f64(), count, Some(&Native::of(times)));
        }
        self.histogram(labels, buckets, seconds(sum), count);
    }

    pub(super) fn end(mut self) -> Vec<u8> {
        match self.format {
            Format::Binary => return self.messages.end(),
            Format::Open => self.text.push_str("# EOF\n"),
            Format::Plain => {}
        }
        self.text.into_bytes()
    }
}

/// Formats a time in seconds.
pub(super) fn seconds(time: Duration) -> String {
    format!("{}.{:06}", time.as_secs(), time.subsec_micros())
}

/// Converts a formatted number to the number type of the binary format. Integers are exact up to 2^53, as in Prometheus.
fn double(value: impl Display) -> f64 {
    value.to_string().parse().unwrap_or(f64::NAN)
}

/// Escapes backslashes and line feeds as both text formats require, and also quotes if `quotes` is true.
fn escaped(text: &str, quotes: bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\\' => escaped.push_str("\\\\"),
            '\n' => escaped.push_str("\\n"),
            '"' if quotes => escaped.push_str("\\\""),
            _ => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(format: Format) -> String {
        let mut text = Text::new(format);
        text.family(Kind::Info, "a_build", "It\\is \"this\"\nand that.");
        text.sample(&[("version", "1\"2\\3\n4"), ("empty", "")], 1);
        text.family(Kind::Counter, "a_things", "Things.");
        text.sample(&[], u64::MAX);
        text.family(Kind::Gauge, "a_height_metres", "Height.");
        text.sample(&[("of", "it")], "1.500000");
        text.family(Kind::Histogram, "a_time_seconds", "Time.");
        text.histogram(&[("of", "it")], [(0.0025, 1), (1.0, 3)].into_iter(), "6.25", 4);
        String::from_utf8(text.end()).expect("it is text")
    }

    #[test]
    fn the_older_format_names_everything_as_its_samples_are_named() {
        let expected = "# HELP a_build_info It\\\\is \"this\"\\nand that.\n# TYPE a_build_info gauge\n\
                        a_build_info{version=\"1\\\"2\\\\3\\n4\",empty=\"\"} 1\n\
                        # HELP a_things_total Things.\n# TYPE a_things_total counter\na_things_total 18446744073709551615\n\
                        # HELP a_height_metres Height.\n# TYPE a_height_metres gauge\na_height_metres{of=\"it\"} 1.500000\n\
                        # HELP a_time_seconds Time.\n# TYPE a_time_seconds histogram\n\
                        a_time_seconds_bucket{of=\"it\",le=\"0.0025\"} 1\na_time_seconds_bucket{of=\"it\",le=\"1.0\"} 3\n\
                        a_time_seconds_bucket{of=\"it\",le=\"+Inf\"} 4\na_time_seconds_sum{of=\"it\"} 6.25\na_time_seconds_count{of=\"it\"} 4\n";
        assert_eq!(written(Format::Plain), expected);
    }

    #[test]
    fn openmetrics_names_families_without_endings_and_says_where_it_ends() {
        let expected = "# HELP a_build It\\\\is \\\"this\\\"\\nand that.\n# TYPE a_build info\n\
                        a_build_info{version=\"1\\\"2\\\\3\\n4\",empty=\"\"} 1\n\
                        # HELP a_things Things.\n# TYPE a_things counter\na_things_total 18446744073709551615\n\
                        # HELP a_height_metres Height.\n# TYPE a_height_metres gauge\na_height_metres{of=\"it\"} 1.500000\n\
                        # HELP a_time_seconds Time.\n# TYPE a_time_seconds histogram\n\
                        a_time_seconds_bucket{of=\"it\",le=\"0.0025\"} 1\na_time_seconds_bucket{of=\"it\",le=\"1.0\"} 3\n\
                        a_time_seconds_bucket{of=\"it\",le=\"+Inf\"} 4\na_time_seconds_sum{of=\"it\"} 6.25\na_time_seconds_count{of=\"it\"} 4\n# EOF\n";
        assert_eq!(written(Format::Open), expected);
    }
}
