//! `compress`: the rule for compression.

use super::texts;
use crate::table::{Entry, Reader};
use oribi_config::size;
use oribi_filter::{Coding, Compression, CompressionSettings, MediaRange};
use toml::de::DeValue;

/// The keys of `compress`.
const COMPRESSION: &[&str] = &["codings", "types", "min-size", "max-size", "private"];

/// The largest content that may be compressed as a whole, in bytes.
const MOST_BYTES: u64 = 8 << 20;

/// Reads the rule: `true`, or a table.
pub(super) fn compression(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<Compression> {
    let mut settings = CompressionSettings::default();
    if let DeValue::Boolean(true) = entry.value.data {
        return Some(Compression::new(settings));
    }
    if !matches!(entry.value.data, DeValue::Table(_)) {
        reader.wrong_type(entry, entry.value, "true, false or a table");
        return None;
    }
    let mut complete = true;
    for inside in reader.table(entry)? {
        complete &= match inside.key {
            "codings" => {
                let coding = |name: &str| Coding::ALL.into_iter().find(|coding| coding.name() == name);
                all(reader, inside, coding, "expected zstd, br or gzip").map(|codings| settings.codings = codings).is_some()
            }
            "types" => {
                let expected = "expected a media type without parameters, such as application/json or text/*";
                let types = all(reader, inside, |text| MediaRange::parse(text).ok(), expected);
                types.map(|types| settings.types = types).is_some()
            }
            "min-size" => bytes(reader, inside).map(|bytes| settings.min_size = bytes).is_some(),
            "max-size" => bytes(reader, inside).map(|bytes| settings.max_size = bytes).is_some(),
            "private" => reader.boolean(inside).map(|on| settings.private = on).is_some(),
            _ => {
                reader.unknown(inside, "compress", COMPRESSION.iter().copied());
                false
            }
        };
    }
    let CompressionSettings { codings, types, min_size, max_size, .. } = &settings;
    if complete && (codings.is_empty() || types.is_empty() || min_size > max_size) {
        reader.mistake(entry.at, "`compress` would compress nothing: for that, write compress = false");
        return None;
    }
    complete.then(|| Compression::new(settings))
}

/// Reads a string or an array of strings, each of which stands for something.
fn all<T>(reader: &mut Reader<'_>, entry: Entry<'_>, parse: impl Fn(&str) -> Option<T>, expected: &str) -> Option<Vec<T>> {
    let texts = texts(reader, entry)?;
    let mut parsed = Vec::new();
    for (value, text) in &texts {
        match parse(&text.value) {
            Some(item) => parsed.push(item),
            None => reader.mistake(value.at, format!("bad value `{}` for {}: {expected}", text.quoted(), entry.key)),
        }
    }
    (parsed.len() == texts.len()).then_some(parsed)
}

/// Reads a size.
fn bytes(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<u64> {
    let Some(text) = reader.scalar(entry.value, false) else {
        reader.wrong_type(entry, entry.value, "a size, such as \"1k\"");
        return None;
    };
    let text = text?;
    let bytes = size(&text.value, 0..=MOST_BYTES);
    if let Err(why) = &bytes {
        let why = if text.from_environment { "expected a size, such as \"1k\"" } else { why };
        reader.mistake(entry.value.at, format!("bad value `{}` for {}: {why}", text.quoted(), entry.key));
    }
    bytes.ok()
}
