//! The line of a place, for a message.

use crate::finding::Excerpt;
use crate::source::Source;
use oribi_config::{is_secret_name, masked};
use std::ops::Range;

/// The placeholder for a secret.
const MASK: &str = "***";

/// The longest line that is shown, in bytes. A secret in a cut line could not be recognized, so a longer line is left out.
const LONGEST: usize = 4096;

/// The most characters of a line before and after the place.
const AROUND: usize = 60;

/// The line that an offset is in. `parsed`: the secrets of the file are known; otherwise a line that may be a part of one is
/// hidden.
pub(crate) fn excerpt(source: &Source, offset: usize, parsed: bool) -> Option<Excerpt> {
    let line = source.line(offset);
    if line.len() > LONGEST || offset > source.text().len() {
        return None;
    }
    let hidden = if parsed { Vec::new() } else { Vec::from_iter(suspects(source, &line)) };
    let secrets = source.secrets.iter().filter(|secret| secret.start < line.end && secret.end > line.start).cloned();
    let (text, caret) = without(source.text(), &line, secrets.chain(hidden), offset.min(line.end));
    let shown = masked(&text);
    let caret = moved(&text, &shown, caret);
    Some(cut(&shown, caret))
}

/// The line with a mask in place of each secret, and the characters before the offset.
fn without(text: &str, line: &Range<usize>, secrets: impl Iterator<Item = Range<usize>>, offset: usize) -> (String, usize) {
    let mut secrets: Vec<_> = secrets.map(|secret| secret.start.max(line.start)..secret.end.min(line.end)).collect();
    secrets.sort_by_key(|secret| secret.start);
    let (mut shown, mut caret, mut at) = (String::new(), None, line.start);
    for secret in secrets {
        if secret.start < at {
            continue;
        }
        let before = &text[at..secret.start];
        if offset < secret.start {
            caret = caret.or_else(|| Some(shown.chars().count() + text.get(at..offset)?.chars().count()));
        }
        shown.push_str(before);
        if offset < secret.end {
            caret = caret.or_else(|| Some(shown.chars().count()));
        }
        shown.push_str(MASK);
        at = secret.end;
    }
    let caret = caret.or_else(|| Some(shown.chars().count() + text.get(at..offset)?.chars().count()));
    shown.push_str(&text[at..line.end]);
    (shown, caret.unwrap_or(0))
}

/// The parts of a line that may be secret in a file that cannot be parsed: the value of a key such as `password`, a later line
/// of such a value, and everything in a text of several lines.
fn suspects(source: &Source, line: &Range<usize>) -> Option<Range<usize>> {
    let (before, text) = (&source.text()[..line.start], &source.text()[line.clone()]);
    let whole = Some(line.clone());
    if ["\"\"\"", "'''"].iter().any(|quotes| before.matches(quotes).count() % 2 == 1) {
        return whole;
    }
    let mut start = 0;
    for part in text.split_inclusive('=') {
        start += part.len();
        if part.ends_with('=') && is_secret_name(part) {
            return Some(line.start + start..line.end).filter(|secret| !secret.is_empty());
        }
    }
    let has_key = |line: &str| line.contains('=') || line.trim_start().starts_with('[');
    let secret_key = |line: &&str| line.split_inclusive('=').any(|part| part.ends_with('=') && is_secret_name(part));
    let last = before.lines().rev().find(|line| has_key(line));
    // A line without a key of its own continues the value of the last one.
    if text.contains('=') { None } else { last.filter(secret_key).and(whole) }
}

/// The characters before a place after a part of the text was replaced.
fn moved(before: &str, after: &str, caret: usize) -> usize {
    if before == after {
        return caret;
    }
    let same = before.chars().zip(after.chars()).take_while(|(left, right)| left == right).count();
    let (length, length_after) = (before.chars().count(), after.chars().count());
    let behind = before.chars().rev().zip(after.chars().rev()).take_while(|(left, right)| left == right).count();
    match caret {
        caret if caret <= same => caret,
        caret if length - caret.min(length) <= behind => length_after - (length - caret.min(length)),
        _ => same,
    }
}

