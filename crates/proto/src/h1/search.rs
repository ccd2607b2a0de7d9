//! Finds the first byte of a kind, sixteen bytes at a time.

use wide::{CmpEq, CmpGt, i8x16, u8x16};

/// The number of bytes that are searched at a time.
pub(super) const BLOCK: usize = 16;
pub(super) type Block = [u8; BLOCK];

/// The position of the first byte of a kind from `pos` on, or the end. `kind` returns a bit for each byte, set if the byte is
/// of that kind; the lowest bit is for the first byte.
#[inline]
fn first(bytes: &[u8], mut pos: usize, kind: impl Fn(&Block) -> u32) -> usize {
    while let Some(block) = bytes.get(pos..).and_then(|rest| rest.first_chunk()) {
        let hits = kind(block);
        if hits != 0 {
            return pos + hits.trailing_zeros() as usize;
        }
        pos += BLOCK;
    }
    let rest = bytes.get(pos..).unwrap_or_default();
    let hits = match bytes.last_chunk() {
        // The bytes before the rest have been searched already.
        Some(block) => kind(block) >> (BLOCK - rest.len()),
        None => {
            let mut block = [0; BLOCK];
            block[..rest.len()].copy_from_slice(rest);
            kind(&block)
        }
    };
    bytes.len() - rest.len() + (hits | 1 << rest.len()).trailing_zeros() as usize
}

#[inline]
fn bits(hits: u8x16) -> u32 {
    signed(hits).move_mask() as u32
}

#[inline]
fn signed(bytes: u8x16) -> i8x16 {
    i8x16::new(bytes.to_array().map(|byte| byte as i8))
}

/// The place of the first control byte from `pos` on, or the end.
#[inline]
pub(super) fn control(bytes: &[u8], pos: usize) -> usize {
    first(bytes, pos, controls)
}

#[inline]
fn controls(block: &Block) -> u32 {
    let block = u8x16::new(*block);
    let low = block.min(u8x16::splat(0x1f)).cmp_eq(block);
    bits(low | block.cmp_eq(u8x16::splat(0x7f)))
}

/// Whether these bytes include a control byte.
#[inline]
pub(super) fn has_control(first: [u8; 8], last: [u8; 8]) -> bool {
    let both = u128::from(u64::from_le_bytes(first)) | u128::from(u64::from_le_bytes(last)) << 64;
    controls(&both.to_le_bytes()) != 0
}

/// The place of the first byte from `pos` on that is a control byte, a space or `#`, or, in a `strict` search, above 0x7F; or
/// the end.
#[inline]
pub(crate) fn target_end(bytes: &[u8], pos: usize, strict: bool) -> usize {
    let excused = i8x16::splat(if strict { 0 } else { i8::MIN });
    first(bytes, pos, |block| {
        let block = i8x16::new(block.map(|byte| byte as i8));
        // As signed numbers, the bytes from 0x80 on are also below 0x21; where they are allowed, negative numbers are excluded
        // again.
        let low = i8x16::splat(0x21).cmp_gt(block) & !(i8x16::splat(0).cmp_gt(block & excused));
        let delete = block.cmp_eq(i8x16::splat(0x7f));
        let hash = block.cmp_eq(i8x16::splat(b'#' as i8));
        (low | delete | hash).move_mask() as u32
    })
}

/// The place of the first byte from `pos` on that is not a letter, a digit, a dot or a hyphen, or the end. Nearly every host
/// name ends at this place.
#[inline]
pub(super) fn plain_host_end(bytes: &[u8], pos: usize) -> usize {
    first(bytes, pos, |block| {
        // As signed numbers, the bytes from 0x80 on are below all of these.
        let block = i8x16::new(block.map(|byte| byte as i8));
        let within = |bytes: i8x16, low: u8, high: u8| {
            bytes.cmp_gt(i8x16::splat(low as i8 - 1)) & i8x16::splat(high as i8 + 1).cmp_gt(bytes)
        };
        // The only other byte between the hyphen and the nine is the slash.
        let others = within(block, b'-', b'9') & !block.cmp_eq(i8x16::splat(b'/' as i8));
        let letters = within(block | i8x16::splat(0x20), b'a', b'z');
        !(letters | others).move_mask() as u32 & 0xffff
    })
}

/// The place of the first `?` from `pos` on and before `end`.
#[inline]
pub(super) fn question(bytes: &[u8], pos: usize, end: usize) -> Option<usize> {
    // Bytes behind a target mostly complete its last block.
    let place = first(&bytes[..bytes.len().min(end + BLOCK)], pos, |block| bits(u8x16::new(*block).cmp_eq(u8x16::splat(b'?'))));
    (place < end).then_some(place)
}

/// One bit for each colon; the lowest bit is for the first byte.
#[inline]
pub(super) fn colons(block: &Block) -> u32 {
    bits(u8x16::new(*block).cmp_eq(u8x16::splat(b':')))
}

#[cfg(test)]
mod tests {
    use std::vec;

    #[test]
    fn a_question_mark_counts_only_before_the_end() {
        for length in [1, 15, 16, 17, 40] {
            for place in 0..length {
                let mut bytes = vec![b'x'; length];
                bytes[place] = b'?';
                for end in 0..=length {
                    let found = (place < end).then_some(place);
                    assert_eq!(super::question(&bytes, 0, end), found, "{length}, {place}, {end}");
                    assert_eq!(super::question(&bytes, end, end), None);
                }
            }
        }
    }

    /// Compares the search with the plain definition: each byte at each place, in runs of several lengths, among bytes of no
    /// kind.
    fn compare(search: impl Fn(&[u8], usize) -> usize, fillers: &[u8], kind: impl Fn(u8) -> bool) {
        let lengths = [1, 7, 15, 16, 17, 32, 35];
        for (&filler, length) in fillers.iter().flat_map(|filler| lengths.map(|length| (filler, length))) {
            for place in 0..length {
                for byte in 0..=255 {
                    for behind in [filler, byte, 0, 0x7f, 0xff] {
                        let mut bytes = vec![filler; length];
                        bytes[place] = byte;
                        bytes[place + 1..].fill(behind);
                        let end = bytes.iter().position(|&byte| kind(byte)).unwrap_or(length);
                        for pos in [0, 1, end / 2, end] {
                            assert_eq!(search(&bytes, pos.min(end)), end, "{bytes:?} from {pos}");
                        }
                        assert_eq!(search(&bytes, length), length);
                    }
                }
            }
        }
    }

    #[test]
    fn searches_find_what_the_plain_definition_says() {
        compare(super::control, b"x ~\x80\xfe\xff", |byte| byte.is_ascii_control());
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'-';
        compare(super::plain_host_end, b"az09.-", move |byte| !plain(byte));
        let strict = |bytes: &[u8], pos| super::target_end(bytes, pos, true);
        compare(strict, b"/!~\"$", |byte| !byte.is_ascii_graphic() || byte == b'#');
        compare(|bytes, pos| super::question(bytes, pos, bytes.len()).unwrap_or(bytes.len()), b"x /\xbf", |byte| byte == b'?');
        let lenient = |bytes: &[u8], pos| super::target_end(bytes, pos, false);
        compare(lenient, b"/!~\x80\xff", |byte| byte.is_ascii() && (!byte.is_ascii_graphic() || byte == b'#'));
    }
}
