//! `match`: the conditions of a route.

use crate::content::{Match, Pattern, Text};
use crate::table::{Entry, Reader, Value, did_you_mean, kind};
use oribi_config::{TrustedPeers, is_secret_name, quoted};
use toml::de::DeValue;

/// The keys of `match`.
pub(crate) const KEYS: &[&str] = &["host", "path", "method", "field", "query", "source", "scheme"];

/// The methods of RFC 9110 and PATCH, for suggestions.
const METHODS: &[&str] = &["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];

/// Reads the value of `match`.
pub(crate) fn conditions(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<Match> {
    let mut found = Match::default();
    let mut complete = true;
    for entry in reader.table(entry)? {
        let read = match entry.key {
            "host" => patterns(reader, entry, host).map(|patterns| found.host = patterns),
            "path" => patterns(reader, entry, path).map(|patterns| found.path = patterns),
            "method" => patterns(reader, entry, method).map(|patterns| found.method = patterns),
            "source" => patterns(reader, entry, source).map(|patterns| found.source = patterns),
            "scheme" => patterns(reader, entry, scheme).map(|patterns| found.scheme = patterns),
            "field" => named(reader, entry, is_token, "field").map(|named| found.field = named),
            "query" => named(reader, entry, |name| !name.is_empty(), "parameter").map(|named| found.query = named),
            _ => {
                reader.unknown(entry, "match", KEYS.iter().copied());
                None
            }
        };
        complete &= read.is_some();
    }
    complete.then_some(found)
}

impl Match {
    /// Whether every request meets the conditions.
    pub(crate) fn is_met_by_all(&self) -> bool {
        let open = |patterns: &Vec<Pattern>| {
            let all = |pattern: &Pattern| matches!(pattern.text.value.as_str(), "*" | "/*");
            patterns.is_empty() || (patterns.iter().any(all) && patterns.iter().all(|pattern| !pattern.negated))
        };
        let narrow = [&self.method, &self.source, &self.scheme];
        let named = self.field.is_empty() && self.query.is_empty();
        named && narrow.iter().all(|patterns| patterns.is_empty()) && open(&self.host) && open(&self.path)
    }
}

/// A check of a pattern without its `!`: the message, and a suggestion.
type Check = fn(&str) -> Result<(), (String, Option<String>)>;

/// Reads a pattern or an array of patterns.
fn patterns(reader: &mut Reader<'_>, entry: Entry<'_>, check: Check) -> Option<Vec<Pattern>> {
    let values: Vec<Value<'_>> = match entry.value.data {
        DeValue::Array(array) => array.iter().map(Value::of).collect(),
        _ => vec![entry.value],
    };
    if values.is_empty() {
        reader.mistake(entry.value.at, format!("`{}` has no pattern: no request would fit", quoted(entry.key)));
        return None;
    }
    let mut complete = true;
    let mut patterns = Vec::new();
    for value in values {
        let pattern = pattern(reader, entry, value, check);
        complete &= pattern.is_some();
        patterns.extend(pattern);
    }
    complete.then_some(patterns)
}

fn pattern(reader: &mut Reader<'_>, entry: Entry<'_>, value: Value<'_>, check: Check) -> Option<Pattern> {
    let read = reader.scalar(value, false);
    let Some(text) = read.filter(|_| !matches!(value.data, DeValue::Boolean(_))) else {
        let message = format!("`{}` is a string or an array of strings, not {}", quoted(entry.key), kind(value.data));
        reader.mistake(value.at, message);
        return None;
    };
    let mut text: Text = text?;
    let negated = text.value.starts_with('!');
    if negated {
        text.value.remove(0);
    }
    let Err((why, suggestion)) = check(&text.value) else { return Some(Pattern { negated, text }) };
    let hidden = text.from_environment || is_secret_name(entry.key);
    let (shown, name) = (if hidden { "***".to_owned() } else { text.quoted() }, quoted(entry.key));
    let suggestion = suggestion.filter(|_| !hidden);
    reader.report.suggest(reader.source, value.at, format!("bad value `{shown}` for {name}: {why}"), || suggestion);
    None
}

/// Reads patterns for the values of fields or parameters, by their names.
fn named(
    reader: &mut Reader<'_>,
    entry: Entry<'_>,
    is_name: fn(&str) -> bool,
    what: &str,
) -> Option<Vec<(String, Vec<Pattern>)>> {
    let mut complete = true;
    let mut named = Vec::new();
    for entry in reader.table(entry)? {
        if !is_name(entry.key) {
            reader.mistake(entry.at, format!("bad name `{}` for a {what}", quoted(entry.key)));
            complete = false;
            continue;
        }
        let patterns = patterns(reader, entry, value_of_request);
        complete &= patterns.is_some();
        named.extend(patterns.map(|patterns| (entry.key.to_owned(), patterns)));
    }
    complete.then_some(named)
}

fn refused(why: &str) -> Result<(), (String, Option<String>)> {
    Err((why.to_owned(), None))
}

fn host(text: &str) -> Result<(), (String, Option<String>)> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let fits = match bare {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._*".contains(&byte)),
    };
    if fits { Ok(()) } else { refused("expected a host name without a port, such as example.com or *.example.com") }
}

fn path(text: &str) -> Result<(), (String, Option<String>)> {
    let plain = |letter: char| !letter.is_control() && !letter.is_whitespace() && !"?#".contains(letter);
    if text.starts_with(['/', '*']) && text.chars().all(plain) {
        return Ok(());
    }
    refused("expected a path such as /shop or /shop/*; a query has a condition of its own: query = { NAME = \"VALUE\" }")
}

fn method(text: &str) -> Result<(), (String, Option<String>)> {
    let upper = text.to_ascii_uppercase();
    if is_token(text) && (text == upper || !METHODS.contains(&upper.as_str())) {
        return Ok(());
    }
    let why = "expected a method in its own letters, such as GET";
    Err((why.to_owned(), did_you_mean(text, METHODS.iter().copied())))
}

fn source(text: &str) -> Result<(), (String, Option<String>)> {
    TrustedPeers::parse(text).map(drop).or_else(|_| {
        refused("expected an IP address, a network such as 10.0.0.0/8, or unix; a network has no bits after its prefix")
    })
}

fn scheme(text: &str) -> Result<(), (String, Option<String>)> {
    const SCHEMES: [&str; 2] = ["http", "https"];
    let known = SCHEMES.contains(&text);
    if known { Ok(()) } else { Err(("expected http or https".to_owned(), did_you_mean(text, SCHEMES.into_iter()))) }
}

fn value_of_request(text: &str) -> Result<(), (String, Option<String>)> {
    if text.chars().any(char::is_control) { refused("expected a text without control characters") } else { Ok(()) }
}

/// Whether a text is a token (RFC 9110, section 5.6.2): a method, or the name of a field.
pub(crate) fn is_token(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(fits)
}
