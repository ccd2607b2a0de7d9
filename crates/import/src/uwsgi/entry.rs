//! The options of a source in the order of their lines, with placeholders and magic variables replaced.

use crate::note::Key;
use crate::variable::reference;

/// An option as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub name: String,
    pub value: String,
    pub line: Option<usize>,
}

impl Entry {
    pub fn key(&self) -> Key {
        Key { line: self.line, name: self.name.clone() }
    }
}

/// The values of placeholders: options that were set before.
pub(super) struct Placeholders {
    /// The path of the file.
    path: String,
    values: Vec<(String, String)>,
    /// Names that were used.
    pub used: Vec<String>,
    /// Variables of the file that have no value here, such as `%h`.
    pub unknown: Vec<String>,
}

/// The longest value after all replacements.
const LONGEST: usize = 16_384;

impl Placeholders {
    pub fn new(path: &str) -> Self {
        Self { path: path.to_owned(), values: Vec::new(), used: Vec::new(), unknown: Vec::new() }
    }

    /// Remembers a value.
    pub fn set(&mut self, name: &str, value: &str) {
        self.values.retain(|(known, _)| known != name);
        self.values.push((name.to_owned(), value.to_owned()));
    }

    /// Replaces `%(name)`, `%d` and its like, and `$(VARIABLE)`.
    pub fn expand(&mut self, text: &str) -> String {
        let mut expanded = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['%', '$']) {
            expanded.push_str(&rest[..at]);
            let (sign, after) = rest[at..].split_at(1);
            rest = after;
            if let Some((name, behind)) = after.strip_prefix('(').and_then(|inside| inside.split_once(')')) {
                rest = behind;
                if sign == "$" {
                    expanded.push_str(&reference(name, None));
                    continue;
                }
                let found = self.values.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.clone());
                match found {
                    Some(value) if expanded.len() + value.len() < LONGEST => expanded.push_str(&value),
                    _ => self.unknown.push(format!("%({name})")),
                }
                self.used.push(name.to_owned());
            } else if sign == "%"
                && let Some(letter) = after.chars().next()
            {
                match self.magic(letter) {
                    Some(value) => {
                        expanded.push_str(&value);
                        rest = &after[letter.len_utf8()..];
                    }
                    None => expanded.push('%'),
                }
            } else {
                expanded.push_str(sign);
            }
        }
        expanded + rest
    }

    /// The value of a magic variable.
    fn magic(&mut self, letter: char) -> Option<String> {
        let (folder, file) = self.path.rsplit_once('/').map_or(("", &*self.path), |parts| parts);
        let slash = if self.path.contains('/') { "/" } else { "" };
        let (stem, ending) = file.rsplit_once('.').unwrap_or((file, ""));
        Some(match letter {
            '%' => "%".to_owned(),
            'p' => self.path.clone(),
            's' => file.to_owned(),
            'd' => format!("{folder}{slash}"),
            'n' => stem.to_owned(),
            'e' => ending.to_owned(),
            'c' => folder.rsplit('/').next().unwrap_or_default().to_owned(),
            'x' => "uwsgi".to_owned(),
            'h' | 'k' | 'u' | 'U' | 'g' | 'G' | 't' | 'T' | 'v' | 'V' | 'i' | 'P' | 'S' | 'D' | 'N' | 'E' | 'C' | '0'..='9' => {
                self.unknown.push(format!("%{letter}"));
                format!("%{letter}")
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variable::written;

    #[test]
    fn placeholders_and_magic_variables_are_replaced() {
        let mut placeholders = Placeholders::new("/etc/uwsgi/shop.ini");
        placeholders.set("base", "/srv/%n");
        for (text, expected) in [
            ("%(base)/app", "/srv/%n/app"),
            ("%d%n.sock", "/etc/uwsgi/shop.sock"),
            ("%p %s %e %c", "/etc/uwsgi/shop.ini shop.ini ini uwsgi"),
            ("100%% $(HOME)/x $y %!", "100% ${HOME}/x $y %!"),
            ("%(none)x", "x"),
        ] {
            assert_eq!(written(&placeholders.expand(text)), expected, "{text}");
        }
        assert_eq!(placeholders.unknown, ["%(none)"]);
    }
}
