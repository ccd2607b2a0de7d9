//! Splits a command line into words, as a shell does.

use crate::unreadable::Unreadable;
use crate::variable::of_shell;

/// A piece of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Word(String),
    /// An operator between commands: `&&`, `;`, `|`, `>`.
    Operator(String),
}

/// Splits a command line. References to variables stay references.
///
/// # Errors
/// A quote that does not end, or a part that only a shell can run.
pub(crate) fn split(line: &str) -> Result<Vec<Piece>, Unreadable> {
    let mut pieces = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = line.char_indices().peekable();
    let place = |at: usize| {
        let before = &line[..at];
        let column = before.chars().rev().take_while(|letter| *letter != '\n').count() + 1;
        (before.matches('\n').count() + 1, column)
    };
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => {
                let (_, next) = letters.next().unwrap_or((at, '\\'));
                // An escaped end of a line continues the command.
                if next != '\n' {
                    word.get_or_insert_default().push(next);
                }
            }
            '\'' | '"' => {
                let (text, ended) = quoted(letter, &mut letters);
                if !ended {
                    let (line, column) = place(at);
                    return Err(Unreadable::at(line, column, "a quote that does not end"));
                }
                word.get_or_insert_default().push_str(&text);
            }
            '`' => {
                let (line, column) = place(at);
                return Err(Unreadable::at(line, column, "a command inside of another one: write its output in its place"));
            }
            '$' if letters.peek().is_some_and(|(_, next)| *next == '(') => {
                let (line, column) = place(at);
                return Err(Unreadable::at(line, column, "a command inside of another one: write its output in its place"));
            }
            '$' => {
                let mut text = String::from('$');
                if letters.next_if(|(_, next)| *next == '{').is_some() {
                    text.push('{');
                    for (_, inside) in letters.by_ref() {
                        text.push(inside);
                        if inside == '}' {
                            break;
                        }
                    }
                } else {
                    while let Some((_, part)) = letters.next_if(|(_, next)| next.is_ascii_alphanumeric() || *next == '_') {
                        text.push(part);
                    }
                }
                word.get_or_insert_default().push_str(&of_shell(&text));
            }
            '#' if word.is_none() => while letters.next_if(|(_, letter)| *letter != '\n').is_some() {},
            ' ' | '\t' | '\r' => pieces.extend(word.take().map(Piece::Word)),
            ';' | '&' | '|' | '>' | '<' | '\n' => {
                let number = |word: &String| ['>', '<'].contains(&letter) && word.bytes().all(|byte| byte.is_ascii_digit());
                // The number of a descriptor belongs to the operator: 2>&1.
                pieces.extend(word.take().filter(|word| !number(word)).map(Piece::Word));
                let mut operator = letter.to_string();
                while let Some((_, next)) = letters.next_if(|(_, next)| letter != '\n' && ['&', '|', '>'].contains(next)) {
                    operator.push(next);
                }
                pieces.push(Piece::Operator(if operator == "\n" { ";".to_owned() } else { operator }));
            }
            other => word.get_or_insert_default().push(other),
        }
    }
    pieces.extend(word.map(Piece::Word));
    Ok(pieces)
}

/// Reads up to the end of a quote. Returns the text and whether the quote ends.
fn quoted(quote: char, letters: &mut std::iter::Peekable<std::str::CharIndices<'_>>) -> (String, bool) {
    let mut text = String::new();
    while let Some((_, letter)) = letters.next() {
        match letter {
            _ if letter == quote => return (if quote == '"' { of_shell(&text) } else { text }, true),
            '\\' if quote == '"' => {
                let (_, next) = letters.next().unwrap_or((0, '\\'));
                if !['"', '\\', '$', '`', '\n'].contains(&next) {
                    text.push('\\');
                }
                if next != '\n' {
                    text.push(next);
                }
            }
            other => text.push(other),
        }
    }
    (text, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variable::written;

    #[test]
    fn words_are_those_of_a_shell() {
        let words = |line: &str| -> Vec<String> {
            let pieces = split(line).expect("it is a command line");
            let text = |piece: &Piece| match piece {
                Piece::Word(word) => written(word),
                Piece::Operator(operator) => format!("<{operator}>"),
            };
            pieces.iter().map(text).collect()
        };
        for (line, expected) in [
            ("a  b\tc", &["a", "b", "c"][..]),
            ("a 'b \"c' \"d 'e\" f\\ g", &["a", "b \"c", "d 'e", "f g"]),
            ("a \\\n b # c", &["a", "b"]),
            ("a -p$P '$P' \"x$P\" ${P:-5 0}", &["a", "-p${P}", "$P", "x${P}", "${P:-5 0}"]),
            ("cd /x && a; b > c", &["cd", "/x", "<&&>", "a", "<;>", "b", "<>>", "c"]),
            ("a '' b", &["a", "", "b"]),
        ] {
            assert_eq!(words(line), expected, "{line}");
        }
        assert_eq!(split("a\n 'b").expect_err("no end").to_string(), "2:2: a quote that does not end");
        assert!(split("a $(b)").is_err());
    }
}
