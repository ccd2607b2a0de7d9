//! `request-fields` and `response-fields`: changes of fields.

use super::texts;
use crate::table::{Entry, Reader};
use oribi_config::quoted;
use oribi_filter::{FieldChanges, ResponseFields};

/// The keys of changes of fields.
const CHANGES: &[&str] = &["set", "add", "remove"];

/// The key of changes that errors do not have.
const UNLESS_ERROR: &str = "unless-error";

/// Reads changes of the fields of requests.
pub(super) fn of_requests(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<FieldChanges> {
    let mut changes = FieldChanges::default();
    let mut complete = true;
    for inside in reader.table(entry)? {
        complete &= change(reader, inside, true, &mut changes).unwrap_or_else(|| {
            reader.unknown(inside, entry.key, CHANGES.iter().copied());
            false
        });
    }
    complete.then_some(changes)
}

/// Reads changes of the fields of responses.
pub(super) fn of_responses(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<ResponseFields> {
    let mut changes = ResponseFields::default();
    let mut complete = true;
    for inside in reader.table(entry)? {
        if inside.key == UNLESS_ERROR {
            let Some(entries) = reader.table(inside) else {
                complete = false;
                continue;
            };
            for within in entries {
                complete &= change(reader, within, false, &mut changes.unless_error).unwrap_or_else(|| {
                    reader.unknown(within, UNLESS_ERROR, CHANGES.iter().copied());
                    false
                });
            }
            continue;
        }
        complete &= change(reader, inside, false, &mut changes.always).unwrap_or_else(|| {
            reader.unknown(inside, entry.key, CHANGES.iter().copied().chain([UNLESS_ERROR]));
            false
        });
    }
    complete.then_some(changes)
}

/// Reads changes of one kind. Returns whether they have no mistake; `None` if the key is that of none.
fn change(reader: &mut Reader<'_>, inside: Entry<'_>, of_request: bool, changes: &mut FieldChanges) -> Option<bool> {
    let complete = match inside.key {
        "set" => fields(reader, inside, |name, value| one_name(of_request, name).and_then(|()| changes.set(name, value))),
        "add" => fields(reader, inside, |name, value| one_name(of_request, name).and_then(|()| changes.add(name, value))),
        "remove" => texts(reader, inside).is_some_and(|names| {
            let mut all = true;
            for (value, name) in names {
                all &= accepted(reader, value.at, &name.value, changes.remove(&name.value));
            }
            all
        }),
        _ => return None,
    };
    Some(complete)
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

#[cfg(test)]
mod tests {
    use crate::{Findings, parse};

    fn read(filters: &str) -> Result<(), Findings> {
        let text = format!("[app.a]\nfile = 'a'\n[defaults]\n{filters}\n");
        parse(&[("oribi.toml", text.as_bytes())], &|_| None).map(|_| ())
    }

    #[test]
    fn responses_alone_have_fields_that_errors_lack() {
        read("response-fields = { unless-error = { add = { A = 'b' } } }").expect("it has no mistake");
        for (filters, expected) in [
            ("request-fields = { unless-error = {} }", "unknown key `unless-error` in request-fields"),
            ("response-fields = { unless-eror = {} }", "unknown key `unless-eror` in response-fields"),
            ("response-fields = { unless-error = { unless-error = {} } }", "unknown key `unless-error` in unless-error"),
            (
                "response-fields = { unless-error = { set = { Host = 'a' } } }",
                "bad field `Host`: only the server writes this field",
            ),
            ("response-fields = { unless-error = true }", "`unless-error` is a table, not a boolean"),
        ] {
            let findings = read(filters).expect_err(filters);
            assert!(findings.to_string().contains(expected), "{filters}: {findings}");
        }
    }
}
