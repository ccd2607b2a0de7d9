//! One file: its sections.

use crate::app::app;
use crate::content::{AppSection, Filters, Item, Listen, NeededPath, RouteSection, Text};
use crate::filters::auth::is_shown;
use crate::filters::defaults;
use crate::listen::listen;
use crate::options::{Options, Table};
use crate::repair::{Repaired, repaired};
use crate::report::Report;
use crate::route::{Outline, route};
use crate::source::Source;
use crate::table::{Entry, Reader, Value, entries};
use crate::variables::Environment;
use oribi_config::{is_secret_name, quoted, setting_of};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// The most bytes of a file.
pub(crate) const FILE_BYTES: usize = 1 << 20;

/// The keys of `oribi.toml`.
const KEYS: &[&str] = &["include", "server", "listen", "app", "defaults", "route"];

/// The keys of an included file.
const KEYS_OF_INCLUDED: &[&str] = &["app", "route"];

/// The sections of one file.
#[derive(Default)]
pub(crate) struct Document {
    /// The patterns of `include`.
    pub include: Vec<Text>,
    pub server: Vec<Item>,
    pub listens: Vec<Listen>,
    pub apps: Vec<AppSection>,
    /// The names of all apps, also of those with mistakes.
    pub names: Vec<Text>,
    pub routes: Vec<RouteSection>,
    /// The outlines of all routes, also of those with mistakes.
    pub outlines: Vec<Outline>,
    pub defaults: Filters,
    pub needed: Vec<NeededPath>,
    /// The first names of options of `[server]` and `[[listen]]` with mistakes.
    pub faulty: Vec<&'static str>,
    /// Whether lines had mistakes in their syntax.
    pub is_repaired: bool,
    /// Whether these lines may have named apps, or files with apps.
    pub lacks_names: bool,
}

/// Reads the text of a file. Returns `None` if it is not TOML, and not only because of the values of some lines; then all its
/// mistakes are those of its syntax.
pub(crate) fn document(
    source: &mut Source,
    invalid: Option<usize>,
    included: bool,
    environment: Environment<'_>,
    report: &mut Report,
) -> Option<Document> {
    if source.text().len() > FILE_BYTES {
        report.unreadable(source.whole(), format!("the file has more than {FILE_BYTES} bytes: split it by `include`"));
        return None;
    }
    if let Some(offset) = invalid {
        report.unparsed(source, offset, "a byte that is not UTF-8");
        return None;
    }
    let text = source.text().to_owned();
    let (tree, mut errors) = DeTable::parse_recoverable(&text);
    let offset = |error: &toml::de::Error| error.span().map_or(0, |span| span.start);
    // The parser finds those of values last.
    errors.sort_by_key(offset);
    for error in &errors {
        report.unparsed(source, offset(error), format!("TOML: {}", error.message()));
    }
    let Some(repaired) = (!errors.is_empty()).then(|| repaired(source, &errors.iter().map(offset).collect::<Vec<_>>())) else {
        secrets(tree.get_ref(), false, true, &mut source.secrets);
        let reader = Reader { source, environment, report, needed: Vec::new() };
        return Some(sections(reader, tree.get_ref(), included));
    };
    let Repaired { source: rest, lines, lacks_names } = repaired?;
    *source = rest;
    let text = source.text().to_owned();
    let tree = DeTable::parse(&text).ok()?;
    secrets(tree.get_ref(), false, true, &mut source.secrets);
    report.leave_out(source, lines);
    let reader = Reader { source, environment, report, needed: Vec::new() };
    let document = sections(reader, tree.get_ref(), included);
    Some(Document { is_repaired: true, lacks_names: lacks_names || document.lacks_names, ..document })
}

/// Collects the places of values whose keys are those of secrets. `root`: the table is the whole file, where
/// `app` is a table of apps, whose names are no keys.
fn secrets<'a>(table: &'a DeTable<'a>, secret: bool, root: bool, found: &mut Vec<Range<usize>>) {
    for (key, value) in table.iter() {
        match value.get_ref() {
            DeValue::Table(apps) if root && key.get_ref() == "app" => {
                for app in apps.values() {
                    if let DeValue::Table(app) = app.get_ref() {
                        secrets(app, false, false, found);
                    }
                }
            }
            DeValue::Array(routes) if root && key.get_ref() == "route" => {
                for route in routes.iter() {
                    if let DeValue::Table(route) = route.get_ref() {
                        secrets_of_filters(route, found);
                    }
                }
            }
            DeValue::Table(filters) if root && key.get_ref() == "defaults" => secrets_of_filters(filters, found),
            _ => secrets_in(value, secret || is_secret_name(key.get_ref()), found),
        }
    }
}

/// As [`secrets`], for a table with filters: `auth` is the name of one, most of whose values are no secrets.
fn secrets_of_filters<'a>(table: &'a DeTable<'a>, found: &mut Vec<Range<usize>>) {
    for (key, value) in table.iter() {
        match value.get_ref() {
            DeValue::Table(auth) if key.get_ref() == "auth" => {
                auth.iter().for_each(|(key, value)| secrets_in(value, !is_shown(key.get_ref()), found));
            }
            _ => secrets_in(value, is_secret_name(key.get_ref()), found),
        }
    }
}

