//! Masks of frames (RFC 6455, section 5.3).

/// Applies `mask` to `bytes`, whose first byte is masked by the mask's first one. The same again undoes it.
pub(crate) fn apply(bytes: &mut [u8], mask: [u8; 4]) {
    let word = u64::from_ne_bytes([mask[0], mask[1], mask[2], mask[3], mask[0], mask[1], mask[2], mask[3]]);
    let mut words = bytes.chunks_exact_mut(8);
    for chunk in &mut words {
        let masked = u64::from_ne_bytes([chunk[0], chunk[1], chunk[2], chunk[3], chunk[4], chunk[5], chunk[6], chunk[7]]);
        chunk.copy_from_slice(&(masked ^ word).to_ne_bytes());
    }
    for (byte, mask) in words.into_remainder().iter_mut().zip(mask.iter().cycle()) {
        *byte ^= mask;
    }
}

/// The mask for the bytes after the first `count` ones.
pub(crate) fn after(mut mask: [u8; 4], count: usize) -> [u8; 4] {
    mask.rotate_left(count % 4);
    mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_masked_as_in_the_whole() {
        let mask = [0x37, 0xfa, 0x21, 0x3d];
        for length in 0..40_usize {
            let plain: Vec<u8> = (0..length as u8).collect();
            let expected: Vec<u8> = plain.iter().enumerate().map(|(index, byte)| byte ^ mask[index % 4]).collect();
            for split in 0..=length {
                let mut bytes = plain.clone();
                let (first, second) = bytes.split_at_mut(split);
                apply(first, mask);
                apply(second, after(mask, split));
                assert_eq!(bytes, expected, "{length} bytes, split at {split}");
            }
        }
    }
}
