//! Findings about a configuration file: mistakes, with which no server starts, and warnings.

use crate::place::Place;
use std::fmt;

/// The weight of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The file cannot be used.
    Mistake,
    /// The file can be used, but perhaps says something else than its author means.
    Warning,
}

/// One mistake or warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether the file can be used nevertheless.
    pub severity: Severity,
    /// Its place; without a line if a file cannot be read at all.
    pub place: Place,
    /// The message, without secrets.
    pub message: String,
    /// The line of the place.
    pub excerpt: Option<Excerpt>,
    /// A suggestion, without secrets.
    pub suggestion: Option<String>,
}

/// A line of a file, for a message: secrets are masked, control characters replaced, and a long line is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// The line.
    pub line: String,
    /// The characters of `line` before the place.
    pub caret: usize,
}

/// All findings, in the order of the files and of their lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// The findings, at most 1,000.
    pub list: Vec<Finding>,
    /// The number of further mistakes and warnings.
    pub more: usize,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let warning = if self.severity == Severity::Warning { "warning: " } else { "" };
        writeln!(formatter, "{}: {warning}{}", self.place, self.message)?;
        if let Some(Excerpt { line, caret }) = &self.excerpt {
            writeln!(formatter, "  {line}\n  {:caret$}^", "")?;
        }
        match &self.suggestion {
            Some(suggestion) => writeln!(formatter, "  {suggestion}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.list.iter().try_for_each(|finding| finding.fmt(formatter))?;
        if self.more == 0 { Ok(()) } else { writeln!(formatter, "{} more mistakes and warnings are not listed", self.more) }
    }
}
