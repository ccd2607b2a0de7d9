//! Reads and writes the part of DER (X.690, section 8) that certificates and requests for them need. The constants are tags.

/// A truth value.
pub const BOOLEAN: u8 = 0x01;
/// A whole number.
pub const INTEGER: u8 = 0x02;
/// A bit string.
pub const BITS: u8 = 0x03;
/// Any bytes.
pub const OCTETS: u8 = 0x04;
/// An object identifier.
pub const IDENTIFIER: u8 = 0x06;
/// A text in UTF-8.
pub const TEXT: u8 = 0x0c;
/// A time whose year has two digits.
pub const UTC_TIME: u8 = 0x17;
/// A time whose year has four digits.
pub const GENERALIZED_TIME: u8 = 0x18;
/// Elements in order.
pub const SEQUENCE: u8 = 0x30;
/// Elements in any order.
pub const SET: u8 = 0x31;

/// The tag of a constructed element with a context-specific number.
#[must_use]
pub const fn numbered(number: u8) -> u8 {
    0xa0 | number
}

/// The content of the first element, if it has this tag, and the bytes after it.
pub(crate) fn expect(tag: u8, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    element(bytes).filter(|(found, _, _)| *found == tag).map(|(_, content, behind)| (content, behind))
}

/// The first element: its tag, its content, and the bytes after it.
pub(crate) fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = bytes.split_first_chunk::<2>()?;
    let (size, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x83 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0, |size, &digit| size << 8 | usize::from(digit)), rest)
        }
        _ => return None,
    };
    let (content, behind) = rest.split_at_checked(size)?;
    Some((tag, content, behind))
}

/// An element with this tag. Its content is `parts`, one after the other.
#[must_use]
pub fn encode(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let size: usize = parts.iter().map(|part| part.len()).sum();
    let mut bytes = vec![tag];
    match size {
        0..=0x7f => bytes.push(size as u8),
        _ => {
            let digits = size.to_be_bytes();
            let digits = &digits[size.leading_zeros() as usize / 8..];
            bytes.push(0x80 | digits.len() as u8);
            bytes.extend_from_slice(digits);
        }
    }
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
    bytes
}

/// A bit string of whole bytes.
#[must_use]
pub fn encode_bits(bytes: &[u8]) -> Vec<u8> {
    encode(BITS, &[&[0], bytes])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_as_few_digits_as_they_need() {
        for (size, head) in [
            (0, &[4, 0][..]),
            (127, &[4, 127]),
            (128, &[4, 0x81, 128]),
            (255, &[4, 0x81, 255]),
            (256, &[4, 0x82, 1, 0]),
            (65_536, &[4, 0x83, 1, 0, 0]),
        ] {
            let bytes = encode(OCTETS, &[&vec![7; size]]);
            assert_eq!((&bytes[..head.len()], bytes.len()), (head, head.len() + size));
        }
    }

    #[test]
    fn elements_that_are_written_are_read() {
        for size in [0, 127, 128, 255, 256, 65_535, 65_536, (1 << 24) - 1] {
            let content = vec![7; size];
            let written = [&encode(SEQUENCE, &[&content[..size / 3], &content[size / 3..]])[..], b"behind"].concat();
            assert_eq!(element(&written), Some((SEQUENCE, &content[..], &b"behind"[..])), "{size}");
            assert_eq!(expect(SEQUENCE, &written), Some((&content[..], &b"behind"[..])), "{size}");
            assert_eq!(expect(SET, &written), None, "{size}");
        }
        assert_eq!(encode_bits(b"ab"), [BITS, 3, 0, b'a', b'b']);
        // No certificate is as large, and one without a size is not DER.
        for wrong in
            [&[][..], &[SEQUENCE], &[SEQUENCE, 1], &[SEQUENCE, 0x81], &[SEQUENCE, 0x80, 0, 0], &[SEQUENCE, 0x84, 0, 0, 0, 0]]
        {
            assert_eq!(element(wrong), None, "{wrong:?}");
        }
    }
}
