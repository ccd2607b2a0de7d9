//! Which byte may stand where, and how far a run of such bytes goes.
//!
//! Runs are searched eight bytes at a time in a `u64` where that pays. In all of these searches a byte's top bit is set when
//! it ends the run; a borrow out of such a byte may set the bit of a byte behind it as well, but never of one before it, so
//! the lowest bit set is always right.

/// May stand in a token (RFC 9110, section 5.6.2).
pub(super) const TOKEN: u8 = 1;
/// May stand in a host without brackets (RFC 3986, `reg-name`), but for `%`, which needs two hexadecimal digits behind it.
/// Without the comma, which would make the name a list to some reader.
pub(super) const NAME: u8 = 2;
/// May stand between the brackets of an IP literal.
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
pub(super) fn is(byte: u8, class: u8) -> bool {
    CLASSES[byte as usize] & class != 0
}

/// `byte` in each of the eight places.
const fn every(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

const TOP: u64 = every(0x80);

/// The place of the first byte from `pos` on that is no token byte, or the end.
#[inline]
pub(super) fn token_end(bytes: &[u8], mut pos: usize) -> usize {
    while let Some(&byte) = bytes.get(pos)
        && is(byte, TOKEN)
    {
        pos += 1;
    }
    pos
}

/// The place of the first byte from `pos` on that may not stand in a target, or the end: anything but visible ASCII, and `#`.
#[inline]
pub(super) fn target_end(bytes: &[u8], mut pos: usize) -> usize {
    while let Some(chunk) = bytes.get(pos..).and_then(<[u8]>::first_chunk::<8>) {
        let x = u64::from_le_bytes(*chunk);
        let ends = x.wrapping_sub(every(0x21)) | x.wrapping_add(every(1)) | x | (x ^ every(b'#')).wrapping_sub(every(1));
        if ends & TOP != 0 {
            return pos + (ends & TOP).trailing_zeros() as usize / 8;
        }
        pos += 8;
    }
    while let Some(&byte) = bytes.get(pos)
        && byte.is_ascii_graphic()
        && byte != b'#'
    {
        pos += 1;
    }
    pos
}

/// The place of the first control byte other than HTAB from `pos` on, or the end.
#[inline]
pub(super) fn value_end(bytes: &[u8], mut pos: usize) -> usize {
    while let Some(chunk) = bytes.get(pos..).and_then(<[u8]>::first_chunk::<8>) {
        let x = u64::from_le_bytes(*chunk);
        let ends = controls(x);
        if ends == 0 {
            pos += 8;
            continue;
        }
        pos += ends.trailing_zeros() as usize / 8;
        if bytes[pos] != b'\t' {
            return pos;
        }
        pos += 1;
    }
    while let Some(&byte) = bytes.get(pos)
        && !(byte.is_ascii_control() && byte != b'\t')
    {
        pos += 1;
    }
    pos
}

/// Sets the top bit of the first control byte (HTAB counts as one here).
#[inline]
const fn controls(x: u64) -> u64 {
    (x.wrapping_sub(every(0x20)) | (x & !TOP).wrapping_add(every(1))) & !x & TOP
}

/// Whether all of `bytes` is a token; the empty string is none.
#[inline]
pub(super) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && token_end(bytes, 0) == bytes.len()
}

/// Whether all of `bytes` may stand in a field value.
#[inline]
pub(super) fn is_value(bytes: &[u8]) -> bool {
    value_end(bytes, 0) == bytes.len()
}

/// The decimal number that all of `bytes` spells, if it fits. No sign, no space, not empty.
#[inline]
pub(super) fn number(bytes: &[u8]) -> Option<u64> {
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

/// `bytes` without spaces and tabs around it.
#[inline]
pub(super) fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

/// The elements of a comma-separated list, trimmed; empty ones are given too.
#[inline]
pub(super) fn elements(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|&byte| byte == b',').map(trim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    /// Each byte at each place of runs of several lengths, against the plain definition.
    fn compare(end: fn(&[u8], usize) -> usize, filler: u8, may: fn(u8) -> bool) {
        for length in [1, 7, 8, 9, 16, 19] {
            for place in 0..length {
                for byte in 0..=255 {
                    let mut bytes = vec![filler; length];
                    bytes[place] = byte;
                    let wanted = bytes.iter().position(|&byte| !may(byte)).unwrap_or(length);
                    assert_eq!(end(&bytes, 0), wanted, "{bytes:?}");
                    assert_eq!(end(&bytes, wanted.min(3)), wanted, "{bytes:?}");
                }
            }
        }
    }

    #[test]
    fn runs_end_where_the_plain_definition_says() {
        compare(target_end, b'/', |byte| (0x21..0x7f).contains(&byte) && byte != b'#');
        compare(value_end, b'x', |byte| byte == b'\t' || (byte >= 0x20 && byte != 0x7f));
        compare(value_end, 0xff, |byte| byte == b'\t' || (byte >= 0x20 && byte != 0x7f));
        compare(value_end, b'\t', |byte| byte == b'\t' || (byte >= 0x20 && byte != 0x7f));
        compare(token_end, b'x', |byte| byte.is_ascii_graphic() && !b"\"(),/:;<=>?@[\\]{}".contains(&byte));
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
