//! Certificates and keys in PEM: in a file, or as text in the configuration itself.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A certificate with its chain, or a key.
#[derive(Clone, PartialEq, Eq)]
pub enum Pem {
    /// The file, which may be replaced by another one.
    File(PathBuf),
    /// The text from the configuration. No message and no command line contains it.
    Text(Arc<[u8]>),
    /// A text that only another process has.
    Withheld,
}

impl Pem {
    /// Takes a text from the configuration.
    #[must_use]
    pub fn text(bytes: &[u8]) -> Self {
        Self::Text(bytes.into())
    }

    /// The file, if there is one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Text(_) | Self::Withheld => None,
        }
    }

    /// The file, to be changed.
    pub fn path_mut(&mut self) -> Option<&mut PathBuf> {
        match self {
            Self::File(path) => Some(path),
            Self::Text(_) | Self::Withheld => None,
        }
    }

    /// A name for messages; `option` names the option that holds the text.
    pub(crate) fn name(&self, option: &str) -> String {
        self.path().map_or_else(|| option.to_owned(), |path| path.display().to_string())
    }

    pub(crate) fn complete(&mut self, bytes: &[u8]) {
        if *self == Self::Withheld {
            *self = Self::text(bytes);
        }
    }
}

impl From<PathBuf> for Pem {
    fn from(path: PathBuf) -> Self {
        Self::File(path)
    }
}

impl From<&str> for Pem {
    fn from(path: &str) -> Self {
        Self::File(path.into())
    }
}

impl fmt::Debug for Pem {
    /// Never shows a key.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => fmt::Debug::fmt(path, formatter),
            Self::Text(_) | Self::Withheld => formatter.write_str("***"),
        }
    }
}
