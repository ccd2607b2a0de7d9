//! The groups of the regular expressions of a path condition.

use crate::pattern::compile;
use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use regex::bytes::{Captures, Regex};

/// The regular expressions of a path condition.
#[derive(Clone, Debug, Default)]
pub struct PathExpressions(Vec<Regex>);

impl PathExpressions {
    /// Compiles the expressions among the patterns of [`Rule::path`](crate::Rule::path). Those with an error are left out:
    /// [`Table::compile`](crate::Table::compile) reports them.
    #[must_use]
    pub fn of(patterns: &[String]) -> Self {
        Self(patterns.iter().filter_map(|pattern| compile(pattern.strip_prefix('~')?).ok()).collect())
    }

    /// The numbers and the names of all groups; 0 is the whole match.
    #[must_use]
    pub fn groups(&self) -> Vec<String> {
        let mut groups = Vec::new();
        for (number, name) in self.0.iter().flat_map(|expression| expression.capture_names().enumerate()) {
            groups.push(number.to_string());
            groups.extend(name.map(ToOwned::to_owned));
        }
        groups
    }

    /// The groups of the first expression that matches a path.
    pub(crate) fn find<'p>(&self, path: &'p [u8]) -> Option<Captures<'p>> {
        self.0.iter().find_map(|expression| expression.captures(path))
    }
}
