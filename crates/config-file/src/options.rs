//! Options in a table: names, scopes and values as the table of options has them.

use crate::content::Item;
use crate::language_options::{LANGUAGE_OPTIONS, LanguageOption};
use crate::place::Place;
use crate::table::{Entry, Reader, Value, closest_of, did_you_mean, kind};
use oribi_config::{
    Config, Origin, Scope, Setting, SettingError, instead_of, is_secret_name, masked, quoted, setting_of, table,
};
use std::collections::HashMap;
use std::fmt;
use toml::de::DeValue;

/// A table of the file that may hold options.
#[derive(Clone, Copy)]
pub(crate) enum Table<'a> {
    Server,
    Listen,
    App(&'a str),
}

impl Table<'_> {
    /// Whether an option may stand in this table.
    pub fn allows(self, setting: &Setting) -> bool {
        match self {
            Self::Server => true,
            Self::Listen => setting.scope == Scope::Listener,
            Self::App(_) => setting.scope == Scope::App,
        }
    }

    /// Whether a key may stand in this table.
    pub fn knows(self, key: &str) -> bool {
        self.own_keys().any(|own| own == key) || setting_of(key).is_some_and(|(setting, _)| self.allows(setting))
    }

    /// The keys that are no options of the server.
    pub fn own_keys(self) -> impl Iterator<Item = &'static str> {
        let (own, of_languages): (&[&str], &[LanguageOption]) = match self {
            Self::Server => (&[], &[]),
            Self::Listen => (&["address"], &[]),
            Self::App(_) => (&["file", "proxy", "language", "directory", "environment"], LANGUAGE_OPTIONS),
        };
        own.iter().copied().chain(of_languages.iter().map(|option| option.name))
    }
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server => formatter.write_str("[server]"),
            Self::Listen => formatter.write_str("[[listen]]"),
            Self::App(name) => write!(formatter, "[app.{}]", quoted(name)),
        }
    }
}

/// Reads the options of one table.
pub(crate) struct Options<'t> {
    table: Table<'t>,
    /// The names and places of the options so far, by their first names.
    seen: HashMap<&'static str, (String, Place)>,
    /// The first names of options with mistakes; of an unknown one, that of the closest.
    pub faulty: Vec<&'static str>,
}

impl<'t> Options<'t> {
    pub fn of(table: Table<'t>) -> Self {
        Self { table, seen: HashMap::new(), faulty: Vec::new() }
    }

