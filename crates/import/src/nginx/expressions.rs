//! Expressions of PCRE as those of routes, which have no look-around.

use super::letters::meaningful;
use oribi_route::{FieldLines, RequestView, Rule, Scheme, Scratch, Table};
use std::collections::BTreeSet;

/// The most letters of a word that an expression excludes.
const MOST: usize = 40;

/// An expression of a location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Translated {
    /// The same texts fit.
    Same(String),
    /// More texts fit.
    Wider(String),
    Unknown,
}

/// The expression of a route that fits the same texts, or at least these.
pub(super) fn translated(expression: &str) -> Translated {
    if compiles(expression) {
        return Translated::Same(expression.to_owned());
    }
    if let Some(made) = without_words(expression).filter(|made| compiles(made)) {
        return Translated::Same(made);
    }
    match without_assertions(expression) {
        Some(wider) if compiles(&wider) => Translated::Wider(wider),
        _ => Translated::Unknown,
    }
}

/// The expression with each `$` as PCRE takes it: it fits before a line feed at the end, too.
pub(super) fn with_line_feed(expression: &str) -> String {
    let (mut made, mut is_class) = (String::new(), false);
    let mut letters = expression.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => {
                made.push(letter);
                made.extend(letters.next());
                continue;
            }
            '[' => is_class = true,
            ']' => is_class = false,
            '$' if !is_class => made.push_str("\\n?"),
            _ => {}
        }
        made.push(letter);
    }
    made
}

/// An expression for paths.
pub(super) struct Expression(Option<Table>);

impl Expression {
    pub fn new(expression: &str) -> Self {
        Self(Table::compile(&[Rule { path: vec![format!("~{expression}")], ..Rule::default() }]).ok())
    }

    /// Whether a path fits; yes if the expression is none.
    pub fn fits(&self, path: &str) -> bool {
        let Some(table) = &self.0 else { return true };
        let request = RequestView {
            method: b"GET",
            scheme: Scheme::Http,
            host: None,
            target: path.as_bytes(),
            source: None,
            destination: None,
            fields: FieldLines::Pairs(&[]),
        };
        table.choose(&request, &mut Scratch::default()).rule.is_some()
    }
}

fn compiles(expression: &str) -> bool {
    Expression::new(expression).0.is_some()
}

/// An expression that ends with `(?!WORD|WORD)`, with the letters that may follow in place of it.
fn without_words(expression: &str) -> Option<String> {
    let (head, rest) = expression.split_once("(?!")?;
    let rest = ["", ".*", ".*$"].iter().find_map(|end| rest.strip_suffix(end)?.strip_suffix(')'))?;
    let rest = rest.strip_prefix('(').and_then(|inside| inside.strip_suffix(')')).unwrap_or(rest);
    let words: Option<BTreeSet<String>> = rest.split('|').map(word).collect();
    Some(format!("{head}{}", others(&words?)))
}

/// The text of an expression that is a plain text, and not long.
fn word(expression: &str) -> Option<String> {
    let mut text = String::new();
    let mut letters = expression.chars();
    while let Some(letter) = letters.next() {
        text.push(match letter {
            '\\' => letters.next().filter(char::is_ascii_punctuation)?,
            letter if letter.is_ascii_alphanumeric() || "/-_".contains(letter) => letter,
            _ => return None,
        });
    }
    (1..=MOST).contains(&text.len()).then_some(text)
}

/// The expression for texts that begin with none of the words.
fn others(words: &BTreeSet<String>) -> String {
    let first: BTreeSet<char> = words.iter().filter_map(|word| word.chars().next()).collect();
    let class: String =
        first.iter().flat_map(|letter| ['\\', *letter].into_iter().skip(usize::from(letter.is_alphanumeric()))).collect();
    let mut parts = vec![format!("[^{class}]"), "\\z".to_owned()];
    for letter in first {
        let rests: BTreeSet<String> = words.iter().filter_map(|word| word.strip_prefix(letter)).map(str::to_owned).collect();
        // A text that begins with a whole word fits not.
        if !rests.contains("") {
            let shown = if letter.is_alphanumeric() { letter.to_string() } else { format!("\\{letter}") };
            parts.push(format!("{shown}{}", others(&rests)));
        }
    }
    format!("(?:{})", parts.join("|"))
}

/// The expression without its assertions; `None` if a group does not end.
fn without_assertions(expression: &str) -> Option<String> {
    let mut made = String::new();
    let mut rest = expression;
    while let Some(at) = ["(?!", "(?=", "(?<!", "(?<="].iter().filter_map(|begin| rest.find(begin)).min() {
        // An escaped parenthesis begins no group.
        if rest[..at].ends_with('\\') {
            return None;
        }
        made.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = end_of_group(rest)?;
        rest = &rest[end..];
    }
    made.push_str(rest);
    Some(if made.is_empty() { "^".to_owned() } else { made })
}

/// The place behind the group with which a text begins.
fn end_of_group(text: &str) -> Option<usize> {
    let end = meaningful(text).find(|(_, letter, depth)| *letter == ')' && *depth <= 1)?;
    (end.2 == 1).then_some(end.0 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assertion_about_words_is_the_same_without_it() {
        for (expression, expected) in [
            (r"/\.ht", Translated::Same(r"/\.ht".to_owned())),
            (r"/\.(?!ab).*", Translated::Same(r"/\.(?:[^a]|\z|a(?:[^b]|\z))".to_owned())),
            (r"/\.(?!(ab|a\/))", Translated::Same(r"/\.(?:[^a]|\z|a(?:[^\/b]|\z))".to_owned())),
            (r"^/(?!a|b).*\.php$", Translated::Wider(r"^/.*\.php$".to_owned())),
            (r"^/(?!a\)(b)[)]c)d(?<=d)", Translated::Wider("^/d".to_owned())),
            (r"(a)\1", Translated::Unknown),
        ] {
            assert_eq!(translated(expression), expected, "{expression}");
        }
        assert_eq!(with_line_feed(r"(?i)a$|[$]\$(b$|c)$"), r"(?i)a\n?$|[$]\$(b\n?$|c)\n?$");
    }
}
