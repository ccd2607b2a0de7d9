//! `limit`: limits of the rate, of the number of open requests, or of the wait in the queue.

use crate::conditions::is_token;
use crate::content::Limit;
use crate::table::{Entry, Reader, Value, entries, kind};
use oribi_config::duration;
use oribi_limit::{LimitBy, LimitOf, Rule};
use std::time::Duration;
use toml::de::DeValue;

/// The keys of `limit`.
const LIMIT: &[&str] = &["requests", "per", "burst", "open", "queue", "by", "field", "dry-run"];

/// The most limits of a route.
const MOST: usize = 8;

/// Reads a limit, or an array of limits.
pub(super) fn limits(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<Vec<Limit>> {
    let values: Vec<Value<'_>> = match entry.value.data {
        DeValue::Array(array) => array.iter().map(Value::of).collect(),
        _ => vec![entry.value],
    };
    if values.len() > MOST {
        reader.mistake(entry.at, format!("a route has at most {MOST} limits"));
        return None;
    }
    let mut complete = true;
    let mut limits = Vec::new();
    for value in values {
        let limit = match value.data {
            DeValue::Table(table) => limit(reader, value.at, &entries(table)),
            _ => {
                reader.mistake(value.at, format!("`limit` is a table or an array of tables, not {}", kind(value.data)));
                None
            }
        };
        complete &= limit.is_some();
        limits.extend(limit);
    }
    complete.then_some(limits)
}

fn limit(reader: &mut Reader<'_>, at: usize, entries: &[Entry<'_>]) -> Option<Limit> {
    let (mut requests, mut per, mut burst, mut open, mut queue) = (None, Duration::from_secs(1), None, None, None);
    let (mut by, mut dry_run, mut complete) = (LimitBy::Client, false, true);
    for &inside in entries {
        complete &= match inside.key {
            "requests" => number(reader, inside).map(|number| requests = Some(number)).is_some(),
            "burst" => number(reader, inside).map(|number| burst = Some(number)).is_some(),
            "open" => number(reader, inside).map(|number| open = Some(number)).is_some(),
            "queue" => time(reader, inside).map(|time| queue = Some(time)).is_some(),
            "per" => time(reader, inside).map(|time| per = time).is_some(),
            "by" => named(reader, inside).map(|named| by = named).is_some(),
            "field" => field(reader, inside).map(|name| by = LimitBy::Field(name)).is_some(),
            "dry-run" => reader.boolean(inside).map(|on| dry_run = on).is_some(),
            _ => {
                reader.unknown(inside, "limit", LIMIT.iter().copied());
                false
            }
        };
    }
    let is_there = |key: &str| entries.iter().find(|entry| entry.key == key);
    if let (Some(second), true) = (is_there("field"), is_there("by").is_some()) {
        reader.mistake(second.at, "a limit has either `by` or `field`");
        return None;
    }
    let has_any = |keys: &[&str]| keys.iter().any(|key| is_there(key).is_some());
    let of = match (requests, open, queue) {
        (Some(requests), None, None) => LimitOf::Rate(Rule { requests, per, burst: burst.unwrap_or(requests) }),
        (None, Some(open), None) if !has_any(&["per", "burst"]) => LimitOf::Open(open),
        (None, None, Some(queue)) if !has_any(&["per", "burst", "by", "field"]) => LimitOf::Queue(queue),
        _ if complete => {
            reader.mistake(at, "a limit has either requests = NUMBER and per = TIME, or open = NUMBER, or queue = TIME");
            return None;
        }
        _ => return None,
    };
    if let LimitOf::Rate(rule) = of
        && let Err(why) = rule.check()
    {
        reader.mistake(at, why.to_string());
        return None;
    }
    complete.then(|| Limit { place: reader.source.place(at), of, by, dry_run })
}

/// Reads a number of requests.
fn number(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<u32> {
    let DeValue::Integer(number) = entry.value.data else {
        reader.wrong_type(entry, entry.value, "a number");
        return None;
    };
    let number = u32::from_str_radix(number.as_str(), number.radix()).ok().filter(|number| *number > 0);
    if number.is_none() {
        reader.mistake(entry.value.at, format!("`{}` is a number of requests, at least 1", entry.key));
    }
    number
}

fn time(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<Duration> {
    let Some(text) = reader.scalar(entry.value, false) else {
        reader.wrong_type(entry, entry.value, "a time, such as \"1s\"");
        return None;
    };
    let text = text?;
    let time = duration(&text.value).ok();
    if time.is_none() {
        reader.mistake(
            entry.value.at,
            format!("bad value `{}` for {}: expected a time, such as \"1s\"", text.quoted(), entry.key),
        );
    }
    time
}

fn named(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<LimitBy> {
    let text = reader.text(entry, entry.value)?;
    match text.value.as_str() {
        "client" => Some(LimitBy::Client),
        "all" => Some(LimitBy::All),
        _ => {
            reader.mistake(entry.value.at, format!("bad value `{}` for by: expected client or all", text.quoted()));
            None
        }
    }
}

fn field(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<String> {
    let text = reader.text(entry, entry.value)?;
    if !is_token(&text.value) {
        reader.mistake(entry.value.at, format!("bad value `{}` for field: expected the name of a field", text.quoted()));
        return None;
    }
    Some(text.value)
}
