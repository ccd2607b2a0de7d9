//! The characters that are harmless in a log or on a terminal.

/// Whether a character is neither a control character, nor the end of a line, nor a character that changes the direction in
/// which its neighbours are read (Unicode Standard Annex 9), and so could make a text look like another one.
#[must_use]
pub fn is_plain(letter: char) -> bool {
    match letter {
        ' '..='~' => true,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => false,
        _ => !letter.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn what_steers_is_not_plain() {
        let steering = (0..=0x10_ffff).filter_map(char::from_u32).filter(|letter| !is_plain(*letter) && !letter.is_control());
        let marks: Vec<u32> = steering.map(u32::from).collect();
        let expected = [0x61c, 0x200e, 0x200f].into_iter().chain(0x2028..=0x202e).chain(0x2066..=0x2069);
        assert_eq!(marks, expected.collect::<Vec<_>>());
    }
}
