//! The conditions of a route as a configuration has them, and their errors.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// The most rules of a table. A row then has 528 bytes.
pub const MOST_RULES: usize = 4096;
/// The most patterns of all rules together. Each makes one row at most, so that those of a table have at most 9 MiB.
pub const MOST_PATTERNS: usize = 16384;
/// The longest pattern, in bytes.
pub const MOST_PATTERN_BYTES: usize = 4096;
/// The most regular expressions of all rules together. `regex` has its own bound of 1 MiB for a part of each.
pub const MOST_EXPRESSIONS: usize = 128;
/// The largest compiled regular expression, in bytes.
pub const EXPRESSION_BYTES: usize = 64 << 10;

/// The conditions of a route. An empty list is no condition; a rule without conditions matches every request. The
/// [crate's documentation](crate) describes the patterns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rule {
    /// Hosts: `example.com`, `*.example.com`, `*`.
    pub host: Vec<String>,
    /// Normalized paths: `/a`, `/a/*`, `*.php`, `~^/a[0-9]`.
    pub path: Vec<String>,
    /// Methods: `GET`.
    pub method: Vec<String>,
    /// Fields. The conditions of one name are a list; the lists of all names must match.
    pub field: Vec<NamedPattern>,
    /// Pairs of the query, as `field`.
    pub query: Vec<NamedPattern>,
    /// Addresses or networks of the client: `192.0.2.1`, `10.0.0.0/8`.
    pub source: Vec<String>,
    /// Addresses at which the request arrived: `192.0.2.1:443`, `*:8080`, `unix`, `unix:/run/app.sock`.
    pub destination: Vec<String>,
    /// Schemes: `http`, `https`.
    pub scheme: Vec<String>,
}

/// A condition for a field or a pair of the query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NamedPattern {
    /// The name.
    pub name: String,
    /// The pattern for the value; `None`: any value.
    pub value: Option<String>,
}

/// An error in a rule. The message quotes no value of a field or of the query, because that may be a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// The index of the rule, counted from 0.
    pub rule: usize,
    /// The name of the list, such as `path`; empty if the error is not about one pattern.
    pub list: &'static str,
    /// The index of the pattern in its list, counted from 0.
    pub pattern: usize,
    /// The error and the remedy, in one line.
    pub message: String,
}

impl fmt::Display for RuleError {
    /// Writes the error with its place. Rules and patterns are counted from 1, as people do.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = self.rule + 1;
        if self.list.is_empty() {
            return write!(formatter, "route {rule}: {}", self.message);
        }
        write!(formatter, "route {rule}, {} pattern {}: {}", self.list, self.pattern + 1, self.message)
    }
}

impl core::error::Error for RuleError {}
