//! Options of the languages of apps, which only `[app.NAME]` has.

use crate::content::Item;
use crate::table::{Entry, Reader, Value, kind};
use oribi_config::quoted;
use toml::de::DeValue;

/// The form of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueForm {
    /// A text, a number or a boolean, as the command line takes it.
    Text,
    /// One or several texts.
    Texts,
    /// A path, joined to the folder of the file.
    Path,
    /// One or several paths.
    Paths,
    /// A program: a path if it has a slash, and otherwise a name that is looked for in `PATH`.
    Program,
    /// `true` or `false`.
    Switch,
}

/// An option of a language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LanguageOption {
    /// The name, as on the command line where there is a long one.
    pub name: &'static str,
    /// The name of the only language that has it; empty: all have it.
    pub language: &'static str,
    /// The form of its value.
    pub form: ValueForm,
}

const fn option(name: &'static str, language: &'static str, form: ValueForm) -> LanguageOption {
    LanguageOption { name, language, form }
}

/// The options of all languages.
pub const LANGUAGE_OPTIONS: &[LanguageOption] = &[
    option("include", "", ValueForm::Paths),
    option("env", "", ValueForm::Text),
    option("module", "perl", ValueForm::Texts),
    option("perl", "perl", ValueForm::Program),
    option("require", "ruby", ValueForm::Texts),
    option("config", "ruby", ValueForm::Path),
    option("ruby", "ruby", ValueForm::Program),
    option("lua", "lua", ValueForm::Text),
    option("document-root", "lua", ValueForm::Switch),
    option("hooks", "lua", ValueForm::Path),
    option("states", "lua", ValueForm::Text),
    option("clones", "lua", ValueForm::Text),
    option("sweep", "lua", ValueForm::Text),
    option("retries", "lua", ValueForm::Text),
    option("state-memory", "lua", ValueForm::Text),
    option("state-requests", "lua", ValueForm::Text),
    option("time-limit", "lua", ValueForm::Text),
    option("handler", "lua", ValueForm::Text),
    option("show-errors", "lua", ValueForm::Text),
];

/// Returns the option with this name, in which `_` may stand for `-`.
pub(crate) fn named(name: &str) -> Option<&'static LanguageOption> {
    let name = name.replace('_', "-");
    LANGUAGE_OPTIONS.iter().find(|option| option.name == name)
}

/// Reads an option; `None` after a mistake.
pub(crate) fn read(reader: &mut Reader<'_>, entry: Entry<'_>, option: &'static LanguageOption) -> Option<Item> {
    let several = matches!(option.form, ValueForm::Texts | ValueForm::Paths);
    let values: Vec<Value<'_>> = match entry.value.data {
        DeValue::Array(array) if several => array.iter().map(Value::of).collect(),
        _ => vec![entry.value],
    };
    let (mut texts, mut places, mut from_environment, mut complete) = (Vec::new(), Vec::new(), false, true);
    for value in values {
        let Some((text, variable)) = one(reader, entry, value, option) else {
            complete = false;
            continue;
        };
        texts.push(text);
        places.push(reader.source.place(value.at));
        from_environment |= variable;
    }
    let place = reader.source.place(entry.at);
    complete.then(|| Item { name: option.name.to_owned(), values: texts, place, places, from_environment })
}

fn one(reader: &mut Reader<'_>, entry: Entry<'_>, value: Value<'_>, option: &LanguageOption) -> Option<(String, bool)> {
    let is_text = matches!(value.data, DeValue::String(_));
    let fits = match option.form {
        ValueForm::Switch => matches!(value.data, DeValue::Boolean(_)),
        ValueForm::Text => true,
        _ => is_text,
    };
    let read = if fits { reader.scalar(value, false) } else { None };
    let Some(read) = read else {
        let expected = match option.form {
            ValueForm::Switch => "true or false",
            ValueForm::Text => "text, a number or a boolean",
            ValueForm::Texts | ValueForm::Paths => "text, or an array of texts",
            ValueForm::Path | ValueForm::Program => "text",
        };
        let message = format!("`{}` is {expected}, not {}", quoted(entry.key), kind(value.data));
        let variables = option.name == "env" && matches!(value.data, DeValue::Table(_));
        let suggestion = variables.then(|| "write environment = { NAME = \"VALUE\" } for variables".to_owned());
        reader.report.suggest(reader.source, value.at, message, || suggestion);
        return None;
    };
    let text = read?;
    if is_text && (text.value.is_empty() || text.value.contains('\0')) {
        reader.mistake(value.at, format!("`{}` has an empty value, or one with a zero byte", quoted(entry.key)));
        return None;
    }
    let is_path = match option.form {
        ValueForm::Path | ValueForm::Paths => text.value != "-",
        ValueForm::Program => text.value.contains('/'),
        _ => false,
    };
    if !is_path {
        return Some((text.value, text.from_environment));
    }
    let path = reader.source.joined(&text.value);
    Some((path.to_string_lossy().into_owned(), text.from_environment))
}