    /// Reads an option; `None` after a mistake.
    pub fn read(&mut self, reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<(&'static Setting, Item)> {
        let read = self.read_sound(reader, entry);
        if read.is_none() {
            let known = || table().iter().flat_map(|setting| setting.aliases.iter().copied().chain([setting.name]));
            let meant = setting_of(entry.key).or_else(|| setting_of(closest_of(entry.key, known())?));
            self.faulty.extend(meant.map(|(setting, _)| setting.name));
        }
        read
    }

    fn read_sound(&mut self, reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<(&'static Setting, Item)> {
        let Some((setting, _)) = setting_of(entry.key) else {
            self.unknown(reader, entry);
            return None;
        };
        let table = self.table;
        if !table.allows(setting) {
            let message = format!("`{}` belongs in {}, not in {table}", quoted(entry.key), setting.scope.tables());
            let of_address = matches!(table, Table::Listen) && ["listen", "socket", "host", "port"].contains(&setting.name);
            let suggestion = of_address.then(|| "write it in the address, as in address = \":8080\"".to_owned());
            reader.report.suggest(reader.source, entry.at, message, || suggestion);
            return None;
        }
        let place = reader.source.place(entry.at);
        if let Some((name, first)) = self.seen.get(setting.name) {
            let message = format!("`{}` sets the same option as `{}` at {first}", quoted(entry.key), quoted(name));
            reader.mistake(entry.at, message);
            return None;
        }
        self.seen.insert(setting.name, (entry.key.to_owned(), place.clone()));
        let Texts { values, places, from_environment } = texts(reader, setting, entry)?;
        let item = Item { name: entry.key.to_owned(), values, place, places, from_environment };
        Some((setting, item))
    }

    fn unknown(&self, reader: &mut Reader<'_>, entry: Entry<'_>) {
        if let Some(instead) = instead_of(entry.key) {
            return reader.mistake(entry.at, format!("cannot do what `{}` asks for: {instead}", quoted(entry.key)));
        }
        let others = [Table::Server, Table::Listen, Table::App("NAME")];
        if let Some(other) = others.into_iter().find(|other| other.own_keys().any(|key| key == entry.key)) {
            return reader.mistake(entry.at, format!("`{}` belongs in {other}, not in {}", entry.key, self.table));
        }
        let message = format!("unknown option `{}` in {}", quoted(entry.key), self.table);
        let names = settings_in(self.table).flat_map(|setting| {
            [setting.name].into_iter().chain(setting.aliases.iter().copied()).chain(setting.opposites.iter().copied())
        });
        let known = self.table.own_keys().chain(names);
        let suggestion = || number_of_workers(entry.key).or_else(|| did_you_mean(entry.key, known));
        reader.report.suggest(reader.source, entry.at, message, suggestion);
    }
}

/// The suggestion for an option of another server that sets the number of processes, or limits it.
fn number_of_workers(key: &str) -> Option<String> {
    const NAMES: &[&str] = &["minworkers", "processes", "spare", "cheaper"];
    let plain = key.to_ascii_lowercase().replace(['-', '_'], "");
    let suggestion = "write workers = NUMBER, or workers = \"MIN:MAX\" for a number that follows the load";
    NAMES.contains(&plain.as_str()).then(|| suggestion.to_owned())
}

/// The texts of a value that the parser of the option takes.
struct Texts {
    values: Vec<String>,
    places: Vec<Place>,
    /// Whether a part of them is from the environment.
    from_environment: bool,
}

fn texts(reader: &mut Reader<'_>, setting: &'static Setting, entry: Entry<'_>) -> Option<Texts> {
    let DeValue::Array(array) = entry.value.data else {
        let (text, from_environment) = one(reader, setting, entry, entry.value)?;
        let places = vec![reader.source.place(entry.value.at)];
        let accepted = accepted(reader, entry, entry.value, &text, from_environment);
        return accepted.then(|| Texts { values: vec![text], places, from_environment });
    };
    if !setting.repeats() && setting.separator.is_none() {
        reader.mistake(entry.value.at, format!("`{}` has one value, not an array", quoted(entry.key)));
        return None;
    }
    let (mut values, mut places, mut from_environment, mut complete) = (Vec::new(), Vec::new(), false, true);
    for value in array.iter().map(Value::of) {
        let Some((text, variable)) = one(reader, setting, entry, value) else {
            complete = false;
            continue;
        };
        from_environment |= variable;
        // The parts of a list are checked together, because some have a meaning only by their position.
        complete &= setting.separator.is_some() || accepted(reader, entry, value, &text, variable);
        values.push(text);
        places.push(reader.source.place(value.at));
    }
    if let Some(separator) = setting.separator.filter(|_| complete) {
        let text = values.join(&separator.to_string());
        complete = accepted(reader, entry, entry.value, &text, from_environment);
        (values, places) = (vec![text], vec![reader.source.place(entry.value.at)]);
    }
    complete.then_some(Texts { values, places, from_environment })
}

/// The text form of one value.
fn one(reader: &mut Reader<'_>, setting: &Setting, entry: Entry<'_>, value: Value<'_>) -> Option<(String, bool)> {
    match reader.scalar(value, setting.placeholder == "MODE") {
        Some(text) => text.map(|text| (text.value, text.from_environment)),
        None => {
            let list = setting.repeats() || setting.separator.is_some();
            let expected = if list { "text, a number, or an array of them" } else { "text, a number or a boolean" };
            reader.mistake(value.at, format!("`{}` is {expected}, not {}", quoted(entry.key), kind(value.data)));
            None
        }
    }
}

/// Whether the parser of an option accepts a text; reports its message otherwise.
fn accepted(reader: &mut Reader<'_>, entry: Entry<'_>, value: Value<'_>, text: &str, from_environment: bool) -> bool {
    // The file has `true`, the text is `on`.
    let shown = if let DeValue::Boolean(on) = value.data { &on.to_string() } else { text };
    let message = refusal(entry.key, text, from_environment, shown);
    let accepted = message.is_none();
    message.into_iter().for_each(|message| reader.mistake(value.at, message));
    accepted
}

/// The message of the parser of an option about a text that it rejects. `shown`: the text as the message quotes it, unless it
/// is hidden.
pub(crate) fn refusal(name: &str, text: &str, hidden: bool, shown: &str) -> Option<String> {
    let refused = |text: &str| Config::with(|_| None, 1).set(name, text, Origin::Default).err();
    let error = refused(text)?;
    let SettingError::Bad { why, .. } = error else { return Some(error.to_string()) };
    if !hidden && !is_secret_name(name) {
        return Some(SettingError::Bad { name: name.to_owned(), value: shown.to_owned(), why }.to_string());
    }
    // The reason may quote a part of the value, unless another value has the same reason.
    let general = [UNFIT, ""].into_iter().filter_map(refused);
    let general = general.into_iter().any(|other| matches!(other, SettingError::Bad { why: other, .. } if other == why));
    let why = if general { masked(&why).into_owned() } else { format!("see `{}` in `oribi --help`", quoted(name)) };
    let value = if hidden { "value from the environment" } else { "value" };
    Some(format!("bad {value} for {}: {why}", quoted(name)))
}

/// A text that hardly any option accepts.
const UNFIT: &str = "\u{1}";

/// The names of all options that may stand in a table.
pub(crate) fn settings_in(wanted: Table<'_>) -> impl Iterator<Item = &'static Setting> {
    table().iter().filter(move |setting| wanted.allows(setting))
}
