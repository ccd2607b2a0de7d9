//! Texts of collectors, for the log.

/// The longest text that is logged.
const LONGEST: usize = 300;

/// The beginning of a text, in one line and without what steers terminals.
pub(crate) fn printable(text: &str) -> String {
    let mut shown: String =
        text.trim().chars().take(LONGEST).map(|letter| if is_plain(letter) { letter } else { ' ' }).collect();
    if text.trim().chars().count() > LONGEST {
        shown.push_str("...");
    }
    shown
}

/// Neither a control character nor one that changes the direction of what follows.
fn is_plain(letter: char) -> bool {
    !letter.is_control() && !matches!(letter, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn nobody_forges_a_line() {
        assert_eq!(printable(" a\nb\x1b[31m\u{202e}c "), "a b [31m c");
        assert_eq!(printable(&"é".repeat(301)), format!("{}...", "é".repeat(300)));
    }
}
