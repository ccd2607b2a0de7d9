//! The files of a configuration that is several files.

/// A file of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The name beside `oribi.toml`; empty for that file itself.
    pub name: String,
    /// The text.
    pub toml: String,
}
