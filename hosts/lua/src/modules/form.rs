//! Form data as browsers send it in a query and in `application/x-www-form-urlencoded` content (WHATWG URL, section 5).
//!
//! Names and values are bytes: they need not be UTF-8, and no byte is lost.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode, percent_encode};
use std::borrow::Cow;

/// The characters that are escaped: all except those that the standard leaves unchanged. A space becomes a plus.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'*').remove(b'-').remove(b'.').remove(b'_').remove(b' ');

/// The decoded pairs of a text, in order. A part without `=` is a name with an empty value.
pub fn pairs(text: &[u8]) -> impl Iterator<Item = (Cow<'_, [u8]>, Cow<'_, [u8]>)> {
    text.split(|&byte| byte == b'&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = match memchr::memchr(b'=', pair) {
            Some(at) => (&pair[..at], &pair[at + 1..]),
            None => (pair, &b""[..]),
        };
        (decode(name), decode(value))
    })
}

/// Turns plus signs into spaces and `%XX` into bytes. A broken escape stays unchanged.
#[must_use]
pub fn decode(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.contains(&b'+') {
        return percent_decode(text).into();
    }
    let spaced: Vec<u8> = text.iter().map(|&byte| if byte == b'+' { b' ' } else { byte }).collect();
    Cow::Owned(percent_decode(&spaced).collect())
}

/// Escapes a text for use in a pair, so that [`decode`] restores it.
#[must_use]
pub fn encode(text: &[u8]) -> String {
    percent_encode(text, ESCAPED).to_string().replace(' ', "+")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, String)> {
        let shown = |bytes: Cow<'_, [u8]>| bytes.escape_ascii().to_string();
        pairs(text.as_bytes()).map(|(name, value)| (shown(name), shown(value))).collect()
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn pairs_are_decoded() {
        for (text, expected) in [
            ("", vec![]),
            ("&&", vec![]),
            ("a=1&b=2", vec![pair("a", "1"), pair("b", "2")]),
            ("a=1&a=2", vec![pair("a", "1"), pair("a", "2")]),
            ("a=b=c", vec![pair("a", "b=c")]),
            ("a", vec![pair("a", "")]),
            ("=a", vec![pair("", "a")]),
            ("a+b=c%20d%2Be", vec![pair("a b", "c d+e")]),
            ("a=%zz%4&b=%", vec![pair("a", "%zz%4"), pair("b", "%")]),
            ("a=%00%ff", vec![pair("a", "\\x00\\xff")]),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn every_byte_survives() {
        let all: Vec<u8> = (0..=255).collect();
        let encoded = encode(&all);
        assert_eq!(decode(encoded.as_bytes()), all);
        assert!(encoded.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"*-._+%".contains(&byte)), "{encoded}");
        assert_eq!(encode(b"a b&c=d/\xc3\xa9"), "a+b%26c%3Dd%2F%C3%A9");
    }
}
