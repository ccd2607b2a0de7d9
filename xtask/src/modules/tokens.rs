//! Splits sources in Rust or C into words and signs, without comments, strings, characters and numbers.

/// A word or a sign, and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub text: String,
    pub line: usize,
}

impl Token {
    /// Whether it can be a part of a path: a name, or a keyword such as `crate`.
    pub fn is_name(&self) -> bool {
        self.text.starts_with(|first: char| first == '_' || first.is_alphabetic())
    }
}

/// The tokens of `source`. `::` is one token, other signs are one character each; `r#name` is `name`.
pub fn tokens(source: &str) -> Vec<Token> {
    let mut reader = Reader { rest: source, line: 1 };
    std::iter::from_fn(|| reader.next_token()).collect()
}

struct Reader<'a> {
    rest: &'a str,
    line: usize,
}

impl Reader<'_> {
    fn next_token(&mut self) -> Option<Token> {
        loop {
            let rest = self.rest;
            let first = rest.chars().next()?;
            let line = self.line;
            let token = |text: &str| Some(Token { text: text.to_owned(), line });
            if first.is_whitespace() {
                self.take(first.len_utf8());
            } else if rest.starts_with("//") {
                self.take(rest.find('\n').unwrap_or(rest.len()));
            } else if rest.starts_with("/*") {
                self.take(block_comment(rest));
            } else if let Some(length) = string(rest) {
                self.take(length);
            } else if first == '\'' {
                self.take(character_or_lifetime(rest));
            } else if first.is_ascii_digit() {
                self.take(name(rest));
            } else if let Some(raw) = rest.strip_prefix("r#") {
                let length = name(raw);
                self.take(2 + length);
                return token(&raw[..length]);
            } else if name(rest) > 0 {
                let length = name(rest);
                self.take(length);
                return token(&rest[..length]);
            } else {
                let length = if rest.starts_with("::") { 2 } else { first.len_utf8() };
                self.take(length);
                return token(&rest[..length]);
            }
        }
    }

    fn take(&mut self, length: usize) {
        let (taken, rest) = self.rest.split_at(length);
        self.line += taken.matches('\n').count();
        self.rest = rest;
    }
}

/// The length of the name (or number) at the start of `rest`.
fn name(rest: &str) -> usize {
    rest.find(|character: char| character != '_' && !character.is_alphanumeric()).unwrap_or(rest.len())
}

/// The length of the block comment at the start of `rest`. Block comments can be nested.
fn block_comment(rest: &str) -> usize {
    let (mut depth, mut length) = (0, 0);
    while length < rest.len() {
        if rest[length..].starts_with("/*") {
            depth += 1;
            length += 2;
        } else if rest[length..].starts_with("*/") {
            depth -= 1;
            length += 2;
            if depth == 0 {
                break;
            }
        } else {
            length += rest[length..].chars().next().map_or(1, char::len_utf8);
        }
    }
    length
}

/// The length of the string at the start of `rest`, if there is one: `"a"`, `b"a"`, `c"a"`, `r"a"`, `br#"a"#`.
fn string(rest: &str) -> Option<usize> {
    let prefix = name(rest);
    let raw = matches!(&rest[..prefix], "r" | "br" | "cr");
    if !raw && !matches!(&rest[..prefix], "" | "b" | "c") {
        return None;
    }
    let hashes = if raw { rest[prefix..].len() - rest[prefix..].trim_start_matches('#').len() } else { 0 };
    let content = rest[prefix + hashes..].strip_prefix('"')?;
    let start = rest.len() - content.len();
    if raw {
        let end = format!("\"{}", "#".repeat(hashes));
        return Some(content.find(&end).map_or(rest.len(), |at| start + at + end.len()));
    }
    Some(quoted(content, '"').map_or(rest.len(), |length| start + length))
}

/// The number of bytes up to and including the quote that ends the string.
fn quoted(content: &str, quote: char) -> Option<usize> {
    let mut characters = content.char_indices();
    while let Some((at, character)) = characters.next() {
        if character == '\\' {
            characters.next();
        } else if character == quote {
            return Some(at + 1);
        }
    }
    None
}

/// The length of `'a'`, `'\n'` or of the lifetime `'a` at the start of `rest`.
fn character_or_lifetime(rest: &str) -> usize {
    let inside = &rest[1..];
    let first = inside.chars().next().map_or(0, char::len_utf8);
    if inside.starts_with('\\') || inside[first..].starts_with('\'') {
        return 1 + quoted(inside, '\'').unwrap_or(inside.len());
    }
    1 + name(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<String> {
        tokens(source).into_iter().map(|token| token.text).collect()
    }

    #[test]
    fn words_and_signs_are_left() {
        assert_eq!(texts("use a::{b, r#type};"), ["use", "a", "::", "{", "b", ",", "type", "}", ";"]);
    }

    #[test]
    fn comments_are_skipped_whatever_stands_in_them() {
        assert_eq!(texts("a // crate::b \"\n/// 'crate::c\nd /* e /* f */ g */ h"), ["a", "d", "h"]);
    }

    #[test]
    fn strings_are_skipped_whatever_stands_in_them() {
        assert_eq!(texts(r#"a "crate::b \" // c" d"#), ["a", "d"]);
        assert_eq!(texts("a r\"\\\" b br#\"crate::c \" d\"# e"), ["a", "b", "e"]);
        assert_eq!(texts("b\"a\" c\"b\" d"), ["d"]);
    }

    #[test]
    fn characters_are_skipped_and_lifetimes_hide_nothing() {
        assert_eq!(texts("'\"' a '\\'' b b'\"' c 'ä' d"), ["a", "b", "b", "c", "d"]);
        assert_eq!(texts("Door<'a> crate::B<'_>"), ["Door", "<", ">", "crate", "::", "B", "<", ">"]);
    }

    #[test]
    fn lines_count_from_one() {
        let lines: Vec<_> = tokens("a\n/* \n */ b \"\n\" c").into_iter().map(|token| (token.text, token.line)).collect();
        assert_eq!(lines, [("a".to_owned(), 1), ("b".to_owned(), 3), ("c".to_owned(), 4)]);
    }
}
