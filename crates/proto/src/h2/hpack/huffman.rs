//! The Huffman code of HPACK (RFC 7541, section 5.2 and appendix B).
//!
//! The code is canonical: codes of one length are consecutive numbers in the order of their symbols, and shorter codes come
//! first. So the lengths determine the code, and the compiler builds all tables from them.

use alloc::vec::Vec;

/// The length of the code of each byte, and of the end of a string.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
     6, 10, 10, 12, 13,  6,  8, 11, 10, 10,  8, 11,  8,  6,  6,  6,
     5,  5,  5,  6,  6,  6,  6,  6,  6,  6,  7,  8, 15,  6, 12, 10,
    13,  6,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,
     7,  7,  7,  7,  7,  7,  7,  7,  8,  7,  8, 13, 19, 13, 14,  6,
    15,  5,  6,  5,  6,  5,  6,  6,  6,  5,  7,  7,  6,  6,  6,  5,
     6,  7,  6,  5,  5,  6,  7,  7,  7,  7,  7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

const SYMBOLS: usize = LENGTHS.len();
const END_OF_STRING: u16 = 256;
const LONGEST: usize = 30;

/// Codes up to this length are found with one look-up; nearly all bytes of nearly all fields have such codes.
const SHORT_BITS: usize = 10;

/// The tables for decoding.
struct Tables {
    /// For the next [`SHORT_BITS`] bits: the length of the code that they start with, and its byte. 0: the code is longer.
    short: [u16; 1 << SHORT_BITS],
    /// The first code of each length.
    first: [u32; LONGEST + 1],
    /// The number of codes of each length.
    count: [u32; LONGEST + 1],
    /// The first index in `symbols` for each length.
    start: [u16; LONGEST + 1],
    /// The symbols in the order of their codes.
    symbols: [u16; SYMBOLS],
}

static TABLES: Tables = build();

const fn build() -> Tables {
    let mut tables = Tables {
        short: [0; 1 << SHORT_BITS],
        first: [0; LONGEST + 1],
        count: [0; LONGEST + 1],
        start: [0; LONGEST + 1],
        symbols: [0; SYMBOLS],
    };
    let (mut code, mut place, mut length) = (0_u32, 0, 1);
    while length <= LONGEST {
        code <<= 1;
        tables.first[length] = code;
        tables.start[length] = place as u16;
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] as usize == length {
                if length <= SHORT_BITS {
                    let spare = SHORT_BITS - length;
                    let mut bits = 0;
                    while bits < 1 << spare {
                        tables.short[(code as usize) << spare | bits] = (length as u16) << 8 | symbol as u16;
                        bits += 1;
                    }
                }
                tables.symbols[place] = symbol as u16;
                place += 1;
                code += 1;
            }
            symbol += 1;
        }
        tables.count[length] = code - tables.first[length];
        length += 1;
    }
    // Every sequence of bits has a meaning: the last code is all ones.
    assert!(code == 1 << LONGEST);
    tables
}

/// The code that the topmost bits of `window` start with: symbol and length.
#[cold]
fn long(window: u64) -> (u16, u32) {
    let top = (window >> 32) as u32;
    let mut length = SHORT_BITS + 1;
    while length < LONGEST {
        let offset = (top >> (32 - length)).wrapping_sub(TABLES.first[length]);
        if offset < TABLES.count[length] {
            return (TABLES.symbols[TABLES.start[length] as usize + offset as usize], length as u32);
        }
        length += 1;
    }
    let offset = (top >> (32 - LONGEST)).wrapping_sub(TABLES.first[LONGEST]);
    (TABLES.symbols[TABLES.start[LONGEST] as usize + offset as usize], LONGEST as u32)
}

