//! The parts of a target, and the normal form of its path.

use alloc::vec::Vec;
use memchr::{memchr, memchr2};

/// The parts of a target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Target<'a> {
    /// The authority of an absolute-form target.
    pub(crate) authority: Option<&'a [u8]>,
    /// The path as sent; it begins with a slash. `None` for the other forms.
    pub(crate) path: Option<&'a [u8]>,
    /// The bytes behind the first `?`; empty without one.
    pub(crate) query: &'a [u8],
    /// Whether the path is in its normal form already.
    pub(crate) normal: bool,
}

impl<'a> Target<'a> {
    #[inline]
    pub(crate) fn read(target: &'a [u8]) -> Self {
        if let [b'/', ..] = target { Self::of_origin(None, target) } else { Self::of_other_form(target) }
    }

    #[inline]
    fn of_origin(authority: Option<&'a [u8]>, target: &'a [u8]) -> Self {
        let (mut end, normal) = plain_end(target);
        if !normal {
            end = memchr(b'?', target).unwrap_or(target.len());
        }
        Self { authority, path: Some(&target[..end]), query: target.get(end + 1..).unwrap_or_default(), normal }
    }

    fn of_other_form(target: &'a [u8]) -> Self {
        let rest = [b"http://".as_slice(), b"https://"].into_iter().find_map(|scheme| {
            let (start, rest) = target.split_at_checked(scheme.len())?;
            start.eq_ignore_ascii_case(scheme).then_some(rest)
        });
        let Some(rest) = rest else { return Self { authority: None, path: None, query: b"", normal: true } };
        let (authority, behind) = rest.split_at(memchr2(b'/', b'?', rest).unwrap_or(rest.len()));
        match behind {
            [b'/', ..] => Self::of_origin(Some(authority), behind),
            behind => {
                Self { authority: Some(authority), path: Some(b"/"), query: behind.get(1..).unwrap_or_default(), normal: true }
            }
        }
    }
}

/// The end of the path, if it is in its normal form (and `true`). In most paths, most bytes are letters, which are larger than
/// all bytes with a meaning.
#[inline]
fn plain_end(target: &[u8]) -> (usize, bool) {
    let mut before = 0;
    for (place, &byte) in target.iter().enumerate() {
        if byte <= b'?' {
            match byte {
                b'?' => return (place, true),
                b'%' => return (place, false),
                b'/' | b'.' if before == b'/' => return (place, false),
                _ => {}
            }
        }
        before = byte;
    }
    (target.len(), true)
}

/// Writes the normal form of a path that begins with a slash.
pub(crate) fn normalize(path: &[u8], normal: &mut Vec<u8>) {
    normal.clear();
    decode(path, false, normal);
    resolve(normal);
}

/// Appends a text with its escapes decoded once; invalid escapes stay. `form`: a plus sign is a space.
pub(crate) fn decode(text: &[u8], form: bool, decoded: &mut Vec<u8>) {
    let mut rest = text;
    while let [first, behind @ ..] = rest {
        let (byte, behind) = match (first, behind) {
            (b'%', [high, low, behind @ ..]) => match (digit(*high), digit(*low)) {
                (Some(high), Some(low)) => (high << 4 | low, behind),
                _ => (b'%', &rest[1..]),
            },
            (b'+', behind) if form => (b' ', behind),
            (byte, behind) => (*byte, behind),
        };
        decoded.push(byte);
        rest = behind;
    }
}

