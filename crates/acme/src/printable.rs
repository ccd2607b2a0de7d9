//! Texts of others, for the log.

/// The longest text of others that is logged.
const LONGEST: usize = 400;

/// The beginning of `text`, without what could pretend to be another line, or steer a terminal.
pub(crate) fn printable(text: &str) -> String {
    let mut shown: String = text.chars().take(LONGEST).map(|letter| if is_plain(letter) { letter } else { ' ' }).collect();
    if text.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}

/// Neither a control character nor one that changes the direction of what follows.
fn is_plain(letter: char) -> bool {
    !letter.is_control() && !matches!(letter, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_pretends_to_be_another_line() {
        assert_eq!(printable("a\nb\x1b[31m\u{202e}c"), "a b [31m c");
        assert_eq!(printable(&"é".repeat(401)).chars().count(), 401);
    }
}
