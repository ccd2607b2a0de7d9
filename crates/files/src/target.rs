//! Maps the path of a URL to the path of a file, which can only lead downwards.

use std::borrow::Cow;

/// The path below a root for the path of a URL, with its escapes decoded once. `None` if it names no file on any system: a
/// path that is not absolute, has a broken escape, or has an escaped slash or NUL, whose meaning would change by decoding.
#[must_use]
pub fn decode(path: &[u8]) -> Option<Cow<'_, [u8]>> {
    let relative = path.strip_prefix(b"/")?;
    if memchr::memchr(b'%', relative).is_none() {
        return Some(Cow::Borrowed(relative));
    }
    let mut decoded = Vec::with_capacity(relative.len());
    let mut rest = relative;
    while let [first, behind @ ..] = rest {
        if *first != b'%' {
            decoded.push(*first);
            rest = behind;
            continue;
        }
        let [high, low, behind @ ..] = behind else { return None };
        let byte = digit(*high)? << 4 | digit(*low)?;
        if matches!(byte, b'/' | 0) {
            return None;
        }
        decoded.push(byte);
        rest = behind;
    }
    Some(Cow::Owned(decoded))
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// Whether a decoded path may be looked up. Every segment must be a name other than `.` and `..`; only the last segment may be
/// empty (a directory). The path may have no backslash, which some systems and clients take for a separator, and no control
/// byte. Names that begin with a dot are allowed only with `dotfiles`, or as `.well-known`.
#[must_use]
pub fn is_plain(relative: &[u8], dotfiles: bool) -> bool {
    if relative.iter().any(|byte| *byte < b' ' || matches!(byte, b'\\' | 0x7f)) {
        return false;
    }
    let segments = relative.strip_suffix(b"/").unwrap_or(relative);
    relative.is_empty() || segments.split(|byte| *byte == b'/').all(|segment| is_name(segment, dotfiles))
}

fn is_name(segment: &[u8], dotfiles: bool) -> bool {
    match segment {
        b"" | b"." | b".." => false,
        b".well-known" => true,
        [b'.', ..] => dotfiles,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded_once() {
        for (path, expected) in [
            ("/", Some("")),
            ("/a/b.txt", Some("a/b.txt")),
            ("/a%20b", Some("a b")),
            ("/%C3%a9", Some("\u{e9}")),
            ("/%252e%252e/x", Some("%2e%2e/x")),
            ("/a+b", Some("a+b")),
            ("/%2e%2e/x", Some("../x")),
            ("/%", None),
            ("/%4", None),
            ("/%4g", None),
            ("/%+1", None),
            ("/a%2fb", None),
            ("/a%2Fb", None),
            ("/a%00", None),
            ("", None),
            ("*", None),
            ("a", None),
        ] {
            let decoded = decode(path.as_bytes());
            assert_eq!(decoded.as_deref(), expected.map(str::as_bytes), "{path}");
        }
    }

    #[test]
    fn only_plain_names_are_looked_for() {
        for path in ["", "a", "a/b", "a/", "a.b/c", "a..", "a b", ".well-known/acme", "a/.well-known", "\u{e9}"] {
            assert!(is_plain(path.as_bytes(), false), "{path}");
        }
        for path in [
            "/", "//", "a//b", "a//", "/a", ".", "..", "./a", "../a", "a/.", "a/..", "a/../b", "a/../", "..\\a", "a\\b", "a\0",
            "a\n", "a\x7f",
        ] {
            assert!(!is_plain(path.as_bytes(), true), "{path:?}");
        }
        for path in [".a", "a/.git/config", "...", ".well-known/.a", ".well-known2"] {
            assert!(!is_plain(path.as_bytes(), false), "{path}");
            assert!(is_plain(path.as_bytes(), true), "{path}");
        }
    }
}