fn secrets_in<'a>(value: &'a Spanned<DeValue<'a>>, secret: bool, found: &mut Vec<Range<usize>>) {
    match value.get_ref() {
        DeValue::Table(table) => secrets(table, secret, false, found),
        DeValue::Array(array) => array.iter().for_each(|value| secrets_in(value, secret, found)),
        DeValue::Boolean(_) => {}
        _ if secret => found.push(value.span()),
        _ => {}
    }
}

fn sections(mut reader: Reader<'_>, table: &DeTable<'_>, included: bool) -> Document {
    let mut document = Document::default();
    for entry in entries(table) {
        match entry.key {
            "include" | "server" | "listen" | "defaults" if included => {
                let message = match entry.key {
                    "include" => "an included file may not include others: `include` belongs in oribi.toml".to_owned(),
                    key => format!("`{key}` belongs in oribi.toml; an included file has [app.NAME] and [[route]] only"),
                };
                reader.mistake(entry.at, message);
            }
            "include" => document.include = include(&mut reader, entry),
            "server" => {
                let has_addresses = table.contains_key("listen");
                document.server = server(&mut reader, entry, has_addresses, &mut document.faulty);
            }
            "listen" => {
                let tables = reader.tables(entry);
                if tables.is_empty() {
                    document.faulty.push("listen");
                }
                for (at, inside) in tables {
                    match listen(&mut reader, at, &inside) {
                        Some(section) => document.listens.push(section),
                        None => document.faulty.push("listen"),
                    }
                }
            }
            "defaults" => document.defaults = defaults(&mut reader, entry),
            "app" => {
                if !matches!(entry.value.data, DeValue::Table(_)) {
                    nameless(&mut reader, entry.value.at);
                    document.lacks_names = true;
                    continue;
                }
                for entry in reader.table(entry).unwrap_or_default() {
                    if !matches!(entry.value.data, DeValue::Table(_)) && Table::App("NAME").knows(entry.key) {
                        if !document.lacks_names {
                            nameless(&mut reader, entry.at);
                        }
                        document.lacks_names = true;
                        continue;
                    }
                    let (value, place) = (entry.key.to_owned(), reader.source.place(entry.at));
                    document.names.push(Text { value, place, from_environment: false });
                    document.apps.extend(app(&mut reader, entry));
                }
            }
            "route" => {
                for (at, inside) in reader.tables(entry) {
                    let (outline, section) = route(&mut reader, at, &inside);
                    document.outlines.push(outline);
                    document.routes.extend(section);
                }
            }
            key if !included && (setting_of(key).is_some() || Table::App("NAME").knows(key)) => {
                let message = format!("`{}` belongs in a table", quoted(key));
                let tables = "write it below [server], or below the [app.NAME] that it is for";
                reader.report.suggest(reader.source, entry.at, message, || Some(tables.to_owned()));
            }
            _ => {
                let known = if included { KEYS_OF_INCLUDED } else { KEYS };
                reader.unknown(entry, "the file", known.iter().copied());
            }
        }
    }
    document.needed = reader.needed;
    document
}

/// Reports options of an app at a place that gives it no name.
fn nameless(reader: &mut Reader<'_>, at: usize) {
    let suggestion = || Some("write [app.NAME], in which NAME is the name that routes use".to_owned());
    reader.report.suggest(reader.source, at, "an app needs a name", suggestion);
}

fn include(reader: &mut Reader<'_>, entry: Entry<'_>) -> Vec<Text> {
    let none = DeArray::default();
    let array = match entry.value.data {
        DeValue::Array(array) => array,
        DeValue::String(_) => &none,
        _ => {
            reader.wrong_type(entry, entry.value, "an array of strings");
            &none
        }
    };
    let alone = matches!(entry.value.data, DeValue::String(_)).then_some(entry.value);
    let mut patterns = Vec::new();
    for value in array.iter().map(Value::of).chain(alone) {
        let Some(text) = reader.text(entry, value) else { continue };
        if text.value.is_empty() || text.value.contains('\0') || text.value.contains("**") {
            let expected = "expected the path of a file, in which `*` is a part of a name";
            reader.mistake(value.at, format!("bad value `{}` for include: {expected}", text.quoted()));
        } else {
            patterns.push(text);
        }
    }
    patterns
}

fn server(reader: &mut Reader<'_>, entry: Entry<'_>, has_addresses: bool, faulty: &mut Vec<&'static str>) -> Vec<Item> {
    let mut options = Options::of(Table::Server);
    let mut items = Vec::new();
    for entry in reader.table(entry).unwrap_or_default() {
        let Some((setting, item)) = options.read(reader, entry) else { continue };
        if has_addresses && ["host", "port"].contains(&setting.name) {
            let message = format!("`{}` would have no effect beside [[listen]]: write it in an address", item.name);
            reader.mistake(entry.at, message);
        }
        items.push(item);
    }
    faulty.append(&mut options.faulty);
    items
}
