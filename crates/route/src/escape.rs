//! Bytes of a request as they stand in a target.

use alloc::vec::Vec;

/// Appends a decoded path.
pub fn push_path(path: &[u8], to: &mut Vec<u8>) {
    path.iter().for_each(|byte| escape(*byte, b"%?", to));
}

/// Appends a decoded path in a query, to which it can add no parameter.
pub(crate) fn push_path_in_query(path: &[u8], to: &mut Vec<u8>) {
    path.iter().for_each(|byte| escape(*byte, b"%?&=+;", to));
}

/// Appends a part of a target that is encoded already; only bytes that no target may have get an escape.
pub(crate) fn push_encoded(text: &[u8], to: &mut Vec<u8>) {
    text.iter().for_each(|byte| escape(*byte, b"", to));
}

/// Appends a value, in which each delimiter gets an escape.
pub(crate) fn push_value(value: &[u8], to: &mut Vec<u8>) {
    value.iter().for_each(|byte| escape(*byte, b"%?/&=+;:@!$'()*,[]", to));
}

/// Appends a byte, with an escape if no target may have it, or if it is one of `delimiters`.
fn escape(byte: u8, delimiters: &[u8], to: &mut Vec<u8>) {
    if byte.is_ascii_graphic() && !b"\"#<>\\^`{|}".contains(&byte) && !delimiters.contains(&byte) {
        to.push(byte);
    } else {
        const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
        to.extend_from_slice(&[b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}
