//! Encodes the field blocks of responses (RFC 7541, section 6).
//!
//! The encoder uses the static table and literals, and has no dynamic table. So it has no state to keep for each connection, to
//! bound and to agree upon with the client, and a field costs no search among earlier fields. The price is some sixty bytes of
//! each response: a Content-Type, a Date and names such as Vary that a table would shorten to a byte each.

use super::{integer, static_table};
use alloc::vec::Vec;
use oribi_message::KnownField;

/// The first byte of the first block on a connection: the encoder's table has the size 0, so no change of
/// SETTINGS_HEADER_TABLE_SIZE needs an answer (RFC 7541, section 4.2).
pub(in crate::h2) const NO_TABLE: u8 = 0x20;

/// Literals of these indexes, without a place in the dynamic table.
const STATUS: u8 = 8;
const CONTENT_LENGTH: u8 = 28;
const FOUR_BITS: u8 = 15;

/// Appends `:status`; `digits` are those of the status.
#[inline]
pub(in crate::h2) fn status(status: u16, digits: [u8; 3], out: &mut Vec<u8>) {
    let index = match status {
        200 => 8,
        204 => 9,
        206 => 10,
        304 => 11,
        400 => 12,
        404 => 13,
        500 => 14,
        _ => {
            let [one, two, three] = digits;
            return out.extend_from_slice(&[STATUS, 3, one, two, three]);
        }
    };
    out.push(0x80 | index);
}

/// Appends a field. `known` is the well-known field of that name, which may be in any case and is a token.
#[inline]
pub(in crate::h2) fn field(name: &[u8], known: Option<KnownField>, value: &[u8], out: &mut Vec<u8>) {
    /// A longer value needs more than a byte for its length.
    const SHORT: usize = 127;
    let index = static_table::index(name, known);
    if index >= usize::from(FOUR_BITS) && value.len() < SHORT {
        out.extend_from_slice(&[FOUR_BITS, index as u8 - FOUR_BITS, value.len() as u8]);
        return out.extend_from_slice(value);
    }
    if index > 0 {
        integer::encode(index, 4, 0, out);
    } else {
        out.push(0);
        integer::encode(name.len(), 7, 0, out);
        let start = out.len();
        out.extend_from_slice(name);
        out[start..].make_ascii_lowercase();
    }
    integer::encode(value.len(), 7, 0, out);
    out.extend_from_slice(value);
}

/// Appends `content-length`.
#[inline]
pub(in crate::h2) fn content_length(length: u64, out: &mut Vec<u8>) {
    /// Nearly all responses are shorter: their field fits into eight bytes, which are copied without a call.
    const LONG: u64 = 100_000;
    const FRONT: [u8; 2] = [FOUR_BITS, CONTENT_LENGTH - FOUR_BITS];
    if length >= LONG {
        return long_content_length(length, FRONT, out);
    }
    let (mut digits, mut size, mut rest) = (0, 0, length as u32);
    loop {
        digits = digits << 8 | u64::from(b'0' + (rest % 10) as u8);
        (size, rest) = (size + 1, rest / 10);
        if rest == 0 {
            break;
        }
    }
    let [front, index] = FRONT;
    let field = digits << 24 | u64::from_le_bytes([front, index, size, 0, 0, 0, 0, 0]);
    out.extend_from_slice(&field.to_le_bytes());
    out.truncate(out.len() - usize::from(5 - size));
}

#[inline(never)]
fn long_content_length(length: u64, front: [u8; 2], out: &mut Vec<u8>) {
    /// The most decimal digits of a 64-bit number.
    const DIGITS: usize = 20;
    let mut digits = [0; DIGITS];
    let (mut place, mut rest) = (DIGITS, length);
    while rest > 0 {
        place -= 1;
        digits[place] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    out.extend_from_slice(&front);
    out.push((DIGITS - place) as u8);
    out.extend_from_slice(&digits[place..]);
}
