//! `cors`: the rule for requests of other origins.

use super::texts;
use crate::conditions::is_token;
use crate::table::{Entry, Reader};
use oribi_config::{duration, quoted};
use oribi_filter::{Cors, CorsOptions};

/// The keys of `cors`.
const CORS: &[&str] = &["origins", "methods", "fields", "expose", "credentials", "max-age"];

/// Reads the rule.
pub(super) fn cors(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<Cors> {
    let (mut origins, mut options) = (Vec::new(), CorsOptions::default());
    let mut complete = true;
    let entries = reader.table(entry)?;
    for &inside in &entries {
        complete &= match inside.key {
            "origins" => texts(reader, inside).map(|texts| origins = texts).is_some(),
            "methods" => names(reader, inside)
                .filter(|names| are_capitals(reader, inside, names))
                .map(|names| options.methods = names)
                .is_some(),
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

/// Reports methods in small letters: their case matters (RFC 9110, section 9.1).
fn are_capitals(reader: &mut Reader<'_>, entry: Entry<'_>, names: &[String]) -> bool {
    let small = names.iter().find(|name| name.bytes().any(|byte| byte.is_ascii_lowercase()));
    if let Some(name) = small {
        reader.mistake(entry.value.at, format!("bad value `{}` for methods: methods are in capitals", quoted(name)));
    }
    small.is_none()
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
    let time = duration(&text.value).ok().filter(|time| time.subsec_nanos() == 0);
    if time.is_none() {
        reader.mistake(
            entry.value.at,
            format!("bad value `{}` for {}: expected a time in whole seconds, such as \"10m\"", text.quoted(), entry.key),
        );
    }
    time.map(|time| time.as_secs())
}