/// The value of a hexadecimal digit.
pub(crate) fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// Merges slashes and resolves `.` and `..` in place: the result never is longer than the part that was read.
fn resolve(path: &mut Vec<u8>) {
    let (mut read, mut written) = (0, 0);
    while read < path.len() {
        while path.get(read) == Some(&b'/') {
            read += 1;
        }
        let end = memchr(b'/', &path[read..]).map_or(path.len(), |length| read + length);
        let keep = match &path[read..end] {
            b"" | b"." => false,
            b".." => {
                written = memchr::memrchr(b'/', &path[..written]).unwrap_or(0);
                false
            }
            _ => true,
        };
        if keep {
            path[written] = b'/';
            path.copy_within(read..end, written + 1);
            written += 1 + end - read;
        } else if end == path.len() {
            // A directory.
            path[written] = b'/';
            written += 1;
        }
        read = end;
    }
    path.truncate(written);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(path: &[u8]) -> Vec<u8> {
        let mut normal = Vec::new();
        normalize(path, &mut normal);
        normal
    }

    #[test]
    fn a_path_is_decoded_once_and_resolved() {
        for (path, expected) in [
            ("/", "/"),
            ("//", "/"),
            ("/.", "/"),
            ("/./", "/"),
            ("/..", "/"),
            ("/../..//", "/"),
            ("/a", "/a"),
            ("/a/", "/a/"),
            ("/a//", "/a/"),
            ("//a//b", "/a/b"),
            ("/a/.", "/a/"),
            ("/a/..", "/"),
            ("/a/b/..", "/a/"),
            ("/a/b/../", "/a/"),
            ("/a/b/../c", "/a/c"),
            ("/a/../../b", "/b"),
            ("/a/...", "/a/..."),
            ("/.a/..b/c.", "/.a/..b/c."),
            ("/%61dmin/", "/admin/"),
            ("/%2561", "/%61"),
            ("/a%2Fb", "/a/b"),
            ("/a%2f%2Fb", "/a/b"),
            ("/x%2f..%2fadmin", "/admin"),
            ("/x/%2e%2E/admin", "/admin"),
            ("/%", "/%"),
            ("/%4", "/%4"),
            ("/%zz%41", "/%zzA"),
            ("/%%41", "/%A"),
            ("/a+b", "/a+b"),
            ("/a\\..\\b;c", "/a\\..\\b;c"),
        ] {
            assert_eq!(normal(path.as_bytes()), expected.as_bytes(), "{path}");
        }
    }

    #[test]
    fn a_normal_form_is_its_own_normal_form_unless_it_has_an_escape() {
        for path in ["/a/b/", "/.a", "/a..", "/\u{e9}", "/a b"] {
            assert_eq!(normal(path.as_bytes()), path.as_bytes());
        }
    }

    #[test]
    fn the_fast_path_sees_all_that_is_not_normal() {
        for path in ["//", "/.", "/..", "/a/./b", "/a/../b", "/a%41", "/a//b", "/.a"] {
            let target = Target::read(path.as_bytes());
            assert_eq!((target.path, target.normal), (Some(path.as_bytes()), false), "{path}");
        }
        for path in ["/", "/a/b", "/a.b", "/a/b.", "/a/"] {
            let target = Target::read(path.as_bytes());
            assert_eq!((target.path, target.normal), (Some(path.as_bytes()), true), "{path}");
            assert_eq!(normal(path.as_bytes()), path.as_bytes());
        }
    }

    #[test]
    fn each_form_of_a_target_has_its_parts() {
        let parts = |target: &'static str| {
            let Target { authority, path, query, .. } = Target::read(target.as_bytes());
            let text = |bytes| core::str::from_utf8(bytes).expect("the targets are text");
            (authority.map(text), path.map(text), text(query))
        };
        assert_eq!(parts("/a?b?c"), (None, Some("/a"), "b?c"));
        assert_eq!(parts("//a?b"), (None, Some("//a"), "b"));
        assert_eq!(parts("/?//."), (None, Some("/"), "//."));
        assert_eq!(parts("http://h:1/a?b"), (Some("h:1"), Some("/a"), "b"));
        assert_eq!(parts("HTTPS://h"), (Some("h"), Some("/"), ""));
        assert_eq!(parts("http://h?b/c"), (Some("h"), Some("/"), "b/c"));
        assert_eq!(parts("http://"), (Some(""), Some("/"), ""));
        for other in ["", "*", "h:443", "a/b", "http:/a", "ftp://h/"] {
            assert_eq!(parts(other), (None, None, ""), "{other}");
        }
    }
}
