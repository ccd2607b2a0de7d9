//! The filters of a route, and those of `[defaults]` for all routes.

use crate::conditions::is_token;
use crate::content::Filters;
use crate::table::{Entry, Reader, Value};
use oribi_config::{duration, quoted};
use oribi_filter::{Cors, CorsOptions, FieldChanges};
use toml::de::DeValue;

/// The keys of filters.
pub(crate) const KEYS: &[&str] = &["request-fields", "response-fields", "cors"];

/// The keys of changes of fields.
pub(crate) const CHANGES: &[&str] = &["set", "add", "remove"];

/// The keys of `cors`.
pub(crate) const CORS: &[&str] = &["origins", "methods", "fields", "expose", "credentials", "max-age"];

impl Filters {
    /// Reads a filter. Returns `None` if its key is that of none; otherwise whether it has no mistake.
    pub(crate) fn read(&mut self, reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<bool> {
        let read = match entry.key {
            "request-fields" => changes(reader, entry).map(|changes| self.request_fields = Some(changes)),
            "response-fields" => changes(reader, entry).map(|changes| self.response_fields = Some(changes)),
            "cors" if is_off(entry) => {
                self.cors = Some(None);
                Some(())
            }
            "cors" => cors(reader, entry).map(|cors| self.cors = Some(Some(cors))),
            _ => return None,
        };
        Some(read.is_some())
    }

    /// Takes the filters that are missing from `defaults`.
    pub(crate) fn complete(&mut self, defaults: &Self) {
        let Self { request_fields, response_fields, cors } = defaults;
        self.request_fields = self.request_fields.take().or_else(|| request_fields.clone());
        self.response_fields = self.response_fields.take().or_else(|| response_fields.clone());
        self.cors = self.cors.take().or_else(|| cors.clone());
    }
}

/// Reads `[defaults]`.
pub(crate) fn defaults(reader: &mut Reader<'_>, entry: Entry<'_>) -> Filters {
    let mut filters = Filters::default();
    for entry in reader.table(entry).unwrap_or_default() {
        if filters.read(reader, entry).is_none() {
            reader.unknown(entry, "[defaults]", KEYS.iter().copied());
        }
    }
    filters
}

/// Whether a filter of `[defaults]` is switched off.
fn is_off(entry: Entry<'_>) -> bool {
    matches!(entry.value.data, DeValue::Boolean(false))
}

fn changes(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<FieldChanges> {
    let mut changes = FieldChanges::default();
    let mut complete = true;
    for inside in reader.table(entry)? {
        complete &= match inside.key {
            "set" => fields(reader, inside, |name, value| changes.set(name, value)),
            "add" => fields(reader, inside, |name, value| changes.add(name, value)),
            "remove" => texts(reader, inside).is_some_and(|names| {
                let mut all = true;
                for (value, name) in names {
                    all &= accepted(reader, value.at, &name.value, changes.remove(&name.value));
                }
                all
            }),
            _ => {
                reader.unknown(inside, entry.key, CHANGES.iter().copied());
                false
            }
        };
    }
    complete.then_some(changes)
}

/// Reads a table of fields.
fn fields(reader: &mut Reader<'_>, entry: Entry<'_>, mut change: impl FnMut(&str, &str) -> Result<(), &'static str>) -> bool {
    let Some(fields) = reader.table(entry) else { return false };
    let mut complete = true;
    for field in fields {
        let read = reader.text(field, field.value);
        complete &= read.is_some_and(|text| {
            let changed = change(field.key, &text.value);
            accepted(reader, field.at, field.key, changed)
        });
    }
    complete
}

/// Reports a change that was refused.
fn accepted(reader: &mut Reader<'_>, at: usize, name: &str, changed: Result<(), &'static str>) -> bool {
    if let Err(why) = changed {
        reader.mistake(at, format!("bad field `{}`: {why}", quoted(name)));
    }
    changed.is_ok()
}

/// Reads a string or an array of strings.
fn texts<'a>(reader: &mut Reader<'_>, entry: Entry<'a>) -> Option<Vec<(Value<'a>, crate::content::Text)>> {
    let values: Vec<Value<'_>> = match entry.value.data {
        DeValue::Array(array) => array.iter().map(Value::of).collect(),
        _ => vec![entry.value],
    };
    let mut complete = true;
    let mut texts = Vec::new();
    for value in values {
        let text = reader.text(entry, value);
        complete &= text.is_some();
        texts.extend(text.map(|text| (value, text)));
    }
    complete.then_some(texts)
}

fn cors(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<Cors> {
    let (mut origins, mut options) = (Vec::new(), CorsOptions::default());
    let mut complete = true;
    let entries = reader.table(entry)?;
    for &inside in &entries {
        complete &= match inside.key {
            "origins" => texts(reader, inside).map(|texts| origins = texts).is_some(),
            "methods" => names(reader, inside).map(|names| options.methods = names).is_some(),
            "fields" => names(reader, inside).map(|names| options.fields = names).is_some(),
            "expose" => names(reader, inside).map(|names| options.exposed = names).is_some(),
            "credentials" => reader.boolean(inside).map(|on| options.credentials = on).is_some(),
            "max-age" => seconds(reader, inside).map(|seconds| options.max_age = Some(seconds)).is_some(),
            _ => {
                reader.unknown(inside, "cors", CORS.iter().copied());
                false
            }
        };
    }
    if origins.is_empty() && complete {
        reader.mistake(entry.at, "`cors` needs origins = [\"https://example.com\"]");
        return None;
    }
    let list: Vec<&str> = origins.iter().map(|(_, origin)| origin.value.as_str()).collect();
    match Cors::new(&list, &options) {
        Ok(cors) => complete.then_some(cors),
        Err((index, why)) => {
            let (value, origin) = &origins[index];
            reader.mistake(value.at, format!("bad value `{}` for origins: {why}", origin.quoted()));
            None
        }
    }
}

/// Reads names of methods or fields.
fn names(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<Vec<String>> {
    let texts = texts(reader, entry)?;
    let mut complete = true;
    for (value, text) in &texts {
        if !is_token(&text.value) {
            reader.mistake(value.at, format!("bad value `{}` for {}: expected a name", text.quoted(), entry.key));
            complete = false;
        }
    }
    complete.then(|| texts.into_iter().map(|(_, text)| text.value).collect())
}

/// Reads a time in whole seconds.
fn seconds(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<u64> {
    let Some(text) = reader.scalar(entry.value, false) else {
        reader.wrong_type(entry, entry.value, "a time, such as \"10m\"");
        return None;
    };
    let text = text?;
    let time = duration(&text.value);
    if time.is_err() {
        reader.mistake(
            entry.value.at,
            format!("bad value `{}` for {}: expected a time, such as \"10m\"", text.quoted(), entry.key),
        );
    }
    time.ok().map(|time| time.as_secs())
}
