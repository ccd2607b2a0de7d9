//! `[app.NAME]`: an app with its options.

use crate::content::{AppSection, Item, NamedPath, Text};
use crate::language_options;
use crate::options::{Options, Table};
use crate::table::{Entry, Reader, Value, kind};
use oribi_config::quoted;
use oribi_proxy::Upstream;
use toml::de::DeValue;

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
    let (mut file, mut language, mut directory, mut proxy) = (None, None, None, None);
    let (mut variables, mut options, mut of_language) = (Vec::new(), Vec::new(), Vec::new());
    let mut reading = Options::of(Table::App(entry.key));
    for inside in &entries {
        complete &= match inside.key {
            "file" => set(&mut file, reader.path(*inside)),
            "proxy" => set(&mut proxy, upstreams(reader, *inside)),
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
            key => {
                let (list, item) = match language_options::named(key) {
                    Some(option) => (&mut of_language, language_options::read(reader, *inside, option)),
                    None => (&mut options, reading.read(reader, *inside).map(|(_, item)| item)),
                };
                let is_read = item.is_some();
                list.extend(item);
                is_read
            }
        };
    }
    complete &= fits_language(reader, &entries, language.as_ref(), file.as_ref());
    let given = |key: &str| entries.iter().find(|entry| entry.key == key);
    match (given("file"), given("proxy"), given("language")) {
        (None, None, _) => {
            let missing = "has no file: add file = \"PATH\", or proxy = \"URL\" for another server";
            reader.mistake(entry.at, format!("app `{}` {missing}", quoted(entry.key)));
        }
        (Some(_), Some(second), _) => {
            complete = false;
            reader.mistake(second.at, "an app has a file or a proxy, not both".to_owned());
        }
        (None, Some(_), Some(language)) => {
            complete = false;
            reader.mistake(language.at, "a proxy has no language".to_owned());
        }
        _ => {}
    }
    let proxy: Option<Vec<String>> = proxy;
    Some(AppSection {
        name: entry.key.to_owned(),
        place,
        is_sound: complete && (file.is_some() || proxy.is_some()),
        proxy: proxy.unwrap_or_default(),
        file,
        language,
        directory,
        environment: variables,
        options,
        language_options: of_language,
        faulty: reading.faulty,
    })
}

/// The endings of the names of apps, each with the name of its language.
pub const ENDINGS: &[(&str, &str)] =
    &[("psgi", "perl"), ("pl", "perl"), ("pagi", "perl"), ("ru", "ruby"), ("lua", "lua"), ("ws", "lua")];

/// Checks that the options of languages are those of one language: the one that is named, or that of the ending of the file, or
/// that of the first option.
fn fits_language(reader: &mut Reader<'_>, entries: &[Entry<'_>], language: Option<&Text>, file: Option<&NamedPath>) -> bool {
    let is_proxy = entries.iter().any(|entry| entry.key == "proxy");
    let mut complete = true;
    let ending = file.and_then(|file| file.path.extension()?.to_str());
    let of_ending = ending.and_then(|ending| ENDINGS.iter().find(|(known, _)| *known == ending));
    let is_known = |name: &&str| ENDINGS.iter().any(|(_, language)| language == name);
    let named = language.map(|language| language.value.as_str()).filter(is_known);
    let mut known = named.or(of_ending.map(|(_, language)| *language));
    for entry in entries {
        let Some(option) = language_options::named(entry.key) else { continue };
        let key = option.name;
        if is_proxy {
            reader.mistake(entry.at, format!("`{key}` is for apps with a file; a proxy has no language"));
            complete = false;
        } else if !option.language.is_empty() && *known.get_or_insert(option.language) != option.language {
            let other = known.unwrap_or_default();
            reader
                .mistake(entry.at, format!("`{key}` is for apps in {}, and this one is in {}", option.language, quoted(other)));
            complete = false;
        }
    }
    complete
}

/// Reads the URLs of upstreams: one, or an array.
fn upstreams(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<Vec<String>> {
    let values: Vec<Value<'_>> = match entry.value.data {
        DeValue::Array(array) => array.iter().map(Value::of).collect(),
        _ => vec![entry.value],
    };
    if values.is_empty() {
        reader.mistake(entry.value.at, "`proxy` needs at least one URL".to_owned());
        return None;
    }
    let mut complete = true;
    let mut urls = Vec::new();
    for value in values {
        let Some(text) = reader.text(entry, value) else {
            complete = false;
            continue;
        };
        if let Err(why) = Upstream::parse(&text.value) {
            reader.mistake(value.at, format!("bad value `{}` for proxy: {why}", text.quoted()));
            complete = false;
        }
        urls.push(text.value);
    }
    complete.then_some(urls)
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
                let (name, place, places) = (entry.key.to_owned(), reader.source.place(entry.at), vec![text.place]);
                variables.push(Item { name, values: vec![text.value], place, places, from_environment: text.from_environment });
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
