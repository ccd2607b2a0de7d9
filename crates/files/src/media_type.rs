//! The media type of a file, from its name.

/// The type of unknown content (RFC 2046, section 4.5.1).
const UNKNOWN: &str = "application/octet-stream";

/// The media type of a file with this name. Text is declared as UTF-8, except XML, which declares its encoding itself.
pub fn of(path: &[u8]) -> &'static str {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    let Some(dot) = name.iter().rposition(|byte| *byte == b'.') else { return UNKNOWN };
    let Ok(ending) = std::str::from_utf8(&name[dot + 1..]) else { return UNKNOWN };
    let Some(found) = mime_guess::from_ext(ending).first_raw() else { return UNKNOWN };
    UTF_8.iter().find(|(bare, _)| *bare == found).map_or(found, |(_, with_charset)| with_charset)
}

/// The types of text to which a charset is added. Other types are text too, but no browser shows them.
const UTF_8: &[(&str, &str)] = &[
    ("text/html", "text/html; charset=utf-8"),
    ("text/css", "text/css; charset=utf-8"),
    ("text/javascript", "text/javascript; charset=utf-8"),
    ("application/javascript", "text/javascript; charset=utf-8"),
    ("text/plain", "text/plain; charset=utf-8"),
    ("text/csv", "text/csv; charset=utf-8"),
    ("text/markdown", "text/markdown; charset=utf-8"),
    ("text/vtt", "text/vtt; charset=utf-8"),
    ("text/calendar", "text/calendar; charset=utf-8"),
    ("text/tab-separated-values", "text/tab-separated-values; charset=utf-8"),
];

/// Whether content of this type is worth compressing: media are compressed already.
pub(crate) fn compresses(media_type: &str) -> bool {
    let bare = media_type.split(';').next().unwrap_or(media_type);
    match bare.split_once('/') {
        Some(("image", kind)) => matches!(kind, "svg+xml" | "bmp" | "x-icon" | "vnd.microsoft.icon"),
        Some(("video" | "audio", _)) => false,
        Some(("font", kind)) => !matches!(kind, "woff" | "woff2"),
        Some(("application", kind)) => {
            !matches!(kind, "zip" | "gzip" | "x-gzip" | "x-bzip2" | "x-xz" | "zstd" | "x-7z-compressed" | "font-woff")
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_follow_from_the_last_ending() {
        for (path, expected) in [
            ("index.html", "text/html; charset=utf-8"),
            ("a/INDEX.HTM", "text/html; charset=utf-8"),
            ("site.css", "text/css; charset=utf-8"),
            ("app.js", "text/javascript; charset=utf-8"),
            ("app.mjs", "text/javascript; charset=utf-8"),
            ("notes.txt", "text/plain; charset=utf-8"),
            ("data.json", "application/json"),
            ("feed.xml", "text/xml"),
            ("logo.svg", "image/svg+xml"),
            ("photo.jpeg", "image/jpeg"),
            ("photo.webp", "image/webp"),
            ("photo.avif", "image/avif"),
            ("film.mp4", "video/mp4"),
            ("font.woff2", "font/woff2"),
            ("module.wasm", "application/wasm"),
            ("paper.pdf", "application/pdf"),
            ("all.tar.gz", "application/gzip"),
            ("README", UNKNOWN),
            ("a.b/README", UNKNOWN),
            ("a.unheard-of", UNKNOWN),
            ("a.", UNKNOWN),
            ("", UNKNOWN),
        ] {
            assert_eq!(of(path.as_bytes()), expected, "{path}");
        }
        assert_eq!(of(b"a.\xff"), UNKNOWN);
    }

    #[test]
    fn what_is_compressed_is_not_compressed_again() {
        for path in ["a.html", "a.js", "a.json", "a.svg", "a.wasm", "a.ttf", "a.xml", "README"] {
            assert!(compresses(of(path.as_bytes())), "{path}");
        }
        for path in ["a.png", "a.jpg", "a.mp4", "a.mp3", "a.woff2", "a.zip", "a.gz", "a.webp"] {
            assert!(!compresses(of(path.as_bytes())), "{path}");
        }
    }
}
