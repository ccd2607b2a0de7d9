//! Makes foreign texts, such as those of authorities, collectors and clients, safe for logs and terminals.

use oribi_message::is_plain;

/// The most characters of a foreign text that are kept.
const LONGEST: usize = 400;

/// Returns the beginning of `text`, in one line and without control characters.
#[must_use]
pub fn printable(text: &str) -> String {
    let mut letters = text.trim().chars();
    let mut shown: String = letters.by_ref().take(LONGEST).map(|letter| if is_plain(letter) { letter } else { ' ' }).collect();
    if letters.next().is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_pretends_to_be_another_line() {
        assert_eq!(printable(" a\nb\x1b[31m\u{202e}c "), "a b [31m c");
        assert_eq!(printable(&"é".repeat(400)), "é".repeat(400));
        assert_eq!(printable(&"é".repeat(401)), format!("{}…", "é".repeat(400)));
    }
}
