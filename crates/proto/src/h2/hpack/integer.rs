//! Integers of HPACK (RFC 7541, section 5.1).

use alloc::vec::Vec;

/// The most bytes after the prefix: 28 bits exceed any valid length or index, and a number padded with zeros ends here.
const MOST_BYTES: u32 = 4;

/// Reads the integer in the lowest `prefix` bits of the byte at `pos` and in the bytes after it; moves `pos` after it.
/// `None` if the block ends first, or the number is too long.
#[inline]
pub(super) fn decode(block: &[u8], pos: &mut usize, prefix: u32) -> Option<usize> {
    let mask = u8::MAX >> (8 - prefix);
    let first = usize::from(block.get(*pos)? & mask);
    *pos += 1;
    if first < usize::from(mask) { Some(first) } else { decode_rest(block, pos, first) }
}

#[inline(never)]
fn decode_rest(block: &[u8], pos: &mut usize, first: usize) -> Option<usize> {
    let mut value = first;
    for count in 0..MOST_BYTES {
        let byte = *block.get(*pos)?;
        *pos += 1;
        value += usize::from(byte & 0x7f) << (7 * count);
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Appends an integer; `first` has the bits in front of the prefix.
#[inline]
pub(super) fn encode(value: usize, prefix: u32, first: u8, out: &mut Vec<u8>) {
    let mask = (1_usize << prefix) - 1;
    if value < mask {
        out.push(first | value as u8);
    } else {
        out.push(first | mask as u8);
        let mut rest = value - mask;
        while rest >= 0x80 {
            out.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        out.push(rest as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_of_the_specification() {
        // Appendix C.1.
        for (value, prefix, bytes) in [(10, 5, &[0b01010][..]), (1337, 5, &[0b11111, 0b1001_1010, 0b1010]), (42, 8, &[42])] {
            let mut out = Vec::new();
            encode(value, prefix, 0, &mut out);
            assert_eq!(out, bytes);
            let mut pos = 0;
            assert_eq!(decode(bytes, &mut pos, prefix), Some(value));
            assert_eq!(pos, bytes.len());
        }
    }

    #[test]
    fn every_number_is_read_as_it_was_written() {
        for prefix in 4..=7 {
            for value in (0..5000).chain((0..20).map(|bit| (1 << bit) - 1)).chain([(1 << 28) - 1]) {
                let mut out = Vec::new();
                encode(value, prefix, 0, &mut out);
                assert_eq!(decode(&out, &mut 0, prefix), Some(value));
                assert_eq!(decode(&out[..out.len() - 1], &mut 0, prefix), None, "cut");
            }
        }
    }

    #[test]
    fn numbers_that_are_too_long_are_refused() {
        assert_eq!(decode(&[0x1f, 0x80, 0x80, 0x80, 0x00], &mut 0, 5), Some(31));
        assert_eq!(decode(&[0x1f, 0x80, 0x80, 0x80, 0x80, 0x00], &mut 0, 5), None);
        assert_eq!(decode(&[0x1f, 0xff, 0xff, 0xff, 0xff, 0x0f], &mut 0, 5), None);
        assert_eq!(decode(&[], &mut 0, 5), None);
    }
}
