//! Files that a source names, which the caller reads.

/// A file that a pattern of [`Imported::wanted`](crate::Imported::wanted) names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The pattern.
    pub pattern: String,
    /// The path.
    pub path: String,
    /// The text, or the reason why there is none.
    pub text: Result<String, String>,
}