/// The characters around the place.
fn cut(text: &str, caret: usize) -> Excerpt {
    let plain = |letter: char| match letter {
        '\t' => ' ',
        letter if letter.is_control() => '\u{fffd}',
        letter => letter,
    };
    let start = caret.saturating_sub(AROUND);
    let before = if start > 0 { "..." } else { "" };
    let mut line: String = before.chars().chain(text.chars().map(plain).skip(start).take(2 * AROUND)).collect();
    if text.chars().nth(start + 2 * AROUND).is_some() {
        line.push_str("...");
    }
    Excerpt { line: line.trim_end().to_owned(), caret: caret - start + before.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The excerpt at `|` in a text, in which the parts between `<` and `>` are secret.
    fn shown(marked: &str, parsed: bool) -> (String, usize) {
        let (mut text, mut secrets, mut offset) = (String::new(), Vec::new(), 0);
        for letter in marked.chars() {
            match letter {
                '|' => offset = text.len(),
                '<' => secrets.push(text.len()..text.len()),
                '>' => secrets.last_mut().expect("it is open").end = text.len(),
                letter => text.push(letter),
            }
        }
        let (mut source, _) = Source::new(0, "oribi.toml", text.as_bytes());
        source.secrets = secrets;
        let Excerpt { line, caret } = excerpt(&source, offset, parsed).expect("the line is short");
        (line, caret)
    }

    #[test]
    fn secrets_are_masked_and_the_caret_stays_at_its_character() {
        for (text, line, caret) in [
            ("a = |1", "a = 1", 4),
            ("|password = <'x'>", "password = ***", 0),
            ("password = <|'x'>", "password = ***", 11),
            ("password = <'|x'>", "password = ***", 11),
            ("{ password = <'x'>, b = |1 }", "{ password = ***, b = 1 }", 22),
            ("k = <'''a\n|b\nc'''>", "***", 0),
            ("k = <'''a\nb\nc'''>, d = |1", "***, d = 1", 9),
            ("url = 'http://me:hunter2@host/', b = |1", "url = 'http://***@host/', b = 1", 30),
            ("url = 'http://me:hun|ter2@host/'", "url = 'http://***@host/'", 14),
            ("\ta\u{1b} = |1", " a\u{fffd} = 1", 6),
            ("a = 1|", "a = 1", 5),
            ("a = 1|\r\nb", "a = 1", 5),
        ] {
            assert_eq!(shown(text, true), (line.to_owned(), caret), "{text}");
        }
    }

    #[test]
    fn a_file_that_is_no_toml_shows_no_secret_either() {
        for (text, line) in [
            ("password = |hunter2", "password =***"),
            ("a = 1, password = |hunter2", "a = 1, password =***"),
            ("tokens = [\n  |hunter2\n", "***"),
            ("password = '''\nuser = root\n|hunter2 \\q\n'''", "***"),
            ("tokens = [ 1 ]\na = |b", "a = b"),
            ("tokens = [ 1 ]\n|b", "***"),
            ("a = |b", "a = b"),
            ("a = [\n|b", "b"),
        ] {
            assert_eq!(shown(text, false).0, line, "{text}");
        }
    }

    #[test]
    fn a_long_line_is_cut() {
        let (line, caret) = shown(&format!("{}|b{}", "a ".repeat(100), " c".repeat(100)), true);
        assert_eq!(line.chars().nth(caret), Some('b'));
        assert!(line.starts_with("...") && line.ends_with("...") && line.len() < 140, "{line}");
        let (source, _) = Source::new(0, "oribi.toml", "a".repeat(LONGEST + 1).as_bytes());
        assert_eq!(excerpt(&source, 0, true), None);
    }
}
