//! The forms of a request target (RFC 9112, section 3.2) and the syntax of a host (RFC 3986, section 3.2).

use super::{Refusal, grammar, search};
use memchr::memchr2;
use oribi_message::{HeadLayout, Span, TargetForm};

/// Lays out the parts of the target.
pub(crate) fn lay_out(input: &[u8], layout: &mut HeadLayout) -> Result<(), Refusal> {
    let method = layout.method.of(input);
    let target = layout.target.of(input);
    let (first, end) = (layout.target.start as usize, layout.target.end as usize);
    layout.authority = None;
    layout.https = false;
    let path = if method == b"CONNECT" {
        return Err(Refusal::METHOD_CONNECT);
    } else if target.first() == Some(&b'/') {
        layout.form = TargetForm::Origin;
        first
    } else if target == b"*" {
        if method != b"OPTIONS" {
            return Err(Refusal::TARGET_FORM);
        }
        layout.form = TargetForm::Asterisk;
        first
    } else {
        let scheme = scheme_length(target).ok_or(Refusal::TARGET_FORM)?;
        let rest = &target[scheme..];
        let length = memchr2(b'/', b'?', rest).unwrap_or(rest.len());
        // An http URI without a host is invalid (RFC 9110, section 4.2.1).
        let authority = Span::new(first + scheme, first + scheme + length);
        if !is_authority(input, authority) || matches!(rest[..length], [] | [b':', ..]) {
            return Err(Refusal::TARGET_AUTHORITY);
        }
        layout.form = TargetForm::Absolute;
        layout.https = scheme == b"https://".len();
        layout.authority = Some(authority);
        first + scheme + length
    };
    let question = search::question(input, path, end);
    layout.path = Span::new(path, question.unwrap_or(end));
    layout.query = question.map(|question| Span::new(question + 1, end));
    Ok(())
}

/// The length of a leading `http://` or `https://`; schemes are case-insensitive.
fn scheme_length(target: &[u8]) -> Option<usize> {
    [b"http://".as_slice(), b"https://"]
        .into_iter()
        .find(|scheme| target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)))
        .map(<[u8]>::len)
}

/// Whether this is a host with an optional port, or empty: the valid values of Host and of the part after `http://`. User
/// information, legal in RFC 3986, is refused (RFC 9110, section 4.2.4).
#[must_use]
pub fn is_authority(head: &[u8], place: Span) -> bool {
    let bytes = place.of(head);
    let plain = search::plain_host_end(head, place.start as usize) - place.start as usize;
    // Nearly every host is plain.
    match bytes.get(plain..) {
        None | Some([]) => true,
        Some([b':', port @ ..]) => is_port(port),
        Some(_) => is_unusual_authority(bytes),
    }
}

#[inline(never)]
fn is_unusual_authority(bytes: &[u8]) -> bool {
    let host_end = if let [b'[', rest @ ..] = bytes {
        let length = rest.iter().take_while(|&&byte| grammar::is(byte, grammar::LITERAL)).count();
        if length == 0 || rest.get(length) != Some(&b']') {
            return false;
        }
        length + 2
    } else {
        let mut end = 0;
        loop {
            match bytes[end..] {
                [byte, ..] if grammar::is(byte, grammar::NAME) => end += 1,
                [b'%', a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => end += 3,
                _ => break end,
            }
        }
    };
    match bytes[host_end..] {
        [] => true,
        [b':', ref port @ ..] => is_port(port),
        _ => false,
    }
}

/// Whether this is a port, or empty.
#[inline]
fn is_port(digits: &[u8]) -> bool {
    const LARGEST: &[u8; 5] = b"65535";
    // Digits of equal length compare as the numbers that they spell.
    digits.iter().all(u8::is_ascii_digit)
        && (digits.len() < LARGEST.len() || digits.len() == LARGEST.len() && digits <= LARGEST)
}

#[cfg(test)]
mod tests {
    use oribi_message::Span;

    fn is_authority(bytes: &[u8]) -> bool {
        let alone = super::is_authority(bytes, Span::new(0, bytes.len()));
        let line = [b"Host: ", bytes, b"\r\n\r\n"].concat();
        assert_eq!(super::is_authority(&line, Span::new(6, 6 + bytes.len())), alone, "{line:?}");
        alone
    }

    #[test]
    fn authorities() {
        for good in [
            "",
            "a",
            "localhost:5000",
            "a.b-c_d~e",
            "127.0.0.1:0",
            "[::1]",
            "[::1]:65535",
            "[v1.x]",
            "a:",
            "%41%c3:80",
            "a!$&'()*+;=",
        ] {
            assert!(is_authority(good.as_bytes()), "{good}");
        }
        for bad in [
            "a,b",
            "u@a",
            "a b",
            "a:b",
            "a:65536",
            "a:000001",
            "a:+1",
            "a:1:2",
            "::1",
            "[",
            "[]",
            "[::1",
            "[::1]x",
            "[::1]:x",
            "[a/b]",
            "a/b",
            "%4",
            "%zz",
            "%",
            "a\u{e9}",
            "a\\b",
            "a\"",
            "<a>",
            "a#",
            "a?",
            "[::1%eth0]",
        ] {
            assert!(!is_authority(bad.as_bytes()), "{bad}");
        }
    }
}
