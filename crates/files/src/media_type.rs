//! The media type of a file, from its name.

use std::borrow::Cow;

/// The type of unknown content (RFC 2046, section 4.5.1).
const UNKNOWN: &str = "application/octet-stream";

/// The media type of a file with this name. Text is declared as UTF-8, except XML, which declares its encoding itself.
pub fn of(path: &[u8]) -> &'static str {
    built_in(path).unwrap_or(UNKNOWN)
}

/// The media type of a file with this name; `None` if its ending is not known.
#[must_use]
pub fn built_in(path: &[u8]) -> Option<&'static str> {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    let dot = name.iter().rposition(|byte| *byte == b'.')?;
    let found = mime_guess::from_ext(std::str::from_utf8(&name[dot + 1..]).ok()?).first_raw()?;
    Some(UTF_8.iter().find(|(bare, _)| *bare == found).map_or(found, |(_, with_charset)| with_charset))
}

/// Media types by names of files, before those that are built in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MediaTypes {
    /// Endings such as `.wasm` or whole names, in small letters, with their types.
    of_names: Vec<(String, String)>,
    /// The type of files whose names say none.
    other: Option<String>,
}

impl MediaTypes {
    /// Adds `.ENDING=TYPE`, `NAME=TYPE` for the files with this name, or `*=TYPE` for those whose names say no type.
    ///
    /// # Errors
    /// Says which form is expected.
    pub fn add(&mut self, text: &str) -> Result<(), String> {
        const EXPECTED: &str = "expected .ENDING=TYPE, NAME=TYPE or *=TYPE, as in .wasm=application/wasm";
        let (name, media_type) = text.split_once('=').ok_or(EXPECTED)?;
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte);
        let mut halves = media_type.split(';').next().unwrap_or_default().trim_end().splitn(2, '/');
        let typed = (0..2).all(|_| halves.next().is_some_and(|half| !half.is_empty() && half.bytes().all(token)));
        let visible = media_type.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ') && !media_type.ends_with(' ');
        if !typed || !visible || matches!(name, "" | ".") || name.contains(|letter: char| letter == '/' || letter.is_control())
        {
            return Err(EXPECTED.to_owned());
        }
        if name == "*" {
            self.other = Some(media_type.to_owned());
            return Ok(());
        }
        let name = name.to_ascii_lowercase();
        self.of_names.retain(|(known, _)| *known != name);
        self.of_names.push((name, media_type.to_owned()));
        Ok(())
    }

    /// The media type of a file: that of its whole name, or of its longest ending that is known here, or the one that is built
    /// in, or that of all other files.
    #[must_use]
    pub fn of(&self, path: &[u8]) -> Cow<'static, str> {
        if self.of_names.is_empty() && self.other.is_none() {
            return Cow::Borrowed(of(path));
        }
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path).to_ascii_lowercase();
        let fits =
            |known: &str| if known.starts_with('.') { name.ends_with(known.as_bytes()) } else { name == known.as_bytes() };
        let known = self.of_names.iter().filter(|(known, _)| fits(known));
        let best = known.max_by_key(|(known, _)| (!known.starts_with('.'), known.len()));
        match (best, &self.other) {
            (Some((_, media_type)), _) => Cow::Owned(media_type.clone()),
            (None, Some(other)) => built_in(path).map_or_else(|| Cow::Owned(other.clone()), Cow::Borrowed),
            (None, None) => Cow::Borrowed(of(path)),
        }
    }
}

impl MediaTypes {
    /// The texts that [`MediaTypes::add`] takes.
    #[must_use]
    pub fn texts(&self) -> Vec<String> {
        let other = self.other.iter().map(|media_type| format!("*={media_type}"));
        self.of_names.iter().map(|(name, media_type)| format!("{name}={media_type}")).chain(other).collect()
    }
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
    fn own_types_come_before_those_that_are_built_in() {
        let mut types = MediaTypes::default();
        for text in [".X=text/x", ".x=text/x-own; charset=utf-8", ".tar.x=a/b", "README=text/plain", ".html=text/own"] {
            types.add(text).expect(text);
        }
        for (path, expected) in [
            ("a/b.x", "text/x-own; charset=utf-8"),
            ("b.X", "text/x-own; charset=utf-8"),
            ("b.tar.x", "a/b"),
            ("a/readme", "text/plain"),
            ("a/README.md", "text/markdown; charset=utf-8"),
            ("index.html", "text/own"),
            ("x", UNKNOWN),
        ] {
            assert_eq!(types.of(path.as_bytes()), expected, "{path}");
        }
        types.add("*=text/other").expect("a type of other files");
        for (path, expected) in [("x", "text/other"), ("a.unheard-of", "text/other"), ("b.x", "text/x-own; charset=utf-8")] {
            assert_eq!(types.of(path.as_bytes()), expected, "{path}");
        }
        assert_eq!(types.of(b"a.png"), "image/png");
        let mut same = MediaTypes::default();
        types.texts().iter().for_each(|text| same.add(text).expect(text));
        assert_eq!(same, types);
        for text in
            ["", "=a/b", ".=a/b", ".x", ".x=", ".x=a", ".x=a/", ".x=/b", "a/.x=a/b", ".x=a/b\r\nc", ".x=a b/c", ".x=a/b/c"]
        {
            assert!(types.add(text).is_err(), "{text}");
        }
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
