//! `request-fields` and `response-fields`: changes of fields.

use super::texts;
use crate::table::{Entry, Reader};
use oribi_config::quoted;
use oribi_filter::FieldChanges;

/// The keys of changes of fields.
const CHANGES: &[&str] = &["set", "add", "remove"];

/// Reads changes of fields.
pub(super) fn changes(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<FieldChanges> {
    let mut changes = FieldChanges::default();
    let of_request = entry.key == "request-fields";
    let mut complete = true;
    for inside in reader.table(entry)? {
        complete &= match inside.key {
            "set" => fields(reader, inside, |name, value| one_name(of_request, name).and_then(|()| changes.set(name, value))),
            "add" => fields(reader, inside, |name, value| one_name(of_request, name).and_then(|()| changes.add(name, value))),
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

/// Refuses a name that apps cannot tell from another one.
fn one_name(of_request: bool, name: &str) -> Result<(), &'static str> {
    if of_request && name.contains('_') { Err("apps get `_` for `-` in names of fields, so write `-`") } else { Ok(()) }
}

/// Reads a table of fields.
fn fields(reader: &mut Reader<'_>, entry: Entry<'_>, mut change: impl FnMut(&str, &str) -> Result<(), &'static str>) -> bool {
    let Some(fields) = reader.table(entry) else { return false };
    let mut complete = true;
    let mut names: Vec<String> = Vec::new();
    for field in fields {
        let name = field.key.to_ascii_lowercase();
        if names.contains(&name) {
            reader.mistake(field.at, format!("the field `{}` is already there", quoted(field.key)));
            complete = false;
        }
        names.push(name);
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
