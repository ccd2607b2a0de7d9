//! Patterns for paths, methods and values.

use crate::glob::Glob;
use crate::rule::EXPRESSION_BYTES;
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use regex::bytes::{Regex, RegexBuilder};

/// A pattern without its `!`.
#[derive(Debug)]
pub(crate) enum Pattern {
    Exact(Box<[u8]>),
    Glob(Glob),
    Expression(Regex),
}

impl Pattern {
    /// Parses a pattern that is not empty.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if let Some(expression) = text.strip_prefix('~') {
            return compile(expression).map(Self::Expression);
        }
        Ok(Self::plain(text))
    }

    /// A text, or a wildcard.
    pub(crate) fn plain(text: &str) -> Self {
        Glob::of(text).map_or_else(|| Self::Exact(text.as_bytes().into()), Self::Glob)
    }

    #[inline]
    pub(crate) fn matches(&self, value: &[u8]) -> bool {
        match self {
            Self::Exact(text) => **text == *value,
            Self::Glob(glob) => glob.matches(value),
            Self::Expression(expression) => expression.is_match(value),
        }
    }
}

/// The deepest nesting of an expression: a real one has a few levels.
const NESTING: u32 = 50;
/// The size of the cache with which an expression is matched fast. A full cache is cleared.
const CACHE_BYTES: usize = 256 << 10;

pub(crate) fn compile(expression: &str) -> Result<Regex, String> {
    if expression.is_empty() {
        return Err("empty expression; write the expression behind the `~`".to_owned());
    }
    // In the mode for Unicode, a dot matches no invalid UTF-8, and by default it matches no line feed. A client could put
    // such a byte into a path to get around a negative pattern.
    RegexBuilder::new(expression)
        .unicode(false)
        .dot_matches_new_line(true)
        .size_limit(EXPRESSION_BYTES)
        .dfa_size_limit(CACHE_BYTES)
        .nest_limit(NESTING)
        .build()
        .map_err(|error| reason(&error))
}

/// The reason in one line, without the expression.
fn reason(error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(_) => format!(
            "regular expression too large: its compiled form may have {EXPRESSION_BYTES} bytes; use smaller repetitions"
        ),
        error => {
            let text = error.to_string();
            let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("not valid").trim();
            format!("bad regular expression: {}", line.strip_prefix("error: ").unwrap_or(line))
        }
    }
}
