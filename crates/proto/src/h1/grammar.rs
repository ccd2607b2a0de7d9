//! Classes of bytes, and the ends of runs of them.

use super::search;
use oribi_message::Span;
pub(crate) use oribi_message::list::trim;

/// Allowed in a token (RFC 9110, section 5.6.2).
pub(crate) const TOKEN: u8 = 1;
/// Allowed in a host without brackets (RFC 3986, `reg-name`), except `%`, which must be followed by two hexadecimal digits, and
/// the comma, which would make the name a list for some readers.
pub(super) const NAME: u8 = 2;
/// Allowed between the brackets of an IP literal.
pub(super) const LITERAL: u8 = 4;

static CLASSES: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let byte = index as u8;
        if byte.is_ascii_alphanumeric() || contains(b"!#$%&'*+-.^_`|~", byte) {
            table[index] |= TOKEN;
        }
        if byte.is_ascii_alphanumeric() || contains(b"-._~!$&'()*+;=", byte) {
            table[index] |= NAME;
        }
        if byte.is_ascii_alphanumeric() || contains(b":.-_~", byte) {
            table[index] |= LITERAL;
        }
        index += 1;
    }
    table
}

const fn contains(set: &[u8], byte: u8) -> bool {
    let mut index = 0;
    while index < set.len() {
        if set[index] == byte {
            return true;
        }
        index += 1;
    }
    false
}

#[inline]
pub(crate) fn is(byte: u8, class: u8) -> bool {
    CLASSES[byte as usize] & class != 0
}

/// The place of the first byte from `pos` on that is not a token byte, or the end.
#[inline]
pub(crate) fn token_end(bytes: &[u8], mut pos: usize) -> usize {
    while let Some(&byte) = bytes.get(pos)
        && is(byte, TOKEN)
    {
        pos += 1;
    }
    pos
}

/// The place of the first control byte other than HTAB from `pos` on, or the end.
#[inline]
pub(super) fn value_end(bytes: &[u8], mut pos: usize) -> usize {
    loop {
        pos = search::control(bytes, pos);
        if bytes.get(pos) != Some(&b'\t') {
            return pos;
        }
        pos += 1;
    }
}

/// Whether all of `bytes` is a token; the empty string is not.
#[inline]
pub(crate) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && token_end(bytes, 0) == bytes.len()
}

/// Whether all of `bytes` is allowed in a field value.
#[inline]
pub(crate) fn is_value(bytes: &[u8]) -> bool {
    match (bytes.len(), bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        (8..16, Some(first), Some(last)) if !search::has_control(*first, *last) => true,
        (..16, ..) => bytes.iter().all(|byte| !byte.is_ascii_control() || *byte == b'\t'),
        _ => value_end(bytes, 0) == bytes.len(),
    }
}

/// Reads the decimal number that all of `bytes` spells, if it fits. No sign, no space, not empty.
#[inline]
pub(crate) fn number(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() {
        return None;
    }
    let mut value = 0u64;
    for &byte in bytes {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}

/// The bytes from `start` up to `end` without spaces and tabs around them.
#[inline]
pub(crate) fn trimmed(bytes: &[u8], mut start: usize, mut end: usize) -> Span {
    let Some(mut value) = bytes.get(start..end) else { return Span::default() };
    while let [b' ' | b'\t', rest @ ..] = value {
        value = rest;
        start += 1;
    }
    while let [rest @ .., b' ' | b'\t'] = value {
        value = rest;
        end -= 1;
    }
    Span::new(start, end)
}

/// The elements of a comma-separated list, trimmed, including empty ones.
#[inline]
pub(super) fn elements(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|&byte| byte == b',').map(trim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    #[test]
    fn values_hold_no_control_byte_but_the_tab() {
        for length in 1..40 {
            for place in 0..length {
                for byte in 0..=255u8 {
                    let mut value = vec![b'x'; length];
                    value[place] = byte;
                    assert_eq!(is_value(&value), byte == b'\t' || !byte.is_ascii_control(), "{value:?}");
                }
            }
        }
        assert!(is_value(b""));
    }

    #[test]
    fn numbers_are_plain_digits_that_fit() {
        assert_eq!(number(b"0"), Some(0));
        assert_eq!(number(b"007"), Some(7));
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        for wrong in ["", "18446744073709551616", "99999999999999999999", "+1", "-1", " 1", "1 ", "0x1", "1_0", "1,1", "a"] {
            assert_eq!(number(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
