//! The origin of a setting's text, and the precedence between two texts.

use std::fmt;
use std::sync::Arc;

/// The origin of a setting's text. The command line overrides the environment, the environment overrides a file, and a file
/// overrides the default. A host and a port of the environment do not override a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The setting was not set.
    Default,
    /// A configuration file in the language of the app, by its path, perhaps with a line: `oribi.rb:3`.
    File(String),
    /// A place in `oribi.toml` or in a file that it includes.
    ConfigFile {
        /// The path of the file, as it was given.
        path: Arc<str>,
        /// The line, from 1 on.
        line: usize,
        /// The column in characters, from 1 on.
        column: usize,
    },
    /// An environment variable, by its name.
    Environment(Arc<str>),
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
            Self::File(_) | Self::ConfigFile { .. } => 2,
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
            Self::ConfigFile { path, line, .. } => write!(formatter, "file {path}:{line}"),
            Self::Environment(variable) => write!(formatter, "environment ({variable})"),
            Self::CommandLine => formatter.write_str("command line"),
            Self::Caller(name) => formatter.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    #[test]
    fn a_place_in_the_configuration_file_is_shown_with_its_line() {
        let place = |line| Origin::ConfigFile { path: "oribi.toml".into(), line, column: 3 };
        let mut config = Config::with(|name| (name == "WEB_CONCURRENCY").then(|| "2".to_owned()), 3);
        config.set("workers", "5", place(11)).expect("fits");
        config.set("threads", "7", place(12)).expect("fits");
        config.set("threads", "8", place(13)).expect("fits");
        config.set("backlog", "9", place(14)).expect("fits");
        config.set("backlog", "10", Origin::CommandLine).expect("fits");
        let resolved = config.resolve().expect("fits");
        let line = |name| resolved.explain().map(|(_, line)| line).find(|line| line.name == name).expect("it is there");
        for (name, value, origin) in [
            ("workers", "2", "environment (WEB_CONCURRENCY)"),
            ("threads", "8", "file oribi.toml:13"),
            ("backlog", "10", "command line"),
        ] {
            assert_eq!((line(name).value.as_str(), line(name).origin.to_string().as_str()), (value, origin));
        }
    }
}
