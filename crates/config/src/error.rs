//! Errors of settings.

use super::masked::{masked, quoted};
use std::fmt;

/// The reason for refusing a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingError {
    /// No setting has this name.
    Unknown {
        /// The name, as given.
        name: String,
        /// A known name that is similar.
        suggestion: Option<&'static str>,
    },
    /// An option of other servers that protects the server there. Oribi does not have it, and must not start without that
    /// protection.
    Protective {
        /// The name, as given.
        name: String,
        /// The advice for the user.
        instead: &'static str,
    },
    /// The value is invalid.
    Bad {
        /// The name of the setting or of the environment variable, as given.
        name: String,
        /// The value, as given.
        value: String,
        /// The valid values: "expected ...".
        why: String,
    },
}

impl SettingError {
    pub(super) fn bad(name: impl Into<String>, value: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Bad { name: name.into(), value: value.into(), why: why.into() }
    }
}

impl fmt::Display for SettingError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name, suggestion: None } => {
                write!(formatter, "unknown setting `{}`; `oribi --help` lists all settings", quoted(name))
            }
            Self::Protective { name, instead } => {
                write!(formatter, "cannot do what `{}` asks for: {instead}", quoted(name))
            }
            Self::Unknown { name, suggestion: Some(suggestion) } => {
                write!(formatter, "unknown setting `{}`; did you mean `{suggestion}`?", quoted(name))
            }
            Self::Bad { name, value, why } => {
                write!(formatter, "bad value `{}` for {}: {}", quoted(value), quoted(name), masked(why))
            }
        }
    }
}

impl std::error::Error for SettingError {}