/// Decodes a string and appends it to `out`. `None` if it has the code for the end of strings, or does not end with up to
/// seven ones; the appended text is undefined then.
#[inline(never)]
pub(super) fn decode(input: &[u8], out: &mut Vec<u8>) -> Option<()> {
    // The shortest code has five bits.
    out.reserve(input.len() * 8 / 5 + 1);
    // The next bits of the input, the first of them topmost, and their number.
    let (mut window, mut bits) = (0_u64, 0_u32);
    let mut rest = input;
    loop {
        if let Some(word) = rest.first_chunk() {
            // Bits of a byte that fits only in part are also put into the window; the next word puts the same bits there again.
            window |= u64::from_be_bytes(*word) >> bits;
            let whole = (63 - bits) / 8;
            rest = &rest[whole as usize..];
            bits += whole * 8;
        } else {
            while let (true, [byte, behind @ ..]) = (bits <= 56, rest) {
                window |= u64::from(*byte) << (56 - bits);
                bits += 8;
                rest = behind;
            }
        }
        loop {
            let entry = TABLES.short[(window >> (64 - SHORT_BITS)) as usize];
            let length = u32::from(entry >> 8);
            if length > bits {
                break;
            }
            if length > 0 {
                out.push(entry as u8);
                window <<= length;
                bits -= length;
                continue;
            }
            let (symbol, length) = long(window);
            if length > bits {
                break;
            }
            if symbol == END_OF_STRING {
                return None;
            }
            out.push(symbol as u8);
            window <<= length;
            bits -= length;
        }
        if rest.is_empty() {
            let is_padding = bits < 8 && window >> 56 == (0xff << (8 - bits) & 0xff);
            return is_padding.then_some(());
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::vec;

    /// Encodes by the definition, bit by bit.
    pub(in crate::h2::hpack) fn encode(text: &[u8]) -> Vec<u8> {
        let mut bits = Vec::new();
        for &byte in text {
            let length = usize::from(LENGTHS[usize::from(byte)]);
            let place = TABLES.symbols.iter().position(|&symbol| symbol == u16::from(byte)).expect("a code");
            let code = TABLES.first[length] + (place as u32 - u32::from(TABLES.start[length]));
            bits.extend((0..length).rev().map(|bit| code >> bit & 1 == 1));
        }
        while bits.len() % 8 > 0 {
            bits.push(true);
        }
        bits.chunks(8).map(|byte| byte.iter().fold(0, |byte, &bit| byte << 1 | u8::from(bit))).collect()
    }

    fn decoded(input: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        decode(input, &mut out).map(|()| out)
    }

    #[test]
    fn codes_are_those_of_the_appendix() {
        for (byte, code) in [
            (b'0', &[0b0000_0111][..]),
            (b't', &[0b0100_1111]),
            (b' ', &[0b0101_0011]),
            (b':', &[0b1011_1001]),
            (b'&', &[0xf8]),
            (b'!', &[0xfe, 0x3f]),
            (0, &[0xff, 0xc7]),
            (b'\\', &[0xff, 0xfe, 0x1f]),
            (b'\n', &[0xff, 0xff, 0xff, 0xf3]),
            (b'\r', &[0xff, 0xff, 0xff, 0xf7]),
            (22, &[0xff, 0xff, 0xff, 0xfb]),
            (249, &[0xff, 0xff, 0xff, 0xef]),
            (255, &[0xff, 0xff, 0xfb, 0xbf]),
        ] {
            assert_eq!(encode(&[byte]), code, "{byte}");
            assert_eq!(decoded(code), Some(vec![byte]), "{byte}");
        }
    }

    #[test]
    fn every_text_is_read_as_it_was_written() {
        for first in 0..=255 {
            for second in 0..=255 {
                let text = [first, second, b'a', first];
                assert_eq!(decoded(&encode(&text)).as_deref(), Some(&text[..]));
            }
        }
        for length in 0..200 {
            let text = (0..length).map(|place| (place * 37 + length) as u8).collect::<Vec<_>>();
            assert_eq!(decoded(&encode(&text)).as_deref(), Some(&text[..]));
            let text = (0..length).map(|place| b"aeiost012%-./"[place % 13]).collect::<Vec<_>>();
            assert_eq!(decoded(&encode(&text)).as_deref(), Some(&text[..]));
        }
    }

    #[test]
    fn padding_is_up_to_seven_ones() {
        // `a` is 00011.
        assert_eq!(decoded(&[0b0001_1111]), Some(vec![b'a']));
        assert_eq!(decoded(&[]), Some(vec![]));
        for bad in [
            &[0b0001_1110][..],
            &[0b0001_1011],
            &[0b0001_1111, 0xff],
            &[0xff],
            &[0xff, 0xff],
            &[0xff, 0xff, 0xff],
            // The end of a string.
            &[0xff, 0xff, 0xff, 0xff],
            &[0xff, 0xff, 0xff, 0xfc],
            &[0b0001_1111, 0xff, 0xff, 0xff, 0xff],
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
            // A long code, cut off.
            &[0xff, 0xff, 0xfb],
        ] {
            assert_eq!(decoded(bad), None, "{bad:x?}");
        }
        // The padding of a text whose last code ends with a byte is empty, and a byte of ones is too much.
        let full = encode(b"&");
        assert_eq!(full.len(), 1);
        assert_eq!(decoded(&[&full[..], &[0xff]].concat()), None);
    }
}
