//! `cache`: the rules by which responses of apps are stored.

use crate::content::Cache;
use crate::table::{Entry, Reader};
use oribi_cache::Rules;
use oribi_config::{duration, size};
use toml::de::DeValue;

/// The keys of `cache`.
const CACHE: &[&str] = &["size", "max-object", "default-age", "stale-while-revalidate", "stale-if-error", "request-directives"];

/// The memory for stored responses, in bytes, if no other is given.
const SIZE: u64 = 32 << 20;

/// The least and the most memory, and the largest response, in bytes.
const LEAST_BYTES: u64 = 64 << 10;
const MOST_BYTES: u64 = 64 << 30;
const LARGEST_BYTES: u64 = 64 << 20;

/// Reads the rules: `true`, or a table.
pub(super) fn cache(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<Cache> {
    let mut cache = Cache { rules: Rules::default(), size: SIZE };
    if let DeValue::Boolean(true) = entry.value.data {
        return Some(cache);
    }
    if !matches!(entry.value.data, DeValue::Table(_)) {
        reader.wrong_type(entry, entry.value, "true, false or a table");
        return None;
    }
    let mut complete = true;
    for inside in reader.table(entry)? {
        let rules = &mut cache.rules;
        complete &= match inside.key {
            "size" => bytes(reader, inside, LEAST_BYTES, MOST_BYTES).map(|bytes| cache.size = bytes).is_some(),
            "max-object" => bytes(reader, inside, 0, LARGEST_BYTES).map(|bytes| rules.max_object = bytes).is_some(),
            "default-age" => seconds(reader, inside).map(|age| rules.default_age = (age > 0).then_some(age)).is_some(),
            "stale-while-revalidate" => seconds(reader, inside).map(|time| rules.stale_while_revalidate = time).is_some(),
            "stale-if-error" => seconds(reader, inside).map(|time| rules.stale_if_error = time).is_some(),
            "request-directives" => reader.boolean(inside).map(|on| rules.heeds_requests = on).is_some(),
            _ => {
                reader.unknown_or(inside, "cache", CACHE.iter().copied(), &[("ttl", "default-age")]);
                false
            }
        };
    }
    if complete && cache.rules.max_object > cache.size {
        reader.mistake(entry.at, "`max-object` is larger than `size`: no such response could be stored");
        return None;
    }
    complete.then_some(cache)
}

fn bytes(reader: &mut Reader<'_>, entry: Entry<'_>, least: u64, most: u64) -> Option<u64> {
    let Some(text) = reader.scalar(entry.value, false) else {
        reader.wrong_type(entry, entry.value, "a size, such as \"32m\"");
        return None;
    };
    let text = text?;
    let bytes = size(&text.value, least..=most);
    if let Err(why) = &bytes {
        let why = if text.from_environment { "expected a size, such as \"32m\"" } else { why };
        reader.mistake(entry.value.at, format!("bad value `{}` for {}: {why}", text.quoted(), entry.key));
    }
    bytes.ok()
}

/// Reads a time in whole seconds.
fn seconds(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<u32> {
    let Some(text) = reader.scalar(entry.value, false) else {
        reader.wrong_type(entry, entry.value, "a time, such as \"10s\"");
        return None;
    };
    let text = text?;
    let whole = duration(&text.value).ok().filter(|time| time.subsec_nanos() == 0);
    let seconds = whole.and_then(|time| u32::try_from(time.as_secs()).ok());
    if seconds.is_none() {
        reader.mistake(
            entry.value.at,
            format!("bad value `{}` for {}: expected a time in whole seconds, such as \"10s\"", text.quoted(), entry.key),
        );
    }
    seconds
}
