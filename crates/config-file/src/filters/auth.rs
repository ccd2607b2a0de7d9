//! `auth`: requests need a user and a password, or an app is asked whether they may go on.

use super::texts;
use crate::content::{Ask, Auth, NamedPath, NeededPath, Passwords, PathKind};
use crate::table::{Entry, Reader};
use oribi_filter::FieldChanges;

/// The keys of `auth` with a file of users, and those with an app.
const PASSWORDS: &[&str] = &["htpasswd", "realm", "weak", "keep", "field"];
const ASK: &[&str] = &["app", "path", "fields"];

/// Whether messages may show the value of a key of `auth`. Those of unknown keys may be passwords, and hashes of passwords may
/// stand in place of the file.
pub(crate) fn is_shown(key: &str) -> bool {
    key != "htpasswd" && PASSWORDS.iter().chain(ASK).any(|known| *known == key)
}

/// The name of the protected part, if the file gives none.
const REALM: &str = "Restricted";

/// Reads the rule.
pub(super) fn auth(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<Auth> {
    let entries = reader.table(entry)?;
    let is_there = |wanted: &str| entries.iter().any(|inside| inside.key == wanted);
    match (is_there("htpasswd"), is_there("app")) {
        (true, true) => {
            reader.mistake(entry.at, "`auth` has either htpasswd = \"FILE\" or app = \"NAME\"");
            None
        }
        (_, false) => passwords(reader, entry, &entries).map(Auth::Passwords),
        (false, true) => ask(reader, entry, &entries).map(Auth::Ask),
    }
}

fn passwords(reader: &mut Reader<'_>, entry: Entry<'_>, entries: &[Entry<'_>]) -> Option<Passwords> {
    let (mut htpasswd, mut realm, mut field, mut weak, mut keep) = (None, REALM.to_owned(), None, false, false);
    let mut complete = true;
    for &inside in entries {
        complete &= match inside.key {
            "htpasswd" => {
                htpasswd = reader.path(inside);
                htpasswd.is_some()
            }
            "realm" => named(reader, inside).map(|name| realm = name).is_some(),
            "weak" => {
                let read = reader.boolean(inside);
                // After a mistake, a weak hash is none.
                weak = read.unwrap_or(true);
                read.is_some()
            }
            "keep" => reader.boolean(inside).map(|on| keep = on).is_some(),
            "field" => names_of_fields(reader, inside).map(|names| field = names.into_iter().next()).is_some(),
            key if ASK.contains(&key) => {
                reader.mistake(inside.at, format!("`{key}` needs app = \"NAME\", the app that is asked"));
                false
            }
            _ => {
                reader.unknown(inside, "auth", PASSWORDS.iter().chain(ASK).copied());
                false
            }
        };
    }
    if let Some(path) = &htpasswd {
        let kind = PathKind::Users { weak };
        reader.needed.push(NeededPath { path: path.clone(), key: "htpasswd", kind });
    }
    if htpasswd.is_none() && complete {
        reader.mistake(
            entry.at,
            "`auth` needs htpasswd = \"FILE\", with users and the hashes of their passwords, or app = \"NAME\"",
        );
    }
    let NamedPath { path: htpasswd, place, .. } = htpasswd.filter(|_| complete)?;
    Some(Passwords { htpasswd, realm, weak, keep, field, place })
}

fn ask(reader: &mut Reader<'_>, entry: Entry<'_>, entries: &[Entry<'_>]) -> Option<Ask> {
    let (mut app, mut path, mut fields) = (None, None, Vec::new());
    let mut complete = true;
    for &inside in entries {
        complete &= match inside.key {
            "app" => {
                app = reader.text(inside, inside.value);
                app.is_some()
            }
            "path" => {
                path = target(reader, inside);
                path.is_some()
            }
            "fields" => names_of_fields(reader, inside).map(|names| fields = names).is_some(),
            key if PASSWORDS.contains(&key) => {
                reader.mistake(inside.at, format!("`{key}` needs htpasswd = \"FILE\", and no app"));
                false
            }
            _ => {
                reader.unknown(inside, "auth", ASK.iter().copied());
                false
            }
        };
    }
    if path.is_none() && complete {
        reader.mistake(entry.at, "`auth` with app = \"NAME\" needs path = \"/PATH\", at which the app is asked");
    }
    let (app, path) = app.zip(path).filter(|_| complete)?;
    Some(Ask { app, path, fields })
}

/// Reads the path of a question.
fn target(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<String> {
    let text = reader.text(entry, entry.value)?;
    if text.value.starts_with('/') && text.value.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
        return Some(text.value);
    }
    reader.mistake(entry.value.at, format!("bad value `{}` for path: expected a path such as /check", text.quoted()));
    None
}

/// Reads a text without control characters.
fn named(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<String> {
    let text = reader.text(entry, entry.value)?;
    if text.value.chars().any(char::is_control) {
        reader.mistake(entry.value.at, format!("`{}` is a text without control characters", entry.key));
        return None;
    }
    Some(text.value)
}

/// Reads names of fields that the server may set.
fn names_of_fields(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<Vec<String>> {
    let texts = texts(reader, entry)?;
    let mut names = Vec::new();
    for (value, text) in &texts {
        let refused = match FieldChanges::default().remove(&text.value) {
            Ok(()) if text.value.contains('_') => Some("apps get `_` for `-` in names of fields, so write `-`"),
            Ok(()) if entry.key == "field" && text.value.eq_ignore_ascii_case("Authorization") => {
                Some("the password is in this field")
            }
            outcome => outcome.err(),
        };
        match refused {
            Some(why) => {
                reader.mistake(value.at, format!("bad value `{}` for {}: {why}", text.quoted(), entry.key));
            }
            None => names.push(text.value.clone()),
        }
    }
    if entry.key == "field" && texts.len() != 1 {
        reader.mistake(entry.value.at, "`field` is the name of one field");
        return None;
    }
    (names.len() == texts.len()).then_some(names)
}
