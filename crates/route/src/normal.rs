//! The forms of a target, and the normal form of its path.

use alloc::vec::Vec;
use memchr::{memchr, memchr2};

/// The authority of an absolute-form target; and path and query, which begin with a slash, unless the path of an absolute-form
/// target is empty. `None` instead of a path: the target has none.
#[inline]
pub(crate) fn split(target: &[u8]) -> (Option<&[u8]>, Option<&[u8]>) {
    if let [b'/', ..] = target { (None, Some(target)) } else { split_other_form(target) }
}

#[inline(never)]
fn split_other_form(target: &[u8]) -> (Option<&[u8]>, Option<&[u8]>) {
    let rest = [b"http://".as_slice(), b"https://"].into_iter().find_map(|scheme| {
        let (start, rest) = target.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(rest)
    });
    let Some(rest) = rest else { return (None, None) };
    let length = memchr2(b'/', b'?', rest).unwrap_or(rest.len());
    (Some(&rest[..length]), Some(&rest[length..]))
}

/// The place at which a path ends that is in its normal form, and `true`; or the first place at which it is not, and `false`.
#[inline]
pub(crate) fn plain_end(target: &[u8]) -> (usize, bool) {
    let found = |place: usize| (place, target.get(place) == Some(&b'?'));
    let Some(last) = target.last_chunk::<8>() else {
        let mut before = 0;
        for (place, &byte) in target.iter().enumerate() {
            // Most bytes are letters, which are greater than all bytes with a meaning.
            if byte <= b'?' && (matches!(byte, b'?' | b'%') || matches!(byte, b'/' | b'.') && before == b'/') {
                return found(place);
            }
            before = byte;
        }
        return (target.len(), true);
    };
    let (chunks, rest) = target.as_chunks::<8>();
    let mut slash_before = 0;
    for (index, chunk) in chunks.iter().enumerate() {
        let (special, slashes) = special(*chunk, slash_before);
        if special != 0 {
            return found(8 * index + special.trailing_zeros() as usize / 8);
        }
        slash_before = slashes >> 56;
    }
    if !rest.is_empty() {
        // The last eight bytes overlap the chunks, so the byte before them does not matter.
        let (special, _) = special(*last, 0);
        if special != 0 {
            return found(target.len() - 8 + special.trailing_zeros() as usize / 8);
        }
    }
    (target.len(), true)
}

/// The bytes that end a plain path: `?`, `%`, and a slash or a dot behind a slash; and the slashes. Each has its high bit set.
/// The lowest byte of `slash_before` has it if a slash is before the chunk.
#[inline]
fn special(chunk: [u8; 8], slash_before: u64) -> (u64, u64) {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * ONES;
    // Only behind a byte that is zero, a byte that is 1 may pass for one. Behind a slash, that is a dot; and behind the others,
    // it does not matter, because the first place counts.
    let is_zero = |word: u64| word.wrapping_sub(ONES) & !word & HIGH;
    let word = u64::from_le_bytes(chunk);
    let of = |byte: u8| is_zero(word ^ (u64::from(byte) * ONES));
    let slashes = of(b'/');
    // A dot is a slash but for the lowest bit.
    let slashes_and_dots = is_zero((word | ONES) ^ (u64::from(b'/') * ONES));
    (of(b'?') | of(b'%') | (slashes_and_dots & (slashes << 8 | slash_before)), slashes)
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
    fn the_fast_path_sees_it_at_every_place_of_paths_of_every_length() {
        for length in 1..40 {
            let plain: Vec<u8> = b"/".iter().chain(&[b'a'; 40]).copied().take(length).collect();
            assert_eq!(plain_end(&plain), (length, true));
            for place in 1..length {
                for (special, normal) in [("?", true), ("%", false), ("/", true), (".", true), ("//", false), ("/.", false)] {
                    let mut path = plain.clone();
                    path.splice(place..place, special.bytes());
                    // The first byte is a slash, too.
                    let normal = normal && (place > 1 || !matches!(special, "/" | "."));
                    let end = if special == "?" { place } else { path.len() };
                    let found = plain_end(&path);
                    assert!(found.1 == normal && (!normal || found.0 == end), "{length} {place} {special} {found:?}");
                }
            }
        }
    }

    #[test]
    fn each_form_of_a_target_has_its_parts() {
        let parts = |target: &'static str| {
            let (authority, rest) = split(target.as_bytes());
            let text = |bytes| core::str::from_utf8(bytes).expect("the targets are text");
            (authority.map(text), rest.map(text))
        };
        assert_eq!(parts("/a?b?c"), (None, Some("/a?b?c")));
        assert_eq!(parts("//a?b"), (None, Some("//a?b")));
        assert_eq!(parts("http://h:1/a?b"), (Some("h:1"), Some("/a?b")));
        assert_eq!(parts("HTTPS://h"), (Some("h"), Some("")));
        assert_eq!(parts("http://h?b/c"), (Some("h"), Some("?b/c")));
        assert_eq!(parts("http://"), (Some(""), Some("")));
        for other in ["", "*", "h:443", "a/b", "http:/a", "ftp://h/"] {
            assert_eq!(parts(other), (None, None), "{other}");
        }
    }
}
