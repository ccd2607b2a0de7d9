//! A place in a configuration file.

use oribi_config::Origin;
use std::fmt;
use std::sync::Arc;

/// A place in one of the files. Its text is `FILE:LINE:COLUMN`, or `FILE` for the whole file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The index of the file: 0 is `oribi.toml` itself, the others are the included files in the order in which they are read.
    pub file: usize,
    /// The line, from 1 on; 0 for the whole file.
    pub line: usize,
    /// The column in characters, from 1 on.
    pub column: usize,
    /// The path of the file, as it was given.
    pub path: Arc<str>,
}

impl Place {
    /// The place as the origin of an option.
    #[must_use]
    pub fn origin(&self) -> Origin {
        Origin::ConfigFile { path: self.path.clone(), line: self.line, column: self.column }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => formatter.write_str(&self.path),
            line => write!(formatter, "{}:{line}:{}", self.path, self.column),
        }
    }
}
