//! Patterns for the media types of files that are sent.

use oribi_route::fits_wildcard;

const EXPECTED: &str = "expected a media type without parameters, perhaps with `*`, such as image/png, image/* or !text/html";

/// Patterns for media types. A type fits if one of the patterns without `!` fits it, or if there are none, and none of those with
/// `!`. Without patterns each type fits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypePatterns {
    /// In small letters.
    positive: Vec<String>,
    negative: Vec<String>,
}

impl TypePatterns {
    /// Adds a pattern, such as `image/png`, `image/*` or `!text/html`.
    ///
    /// # Errors
    /// Says which form is expected.
    pub fn add(&mut self, text: &str) -> Result<(), &'static str> {
        let (list, pattern) = match text.strip_prefix('!') {
            Some(pattern) => (&mut self.negative, pattern),
            None => (&mut self.positive, text),
        };
        let fits = |part: &str| {
            !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"*!#$&-^_.+".contains(&byte))
        };
        match pattern.split_once('/') {
            Some((kind, rest)) if fits(kind) && fits(rest) && !kind.starts_with('!') => list.push(pattern.to_ascii_lowercase()),
            _ => return Err(EXPECTED),
        }
        Ok(())
    }

    /// Whether a media type fits; its parameters do not count.
    #[must_use]
    pub fn admit(&self, media_type: &str) -> bool {
        let bare = media_type.split(';').next().unwrap_or(media_type).trim_end().to_ascii_lowercase();
        let fits = |pattern: &String| fits_wildcard(pattern, bare.as_bytes());
        (self.positive.is_empty() || self.positive.iter().any(fits)) && !self.negative.iter().any(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(texts: &[&str]) -> TypePatterns {
        let mut patterns = TypePatterns::default();
        texts.iter().for_each(|text| patterns.add(text).expect(text));
        patterns
    }

    #[test]
    fn a_type_fits_without_its_parameters() {
        for (texts, media_type, expected) in [
            (&[][..], "a/b", true),
            (&["text/html"], "text/html; charset=utf-8", true),
            (&["Text/HTML"], "text/Html", true),
            (&["text/html"], "text/htmlx", false),
            (&["image/*"], "image/png", true),
            (&["image/*"], "video/mp4", false),
            (&["image/*", "!image/gif"], "image/gif", false),
            (&["!text/*"], "image/gif", true),
            (&["!text/*"], "text/csv", false),
            (&["*/*+xml"], "image/svg+xml", true),
            (&["*/*"], "a/b", true),
        ] {
            assert_eq!(patterns(texts).admit(media_type), expected, "{texts:?} {media_type}");
        }
    }

    #[test]
    fn a_bad_pattern_is_an_error() {
        for text in ["", "!", "text", "text/", "/html", "text/html; a=b", "a/b/c", "!!a/b", "a b/c", "*"] {
            assert_eq!(TypePatterns::default().add(text), Err(EXPECTED), "{text}");
        }
    }
}
