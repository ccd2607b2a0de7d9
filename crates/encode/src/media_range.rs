//! The media types whose content is worth compressing.

/// The types that are compressed unless settings say otherwise: text in all its forms, and binary formats that are not
/// compressed by themselves.
pub const DEFAULT_TYPES: &[&str] = &[
    "application/atom+xml",
    "application/geo+json",
    "application/graphql-response+json",
    "application/hal+json",
    "application/javascript",
    "application/json",
    "application/ld+json",
    "application/manifest+json",
    "application/problem+json",
    "application/problem+xml",
    "application/rdf+xml",
    "application/rss+xml",
    "application/soap+xml",
    "application/vnd.api+json",
    "application/vnd.ms-fontobject",
    "application/wasm",
    "application/x-javascript",
    "application/x-ndjson",
    "application/xhtml+xml",
    "application/xml",
    "application/yaml",
    "font/otf",
    "font/ttf",
    "image/bmp",
    "image/svg+xml",
    "image/vnd.microsoft.icon",
    "image/x-icon",
    "text/*",
];

/// Server-sent events. Such a response may last for hours, and would hold an encoder for as long.
const EVENT_STREAM: &[u8] = b"text/event-stream";

/// A media type, such as `application/json`, or all types of a kind, such as `text/*`. `text/*` does not include
/// `text/event-stream`, which must be named: such a response may last for hours, and would hold an encoder for as long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaRange(Box<str>);

/// An error: a text is neither a media type nor a kind with `/*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidMediaRange;

impl std::fmt::Display for InvalidMediaRange {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("expected a media type without parameters, such as application/json or text/*")
    }
}

impl std::error::Error for InvalidMediaRange {}

impl MediaRange {
    /// Reads a media type, or a kind with `/*`, whatever its case.
    ///
    /// # Errors
    /// The text is something else; parameters, and `*/*`, are errors too.
    pub fn parse(text: &str) -> Result<Self, InvalidMediaRange> {
        let (kind, subtype) = text.split_once('/').ok_or(InvalidMediaRange)?;
        let is_name = |name: &str| !name.is_empty() && name.bytes().all(is_name_byte);
        if is_name(kind) && (subtype == "*" || is_name(subtype)) { Ok(Self(text.into())) } else { Err(InvalidMediaRange) }
    }

    /// The text that was read.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a media type without parameters is in this range.
    pub(crate) fn includes(&self, media_type: &[u8]) -> bool {
        let range = self.0.as_bytes();
        match range.strip_suffix(b"*") {
            Some(kind) => {
                let same = media_type.get(..kind.len()).is_some_and(|start| start.eq_ignore_ascii_case(kind));
                same && !media_type.eq_ignore_ascii_case(EVENT_STREAM)
            }
            None => media_type.eq_ignore_ascii_case(range),
        }
    }
}

/// Whether a name in a media type may contain `byte` (RFC 6838, section 4.2).
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> MediaRange {
        MediaRange::parse(text).expect("it is valid")
    }

    fn are_compressed(media_type: &str) -> bool {
        DEFAULT_TYPES.iter().any(|text| range(text).includes(media_type.as_bytes()))
    }

    #[test]
    fn text_is_compressed_by_default_and_media_are_not() {
        for media_type in [
            "text/html",
            "TEXT/HTML",
            "text/css",
            "text/plain",
            "text/javascript",
            "text/xml",
            "application/json",
            "Application/JSON",
            "application/javascript",
            "application/xml",
            "image/svg+xml",
            "application/wasm",
            "font/ttf",
        ] {
            assert!(are_compressed(media_type), "{media_type}");
        }
        for media_type in [
            "",
            "text",
            "textual/html",
            "image/png",
            "image/jpeg",
            "image/webp",
            "image/avif",
            "video/mp4",
            "audio/mpeg",
            "font/woff",
            "font/woff2",
            "application/gzip",
            "application/zip",
            "application/pdf",
            "application/octet-stream",
            "application/jsonx",
            "multipart/form-data",
            "text/event-stream",
            "Text/Event-Stream",
        ] {
            assert!(!are_compressed(media_type), "{media_type}");
        }
    }

    #[test]
    fn the_default_types_are_valid_and_sorted_and_none_is_there_twice() {
        assert!(DEFAULT_TYPES.is_sorted_by(|one, other| one < other));
        assert!(DEFAULT_TYPES.iter().all(|text| range(text).as_str() == *text && *text == text.to_lowercase()));
    }

    #[test]
    fn events_are_compressed_only_if_they_are_named() {
        assert!(!range("text/*").includes(b"text/event-stream"));
        assert!(range("text/event-stream").includes(b"text/event-stream"));
    }

    #[test]
    fn only_types_and_kinds_are_ranges() {
        for text in ["", "text", "text/", "/html", "*/*", "*/html", "text/h*", "text/html; q=1", "text/ html", "a/b/c", "ä/b"]
        {
            assert_eq!(MediaRange::parse(text), Err(InvalidMediaRange), "{text}");
        }
    }
}
