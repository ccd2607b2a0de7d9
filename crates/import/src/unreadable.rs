//! The reason why a source cannot be read.

use std::fmt;

/// A source that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The line, from 1 on, if it is known.
    pub line: Option<usize>,
    /// The column, from 1 on, if it is known.
    pub column: Option<usize>,
    /// The reason.
    pub message: String,
}

impl Unreadable {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { line: None, column: None, message: message.into() }
    }

    pub(crate) fn line(line: usize, message: impl Into<String>) -> Self {
        Self { line: Some(line), column: None, message: message.into() }
    }

    pub(crate) fn at(line: usize, column: usize, message: impl Into<String>) -> Self {
        let known = |number: usize| (number > 0).then_some(number);
        Self { line: known(line), column: known(column), message: message.into() }
    }

    /// The same so many lines further down.
    pub(crate) fn moved(self, lines: usize) -> Self {
        Self { line: self.line.map(|line| line + lines), ..self }
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.column) {
            (Some(line), Some(column)) => write!(formatter, "{line}:{column}: ")?,
            (Some(line), None) => write!(formatter, "{line}: ")?,
            _ => {}
        }
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Unreadable {}
