//! `[app.NAME]`: an app with its options.

use crate::content::{AppSection, Item};
use crate::options::{Options, Table};
use crate::table::{Entry, Reader, kind};
use oribi_config::quoted;

/// The longest name of an app, in bytes.
const NAME_BYTES: usize = 64;

/// The longest name of a variable of an app's environment, in bytes.
const VARIABLE_BYTES: usize = 256;

/// Reads an `[app.NAME]`.
pub(crate) fn app(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<AppSection> {
    let mut complete = is_name(entry.key);
    if !complete {
        let rule = "expected letters, digits, `-`, `_` and `.`";
        reader.mistake(entry.at, format!("bad name `{}` for an app: {rule}, at most {NAME_BYTES}", quoted(entry.key)));
    }
    let entries = reader.table(entry)?;
    let place = reader.source.place(entry.at);
    let (mut file, mut language, mut directory) = (None, None, None);
    let (mut variables, mut options) = (Vec::new(), Vec::new());
    let mut reading = Options::of(Table::App(entry.key));
    for inside in &entries {
        complete &= match inside.key {
            "file" => set(&mut file, reader.path(*inside)),
            "directory" => set(&mut directory, reader.path(*inside)),
            "language" => {
                let text = reader.text(*inside, inside.value);
                let fits = text.as_ref().is_some_and(|text| is_name(&text.value));
                if !fits && let Some(text) = &text {
                    reader.mistake(inside.value.at, format!("bad value `{}` for language: expected a name", text.quoted()));
                }
                set(&mut language, text) && fits
            }
            "environment" => set(&mut variables, environment(reader, *inside)),
            _ => match reading.read(reader, *inside) {
                Some((_, item)) => {
                    options.push(item);
                    true
                }
                None => false,
            },
        };
    }
    if !entries.iter().any(|entry| entry.key == "file") {
        reader.mistake(entry.at, format!("app `{}` has no file: add file = \"PATH\"", quoted(entry.key)));
    }
    let name = entry.key.to_owned();
    let file = file.filter(|_| complete)?;
    Some(AppSection { name, place, file, language, directory, environment: variables, options })
}

/// Stores a value that was read. Returns whether there is one.
fn set<Stored: From<Read>, Read>(stored: &mut Stored, read: Option<Read>) -> bool {
    let there = read.is_some();
    if let Some(read) = read {
        *stored = read.into();
    }
    there
}

/// Reads the variables of an app's environment.
fn environment(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<Vec<Item>> {
    let mut complete = true;
    let mut variables = Vec::new();
    for entry in reader.table(entry)? {
        if entry.key.is_empty() || entry.key.len() > VARIABLE_BYTES || entry.key.contains(['=', '\0']) {
            reader.mistake(entry.at, format!("bad name `{}` for a variable of the environment", quoted(entry.key)));
            complete = false;
            continue;
        }
        let text = reader.scalar(entry.value, false);
        let kind = kind(entry.value.data);
        match text {
            Some(Some(text)) if !text.value.contains('\0') => {
                let (name, place) = (entry.key.to_owned(), reader.source.place(entry.at));
                variables.push(Item { name, values: vec![text.value], place, from_environment: text.from_environment });
                continue;
            }
            Some(Some(_)) => {
                reader.mistake(entry.value.at, format!("the variable `{}` contains a zero byte", quoted(entry.key)));
            }
            Some(None) => {}
            None => reader.mistake(entry.value.at, format!("the variable `{}` is text, not {kind}", quoted(entry.key))),
        }
        complete = false;
    }
    complete.then_some(variables)
}

/// Whether a text can be the name of an app or of a language.
fn is_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=NAME_BYTES).contains(&text.len()) && text.bytes().all(fits)
}
