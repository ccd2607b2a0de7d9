//! Values of a TOML table, with their types and variables checked.

use crate::content::{NamedPath, NeededPath, PathKind, Text};
use crate::report::Report;
use crate::source::Source;
use crate::variables::{Environment, expand};
use oribi_config::{closest, quoted};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The longest unknown name that is compared with the known ones.
const COMPARED: usize = 64;

/// For keys whose value is a table: one with the part that is needed.
const EXAMPLES: &[(&str, &str)] = &[
    ("files", "files = { root = \"DIR\" }"),
    ("redirect", "redirect = { to = \"URL\" }"),
    ("respond", "respond = { status = 404, content = \"TEXT\" }"),
    ("match", "match = { path = \"/PATH/*\" }"),
    ("environment", "environment = { NAME = \"VALUE\" }"),
    ("error-pages", "error-pages = { 503 = \"FILE\" }"),
    ("request-fields", "request-fields = { set = { NAME = \"VALUE\" } }"),
    ("response-fields", "response-fields = { set = { NAME = \"VALUE\" } }"),
];

/// A key of a table, with its value.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'a> {
    pub key: &'a str,
    /// The offset of the key.
    pub at: usize,
    pub value: Value<'a>,
}

/// A value with its offset.
#[derive(Clone, Copy)]
pub(crate) struct Value<'a> {
    pub data: &'a DeValue<'a>,
    pub at: usize,
    /// The offset of its end.
    end: usize,
}

impl<'a> Value<'a> {
    pub fn of(value: &'a Spanned<DeValue<'a>>) -> Self {
        let span = value.span();
        Self { data: value.get_ref(), at: span.start, end: span.end }
    }
}

/// The entries of a table in the order of the file.
pub(crate) fn entries<'a>(table: &'a DeTable<'a>) -> Vec<Entry<'a>> {
    let entry = |(key, value): (&'a Spanned<_>, _)| -> Entry<'a> {
        let name: &'a std::borrow::Cow<'a, str> = key.get_ref();
        Entry { key: name, at: key.span().start, value: Value::of(value) }
    };
    let mut entries: Vec<Entry<'a>> = table.iter().map(entry).collect();
    entries.sort_by_key(|entry| entry.at);
    entries
}

/// A file that is being read.
pub(crate) struct Reader<'r> {
    pub source: &'r Source,
    pub environment: Environment<'r>,
    pub report: &'r mut Report,
    /// The paths that routes and `[defaults]` need.
    pub needed: Vec<NeededPath>,
}

