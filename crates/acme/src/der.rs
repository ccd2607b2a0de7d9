//! Writes the part of DER (X.690, section 8) that requests for certificates need.

pub(crate) const BOOLEAN: u8 = 0x01;
pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BITS: u8 = 0x03;
pub(crate) const OCTETS: u8 = 0x04;
pub(crate) const IDENTIFIER: u8 = 0x06;
pub(crate) const TEXT: u8 = 0x0c;
pub(crate) const UTC_TIME: u8 = 0x17;
pub(crate) const GENERALIZED_TIME: u8 = 0x18;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;

/// The tag of a constructed element with a context-specific number.
pub(crate) const fn numbered(number: u8) -> u8 {
    0xa0 | number
}

/// An element with this tag. Its content is `parts`, one after the other.
pub(crate) fn encode(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
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
pub(crate) fn encode_bits(bytes: &[u8]) -> Vec<u8> {
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
}
