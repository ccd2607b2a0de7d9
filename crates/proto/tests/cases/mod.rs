//! Reads the files of the corpus.

/// A case of the corpus.
pub struct Case {
    /// The file and the property that the case shows.
    pub name: String,
    lines: Vec<String>,
}

impl Case {
    /// The text after `mark` in the lines that start with it.
    pub fn lines<'a>(&'a self, mark: &'a str) -> impl Iterator<Item = &'a str> {
        self.lines.iter().filter_map(move |line| line.strip_prefix(mark))
    }
}

/// Reads all cases of a file. Empty lines and lines that start with `#` are ignored.
pub fn all(file: &str, text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix("== ") {
            assert!(cases.iter().all(|case| !case.name.ends_with(&format!(": {name}"))), "{file}: {name} stands twice");
            cases.push(Case { name: format!("{file}: {name}"), lines: Vec::new() });
        } else {
            cases
                .last_mut()
                .unwrap_or_else(|| panic!("{file}: {line} stands before the first case"))
                .lines
                .push(line.to_owned());
        }
    }
    assert!(!cases.is_empty(), "{file}: no case");
    cases
}

/// The bytes of a line of the corpus.
pub fn unescape(line: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        rest = &rest[first.len_utf8()..];
        match first {
            '\\' => {
                let (escape, behind) = rest.split_at(1);
                rest = behind;
                match escape {
                    "r" => bytes.push(b'\r'),
                    "n" => bytes.push(b'\n'),
                    "t" => bytes.push(b'\t'),
                    "\\" => bytes.push(b'\\'),
                    "x" => {
                        let (digits, behind) = rest.split_at(2);
                        bytes.push(u8::from_str_radix(digits, 16).expect("two hexadecimal digits"));
                        rest = behind;
                    }
                    _ => panic!("unknown escape in {line}"),
                }
            }
            '{' if rest.starts_with(|digit: char| digit.is_ascii_digit()) => {
                let (repeat, behind) = rest.split_once('}').expect("a closing brace");
                let (count, text) = repeat.split_once('*').expect("a count, an asterisk and a text");
                bytes.extend(unescape(text).repeat(count.parse().expect("a number")));
                rest = behind;
            }
            other => bytes.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes
}
