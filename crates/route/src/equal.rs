//! Compares short texts without a call.

/// Whether two texts are equal. Texts of up to 16 bytes, which most hosts and parts of paths are, are compared as two numbers that
/// may overlap: a call of `memcmp` costs more.
#[inline]
pub(crate) fn equal(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    if one.len() > 16 {
        return one == other;
    }
    match (one.first_chunk::<8>(), other.first_chunk::<8>(), one.last_chunk::<8>(), other.last_chunk::<8>()) {
        (Some(one_first), Some(other_first), Some(one_last), Some(other_last)) => {
            one_first == other_first && one_last == other_last
        }
        _ => match (one.first_chunk::<4>(), other.first_chunk::<4>(), one.last_chunk::<4>(), other.last_chunk::<4>()) {
            (Some(one_first), Some(other_first), Some(one_last), Some(other_last)) => {
                one_first == other_first && one_last == other_last
            }
            _ => one.iter().zip(other).all(|(one, other)| one == other),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_equal_if_no_byte_differs() {
        for length in 0..40 {
            let text = [b'a'; 40];
            assert!(equal(&text[..length], &text[..length]));
            assert!(!equal(&text[..length], &text[..length + 1]));
            for place in 0..length {
                let mut other = text;
                other[place] = b'b';
                assert!(!equal(&text[..length], &other[..length]), "{length} {place}");
            }
        }
    }
}
