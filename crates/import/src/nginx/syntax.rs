//! The syntax of nginx.conf: directives with words and blocks.

use crate::unreadable::Unreadable;

/// The deepest block.
const DEPTH: usize = 24;

/// A directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Directive {
    pub name: String,
    pub words: Vec<String>,
    pub line: usize,
    pub block: Option<Vec<Directive>>,
}

impl Directive {
    /// A word, empty if there are fewer.
    pub fn word(&self, index: usize) -> &str {
        self.words.get(index).map_or("", String::as_str)
    }

    /// The directives of the block.
    pub fn inside(&self) -> &[Self] {
        self.block.as_deref().unwrap_or_default()
    }
}

/// Reads a file.
///
/// # Errors
/// A quote, a block or a directive that does not end.
pub(super) fn read(text: &str) -> Result<Vec<Directive>, Unreadable> {
    let mut reader = Reader { letters: text.chars().peekable(), line: 1, column: 1 };
    let directives = reader.block(0)?;
    Ok(directives)
}

struct Reader<'t> {
    letters: std::iter::Peekable<std::str::Chars<'t>>,
    line: usize,
    column: usize,
}

/// The end of a piece.
enum Token {
    Word(String),
    End,
    Open,
    Close,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<char> {
        let letter = self.letters.next()?;
        if letter == '\n' {
            self.line += 1;
            self.column = 1;
        } else {
            self.column += 1;
        }
        Some(letter)
    }

    fn error(&self, message: &str) -> Unreadable {
        Unreadable::at(self.line, self.column, message)
    }

    fn block(&mut self, depth: usize) -> Result<Vec<Directive>, Unreadable> {
        if depth > DEPTH {
            return Err(self.error("blocks in too many blocks"));
        }
        let mut directives = Vec::new();
        let mut words: Vec<String> = Vec::new();
        let mut line = self.line;
        loop {
            let token = self.token()?;
            match token {
                None if depth > 0 => return Err(self.error("a block without `}`")),
                None if words.is_empty() => return Ok(directives),
                None => return Err(self.error("a directive without `;`")),
                Some(Token::Word(word)) => {
                    if words.is_empty() {
                        line = self.line;
                    }
                    words.push(word);
                }
                Some(Token::End) if words.is_empty() => {}
                Some(Token::End) => {
                    let name = words.remove(0);
                    directives.push(Directive { name, words: std::mem::take(&mut words), line, block: None });
                }
                Some(Token::Open) if words.is_empty() => return Err(self.error("a block without a name")),
                Some(Token::Open) => {
                    let name = words.remove(0);
                    let block = if name.ends_with("_by_lua_block") {
                        self.raw()?;
                        Vec::new()
                    } else {
                        self.block(depth + 1)?
                    };
                    directives.push(Directive { name, words: std::mem::take(&mut words), line, block: Some(block) });
                }
                Some(Token::Close) if depth == 0 => return Err(self.error("a `}` without a block")),
                Some(Token::Close) if words.is_empty() => return Ok(directives),
                Some(Token::Close) => return Err(self.error("a directive without `;`")),
            }
        }
    }

    /// Skips a block of Lua.
    fn raw(&mut self) -> Result<(), Unreadable> {
        let mut open = 1;
        while open > 0 {
            match self.next() {
                None => return Err(self.error("a block without `}`")),
                Some('{') => open += 1,
                Some('}') => open -= 1,
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn token(&mut self) -> Result<Option<Token>, Unreadable> {
        loop {
            match self.letters.peek().copied() {
                None => return Ok(None),
                Some(letter) if letter.is_whitespace() || letter == '\u{FEFF}' => _ = self.next(),
                Some('#') => {
                    while self.letters.peek().is_some_and(|letter| *letter != '\n') {
                        self.next();
                    }
                }
                Some(letter @ (';' | '{' | '}')) => {
                    self.next();
                    return Ok(Some(match letter {
                        ';' => Token::End,
                        '{' => Token::Open,
                        _ => Token::Close,
                    }));
                }
                Some(quote @ ('"' | '\'')) => {
                    self.next();
                    return self.quoted(quote).map(|word| Some(Token::Word(word)));
                }
                Some(_) => return Ok(Some(Token::Word(self.word()))),
            }
        }
    }

    fn quoted(&mut self, quote: char) -> Result<String, Unreadable> {
        let mut word = String::new();
        let start = self.error("a quote that does not end");
        while let Some(letter) = self.next() {
            match letter {
                '\\' => match self.next() {
                    Some(next) if next == quote || next == '\\' => word.push(next),
                    Some('n') => word.push('\n'),
                    Some('t') => word.push('\t'),
                    Some('r') => word.push('\r'),
                    Some(next) => word.extend(['\\', next]),
                    None => {}
                },
                _ if letter == quote => return Ok(word),
                _ => word.push(letter),
            }
        }
        Err(start)
    }

    fn word(&mut self) -> String {
        let mut word = String::new();
        let mut braces = 0;
        while let Some(letter) = self.letters.peek().copied() {
            match letter {
                '\\' => {
                    self.next();
                    word.push('\\');
                    word.extend(self.next());
                    continue;
                }
                // ${NAME} is a part of a word.
                '{' if word.ends_with('$') => braces += 1,
                '}' if braces > 0 => braces -= 1,
                ';' | '{' | '}' => break,
                _ if letter.is_whitespace() => break,
                _ => {}
            }
            word.push(letter);
            self.next();
        }
        word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_have_words_and_blocks() {
        let text = "user www; # a\nhttp {\n  server { listen 80; return 301 \"https://${host}/a b\"; }\n  location ~ \\.php$ \
             { x '{;'; }\n}";
        let read = read(text).expect("it can be read");
        assert_eq!((read[0].name.as_str(), read[0].word(0), read[0].line), ("user", "www", 1));
        let http = read[1].inside();
        assert_eq!(http[0].inside()[1].words, ["301", "https://${host}/a b"]);
        assert_eq!((http[1].word(1), http[1].line, http[1].inside()[0].word(0)), ("\\.php$", 4, "{;"));
    }

    #[test]
    fn mistakes_have_a_place() {
        for (text, expected) in [
            ("a {\n b;", "2:4: a block without `}`"),
            ("a", "1:2: a directive without `;`"),
            ("a;\n}", "2:2: a `}` without a block"),
            ("a 'b", "1:4: a quote that does not end"),
            ("{", "1:2: a block without a name"),
        ] {
            assert_eq!(read(text).expect_err(text).to_string(), expected);
        }
    }
}
