//! Notes about the source: one for each thing that `oribi.toml` does not have.

use crate::variable::shown;
use std::fmt;

/// The weight of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The thing was not carried over, or only in part.
    Lost,
    /// The thing needs no option: Oribi always does it, or never needs it.
    Same,
}

/// A note about one thing of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Its weight.
    pub kind: Kind,
    /// The line in the source, from 1 on, if it is known.
    pub line: Option<usize>,
    /// The name of the thing in the source, such as `applications.shop.isolation`.
    pub key: String,
    /// The reason, and the nearest equivalent.
    pub text: String,
}

impl Note {
    /// The text of the note, without the line.
    #[must_use]
    pub fn without_line(&self) -> String {
        format!("{}: {}", one_line(&self.key), one_line(&self.text))
    }
}

/// The place of a thing in the source: its name, and its line if that is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Key {
    /// The line, from 1 on.
    pub line: Option<usize>,
    /// The name.
    pub name: String,
}

impl Key {
    /// A name without a line.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { line: None, name: name.into() }
    }

    /// A name in a line.
    #[must_use]
    pub fn at(line: usize, name: impl Into<String>) -> Self {
        Self { line: Some(line), name: name.into() }
    }

    /// The name of a part of this thing, at the same line.
    #[must_use]
    pub fn inside(&self, name: &str) -> Self {
        let name = if self.name.is_empty() { name.to_owned() } else { format!("{}.{name}", self.name) };
        Self { line: self.line, name }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(formatter, "line {line}: ")?;
        }
        formatter.write_str(&self.without_line())
    }
}

/// A text without control characters, and not too long for a line.
pub(crate) fn one_line(text: &str) -> String {
    const MOST: usize = 400;
    let mut line: String =
        shown(text).chars().take(MOST).map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    if line.len() < text.len() && text.chars().count() > MOST {
        line.push_str("...");
    }
    line
}