impl Reader<'_> {
    pub fn mistake(&mut self, at: usize, message: impl Into<String>) {
        self.report.mistake(self.source, at, message);
    }

    /// Reports a value of another type; `expected` is such as `a string`.
    pub fn wrong_type(&mut self, entry: Entry<'_>, value: Value<'_>, expected: &str) {
        let message = format!("`{}` is {expected}, not {}", quoted(entry.key), kind(value.data));
        let example = || EXAMPLES.iter().find(|(key, _)| *key == entry.key && expected.contains("a table"));
        self.report.suggest(self.source, value.at, message, || example().map(|(_, example)| format!("write {example}")));
    }

    /// Reports a key that is not known here, with the closest of the known ones.
    pub fn unknown<'k>(&mut self, entry: Entry<'_>, inside: &str, known: impl Iterator<Item = &'k str>) {
        self.unknown_or(entry, inside, known, &[]);
    }

    /// As [`Self::unknown`]; `instead` has names of other servers, each with the one here.
    pub fn unknown_or<'k>(
        &mut self,
        entry: Entry<'_>,
        inside: &str,
        known: impl Iterator<Item = &'k str>,
        instead: &[(&str, &'k str)],
    ) {
        let message = format!("unknown key `{}` in {inside}", quoted(entry.key));
        let suggestion = match instead.iter().find(|(name, _)| *name == entry.key) {
            Some((_, here)) => Some(format!("did you mean `{here}`?")),
            None => did_you_mean(entry.key, known),
        };
        self.report.suggest(self.source, entry.at, message, || suggestion);
    }

    /// A string with its variables replaced.
    pub fn text(&mut self, entry: Entry<'_>, value: Value<'_>) -> Option<Text> {
        match value.data {
            DeValue::String(text) => self.expanded(text, value, ["rewrite", "to"].contains(&entry.key)),
            _ => {
                self.wrong_type(entry, value, "a string");
                None
            }
        }
    }

    /// A string, a number or a boolean as text: `on` and `off` for a boolean.
    pub fn scalar(&mut self, value: Value<'_>, octal: bool) -> Option<Option<Text>> {
        let text = match value.data {
            DeValue::String(text) => return Some(self.expanded(text, value, false)),
            DeValue::Boolean(on) => (if *on { "on" } else { "off" }).to_owned(),
            DeValue::Float(number) => number.as_str().trim_start_matches('+').to_owned(),
            // Modes of files are octal in the text form, too.
            DeValue::Integer(number) if octal && number.radix() == 8 => number.as_str().to_owned(),
            DeValue::Integer(number) => match i128::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) => number.to_string(),
                Err(_) => number.to_string(),
            },
            _ => return None,
        };
        Some(Some(Text { value: text, place: self.source.place(value.at), from_environment: false }))
    }

    /// `of_request`: the text may also have variables of the request.
    fn expanded(&mut self, text: &str, value: Value<'_>, of_request: bool) -> Option<Text> {
        let expanded = expand(text, self.environment);
        for (number, message) in &expanded.mistakes {
            let raw = self.source.text().get(value.at..value.end).unwrap_or_default();
            // An escaped `$` is not found; then the place is that of the whole string.
            let inside = raw.match_indices("${").nth(*number).map_or(0, |(offset, _)| offset);
            let hint = || of_request.then(|| of_request_as(raw.get(inside + 2..).unwrap_or_default()));
            self.report.suggest(self.source, value.at + inside, message.as_str(), hint);
        }
        let place = self.source.place(value.at);
        let text = Text { value: expanded.text, place, from_environment: expanded.from_environment };
        expanded.mistakes.is_empty().then_some(text)
    }

    /// The path of a file or folder, joined to the folder of the file that names it.
    pub fn path(&mut self, entry: Entry<'_>) -> Option<NamedPath> {
        let text = self.text(entry, entry.value)?;
        if text.value.is_empty() || text.value.contains('\0') {
            self.mistake(entry.value.at, format!("`{}` is the path of a file or folder", entry.key));
            return None;
        }
        let Text { value, place, from_environment } = text;
        Some(NamedPath { path: self.source.joined(&value), place, from_environment })
    }

    /// The same for a path at which there must be something.
    pub fn needed(&mut self, entry: Entry<'_>, key: &'static str, kind: PathKind) -> Option<NamedPath> {
        let path = self.path(entry)?;
        self.needed.push(NeededPath { path: path.clone(), key, kind });
        Some(path)
    }

    /// A table.
    pub fn table<'a>(&mut self, entry: Entry<'a>) -> Option<Vec<Entry<'a>>> {
        if let DeValue::Table(table) = entry.value.data {
            return Some(entries(table));
        }
        self.wrong_type(entry, entry.value, "a table");
        None
    }

    /// The tables of an array of tables, each with its offset.
    pub fn tables<'a>(&mut self, entry: Entry<'a>) -> Vec<(usize, Vec<Entry<'a>>)> {
        let expected = format!("an array of tables: [[{}]]", entry.key);
        let DeValue::Array(array) = entry.value.data else {
            self.wrong_type(entry, entry.value, &expected);
            return Vec::new();
        };
        let mut tables = Vec::new();
        for value in array.iter().map(Value::of) {
            match value.data {
                DeValue::Table(table) => tables.push((value.at, entries(table))),
                _ => self.wrong_type(entry, value, &expected),
            }
        }
        tables
    }

    /// A boolean.
    pub fn boolean(&mut self, entry: Entry<'_>) -> Option<bool> {
        if let DeValue::Boolean(on) = entry.value.data {
            return Some(*on);
        }
        self.wrong_type(entry, entry.value, "true or false");
        None
    }

    /// A whole number in a range.
    pub fn number(&mut self, entry: Entry<'_>, fits: impl Fn(u16) -> bool, expected: &str) -> Option<u16> {
        let DeValue::Integer(number) = entry.value.data else {
            self.wrong_type(entry, entry.value, "a number");
            return None;
        };
        let number = u16::from_str_radix(number.as_str(), number.radix()).ok().filter(|&number| fits(number));
        if number.is_none() {
            self.mistake(entry.value.at, format!("`{}` is {expected}", entry.key));
        }
        number
    }
}

/// The suggestion to take a variable from the request; `text` follows the `${` of one of the environment.
fn of_request_as(text: &str) -> String {
    let name = text.split_once('}').map_or("", |(name, _)| name);
    let is_name =
        !name.is_empty() && name.len() <= COMPARED && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    format!("write $${{{}}} for a value of the request", if is_name { name } else { "NAME" })
}

/// The known name that is closest to a name of a moderate length, if one is close enough.
pub(crate) fn closest_of<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    if name.len() > COMPARED { None } else { closest(name, known) }
}

/// A suggestion for an unknown name.
pub fn did_you_mean<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> Option<String> {
    closest_of(name, known).map(|known| format!("did you mean `{known}`?"))
}

/// The type of a value, for a message.
pub(crate) fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}
