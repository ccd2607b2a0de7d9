//! Wildcards: each `*` stands for any bytes.

use alloc::boxed::Box;
use alloc::vec::Vec;
use memchr::memmem::Finder;

/// A text with at least one `*`.
#[derive(Debug)]
pub(crate) struct Glob {
    first: Box<[u8]>,
    /// The pieces between two stars, without the empty ones.
    middle: Vec<Finder<'static>>,
    last: Box<[u8]>,
}

impl Glob {
    /// The wildcard of a text; `None` if it has no `*`.
    pub(crate) fn of(text: &str) -> Option<Self> {
        let (first, rest) = text.split_once('*')?;
        let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
        let middle = middle.split('*').filter(|piece| !piece.is_empty());
        Some(Self {
            first: first.as_bytes().into(),
            middle: middle.map(|piece| Finder::new(piece.as_bytes()).into_owned()).collect(),
            last: last.as_bytes().into(),
        })
    }

    /// The text before the first star.
    pub(crate) fn first(&self) -> &[u8] {
        &self.first
    }

    /// Whether the only stars are at the end, so that everything that begins with [`Self::first`] matches.
    pub(crate) fn is_prefix(&self) -> bool {
        self.middle.is_empty() && self.last.is_empty()
    }

    /// Takes each piece at its first place, which leaves the most for the pieces behind it: the time is linear.
    pub(crate) fn matches(&self, text: &[u8]) -> bool {
        let Some(mut rest) = text.strip_prefix(&*self.first).and_then(|rest| rest.strip_suffix(&*self.last)) else {
            return false;
        };
        for piece in &self.middle {
            let Some(start) = piece.find(rest) else { return false };
            rest = &rest[start + piece.needle().len()..];
        }
        true
    }
}

/// Whether a text fits a pattern, in which each `*` stands for any bytes.
#[must_use]
pub fn fits_wildcard(pattern: &str, text: &[u8]) -> bool {
    Glob::of(pattern).map_or_else(|| pattern.as_bytes() == text, |glob| glob.matches(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_bytes_also_none_and_slashes() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*", "/a\n", true),
            ("a*", "a", true),
            ("a*", "ab/c", true),
            ("a*", "ba", false),
            ("*a", "ba", true),
            ("*a", "ab", false),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("a*a", "aba", true),
            ("a*b*c", "abc", true),
            ("a*b*c", "axbxbc", true),
            ("a*b*c", "acb", false),
            ("*ab*ab*", "aab_aab", true),
            ("*ab*ab*", "abb", false),
            ("a**b", "ab", true),
            ("*.php", "/x/y.php", true),
            ("*.php", "/x/y.phps", false),
        ] {
            let glob = Glob::of(pattern).expect("the pattern has a star");
            assert_eq!(glob.matches(text.as_bytes()), expected, "{pattern} {text}");
        }
        assert!(Glob::of("abc").is_none());
    }

    #[test]
    fn only_stars_at_the_end_make_a_prefix() {
        for (pattern, prefix) in [("/a/*", true), ("*", true), ("/a**", true), ("/*/a", false), ("/*a*", false)] {
            assert_eq!(Glob::of(pattern).expect("the pattern has a star").is_prefix(), prefix, "{pattern}");
        }
    }
}
