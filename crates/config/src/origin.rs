//! The origin of a setting's text, and the precedence between two texts.

use std::fmt;

/// The origin of a setting's text. The command line overrides the environment, the environment overrides a file, and a file
/// overrides the default. A host and a port of the environment do not override a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The setting was not set.
    Default,
    /// A configuration file, by its path.
    File(String),
    /// An environment variable, by its name.
    Environment(&'static str),
    /// A flag of the `oribi` command.
    CommandLine,
    /// A program that called Oribi, probably with its own command line: `plackup`, `rackup`.
    Caller(String),
}

impl Origin {
    /// The origin as a C host names it: `command line`, `file PATH`, or the name of a caller.
    #[must_use]
    pub fn named(text: &str) -> Self {
        match text.strip_prefix("file ") {
            Some(path) => Self::File(path.to_owned()),
            None if text == "command line" => Self::CommandLine,
            None => Self::Caller(text.to_owned()),
        }
    }

    /// The rank of a text that only fills gaps.
    pub(super) const RANK_OF_FILLING: u8 = 1;

    /// The rank of a text. The higher rank has precedence; within one rank, the later text.
    pub(super) fn rank(&self) -> u8 {
        match self {
            Self::Default => 0,
            Self::File(_) => 2,
            Self::Environment(_) => 3,
            Self::CommandLine | Self::Caller(_) => 4,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("default"),
            Self::File(path) => formatter.write_str(path),
            Self::Environment(variable) => write!(formatter, "environment ({variable})"),
            Self::CommandLine => formatter.write_str("command line"),
            Self::Caller(name) => formatter.write_str(name),
        }
    }
}
