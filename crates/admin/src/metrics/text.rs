//! The text formats of metrics: Prometheus 0.0.4, and OpenMetrics 1.0, which differ in little. Whoever tells of metrics does so here,
//! whatever the format is; those in the binary one are passed on to [`super::protobuf`].
//!
//! In OpenMetrics a family has a name without the ending that its kind gives to samples, so there HELP and TYPE of a counter name
//! `oribi_upgrades`, and the sample `oribi_upgrades_total`. In the older format all three have the ending. OpenMetrics escapes quotes in
//! HELP, too, and ends with a line that says so.

pub(super) use super::kind::Kind;

use super::native::Native;
use super::protobuf::Messages;
use oribi_config::Bound;
use oribi_stats::totals::Histogram;
use std::fmt::{Display, Write as _};
use std::time::Duration;

/// A format in which metrics are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Format {
    /// Prometheus's own, version 0.0.4.
    Plain,
    /// OpenMetrics 1.0.
    Open,
    /// Prometheus's own, in Protocol Buffers.
    Binary,
}

impl Format {
    /// All of them.
    pub(super) const ALL: [Self; 3] = [Self::Plain, Self::Open, Self::Binary];

    /// The value of Content-Type.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Plain => "text/plain; version=0.0.4; charset=utf-8",
            Self::Open => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Binary => "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited",
        }
    }
}

/// A text with metrics that is being written.
#[derive(Debug)]
pub(super) struct Text {
    format: Format,
    text: String,
    /// The name of the samples of the present family.
    name: String,
    /// What is written instead in the binary format.
    messages: Messages,
}

impl Text {
    pub(super) fn new(format: Format) -> Self {
        Self { format, text: String::new(), name: String::new(), messages: Messages::default() }
    }

    /// Begins a family. `name` is without the ending of its kind.
    pub(super) fn family(&mut self, kind: Kind, name: &str, help: &str) {
        self.name = format!("{name}{}", kind.ending());
        if self.format == Format::Binary {
            return self.messages.family(kind, &self.name, help);
        }
        let (named, kind) = match (self.format, kind) {
            (Format::Plain | Format::Binary, Kind::Counter) => (self.name.as_str(), "counter"),
            // The older format has no such kind.
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

    /// Adds a sample to the family. `value` is written as a number.
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        if self.format == Format::Binary {
            return self.messages.sample(labels, double(value));
        }
        self.sample_of("", labels, value);
    }

    /// Adds a sample whose name has an ending.
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

    /// Adds the samples of a histogram to the family: for each bound how many numbers are no larger; the sum of all, and how many there are.
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
            // OpenMetrics wants a point in each of these numbers.
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

    /// Adds the samples of a histogram of times to the family, in seconds: with buckets up to these bounds and, where the format has
    /// them, native ones.
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

/// A time as metrics tell it.
pub(super) fn seconds(time: Duration) -> String {
    format!("{}.{:06}", time.as_secs(), time.subsec_micros())
}

/// A number that can be written, as the binary format has numbers: whole ones are exact up to 2^53, as they are in Prometheus.
fn double(value: impl Display) -> f64 {
    value.to_string().parse().unwrap_or(f64::NAN)
}

/// Backslashes and line feeds, and with `quotes` quotes, as both formats write them.
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
