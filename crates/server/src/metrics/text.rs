//! The text formats of metrics: Prometheus 0.0.4, and OpenMetrics 1.0, which differ in little.
//!
//! In OpenMetrics a family has a name without the ending that its kind gives to samples, so there HELP and TYPE of a counter name
//! `oribi_upgrades`, and the sample `oribi_upgrades_total`. In the older format all three have the ending. OpenMetrics escapes quotes in
//! HELP, too, and ends with a line that says so.

use std::fmt::{Display, Write as _};

/// A format in which metrics are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Prometheus's own, version 0.0.4.
    Plain,
    /// OpenMetrics 1.0.
    Open,
}

impl Format {
    /// The value of Content-Type.
    pub(super) const fn media_type(self) -> &'static str {
        match self {
            Self::Plain => "text/plain; version=0.0.4; charset=utf-8",
            Self::Open => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// What the samples of a family mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A number that only grows.
    Counter,
    /// A number that goes up and down.
    Gauge,
    /// Labels, with the number 1.
    Info,
}

impl Kind {
    /// What the names of samples end in.
    const fn ending(self) -> &'static str {
        match self {
            Self::Counter => "_total",
            Self::Gauge => "",
            Self::Info => "_info",
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
}

impl Text {
    pub(super) const fn new(format: Format) -> Self {
        Self { format, text: String::new(), name: String::new() }
    }

    /// Begins a family. `name` is without the ending of its kind.
    pub(super) fn family(&mut self, kind: Kind, name: &str, help: &str) {
        self.name = format!("{name}{}", kind.ending());
        let (named, kind) = match (self.format, kind) {
            (Format::Plain, Kind::Counter) => (self.name.as_str(), "counter"),
            // The older format has no such kind.
            (Format::Plain, Kind::Info) => (self.name.as_str(), "gauge"),
            (Format::Open, Kind::Counter) => (name, "counter"),
            (Format::Open, Kind::Info) => (name, "info"),
            (_, Kind::Gauge) => (name, "gauge"),
        };
        let help = escaped(help, self.format == Format::Open);
        // Writing to a String cannot fail.
        let _ = write!(self.text, "# HELP {named} {help}\n# TYPE {named} {kind}\n");
    }

    /// Adds a sample to the family.
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.text.push_str(&self.name);
        for (index, (name, value)) in labels.iter().enumerate() {
            let before = if index == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{before}{name}=\"{}\"", escaped(value, true));
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{end} {value}");
    }

    pub(super) fn end(mut self) -> String {
        if self.format == Format::Open {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
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
        text.end()
    }

    #[test]
    fn the_older_format_names_everything_as_its_samples_are_named() {
        let expected = "# HELP a_build_info It\\\\is \"this\"\\nand that.\n# TYPE a_build_info gauge\n\
                        a_build_info{version=\"1\\\"2\\\\3\\n4\",empty=\"\"} 1\n\
                        # HELP a_things_total Things.\n# TYPE a_things_total counter\na_things_total 18446744073709551615\n\
                        # HELP a_height_metres Height.\n# TYPE a_height_metres gauge\na_height_metres{of=\"it\"} 1.500000\n";
        assert_eq!(written(Format::Plain), expected);
    }

    #[test]
    fn openmetrics_names_families_without_endings_and_says_where_it_ends() {
        let expected = "# HELP a_build It\\\\is \\\"this\\\"\\nand that.\n# TYPE a_build info\n\
                        a_build_info{version=\"1\\\"2\\\\3\\n4\",empty=\"\"} 1\n\
                        # HELP a_things Things.\n# TYPE a_things counter\na_things_total 18446744073709551615\n\
                        # HELP a_height_metres Height.\n# TYPE a_height_metres gauge\na_height_metres{of=\"it\"} 1.500000\n# EOF\n";
        assert_eq!(written(Format::Open), expected);
    }
}
