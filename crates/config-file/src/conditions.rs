//! `match`: the conditions of a route.

use crate::content::{Match, Pattern, Text};
use crate::table::{Entry, Reader, Value, did_you_mean, kind};
use oribi_config::{is_secret_name, quoted};
use oribi_route::{NamedPattern, Rule, RuleError, Table as RouteTable};
use toml::de::DeValue;

/// The keys of `match`.
pub(crate) const KEYS: &[&str] = &["host", "path", "method", "field", "query", "source", "destination", "scheme"];

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
            "destination" => patterns(reader, entry, destination).map(|patterns| found.destination = patterns),
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
        let narrow = [&self.method, &self.source, &self.destination, &self.scheme];
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
    by_rule(Rule { host: vec![text.to_owned()], ..Rule::default() })
}

fn path(text: &str) -> Result<(), (String, Option<String>)> {
    if !text.starts_with('~') && text.contains('?') {
        return refused("a query has a condition of its own: query = { NAME = \"VALUE\" }");
    }
    by_rule(Rule { path: vec![text.to_owned()], ..Rule::default() })
}

fn method(text: &str) -> Result<(), (String, Option<String>)> {
    let upper = text.to_ascii_uppercase();
    let is_pattern = text.starts_with('~') || text.contains('*');
    if is_pattern || is_token(text) && (text == upper || !METHODS.contains(&upper.as_str())) {
        return by_rule(Rule { method: vec![text.to_owned()], ..Rule::default() });
    }
    let why = "expected a method in its own letters, such as GET";
    Err((why.to_owned(), did_you_mean(text, METHODS.iter().copied())))
}

fn source(text: &str) -> Result<(), (String, Option<String>)> {
    by_rule(Rule { source: vec![text.to_owned()], ..Rule::default() })
}

fn destination(text: &str) -> Result<(), (String, Option<String>)> {
    by_rule(Rule { destination: vec![text.to_owned()], ..Rule::default() })
}

fn scheme(text: &str) -> Result<(), (String, Option<String>)> {
    let suggestion = || did_you_mean(text, ["http", "https"].into_iter());
    by_rule(Rule { scheme: vec![text.to_owned()], ..Rule::default() }).map_err(|(why, _)| (why, suggestion()))
}

fn value_of_request(text: &str) -> Result<(), (String, Option<String>)> {
    if text.chars().any(char::is_control) {
        return refused("expected a text without control characters");
    }
    // The kind of the list makes no difference for the pattern.
    let pattern = NamedPattern { name: "name".to_owned(), value: Some(text.to_owned()) };
    by_rule(Rule { field: vec![pattern], ..Rule::default() })
}

/// Checks a rule with one pattern as the table of routes does.
fn by_rule(rule: Rule) -> Result<(), (String, Option<String>)> {
    let error = RouteTable::compile(&[rule]).err().and_then(|errors| errors.into_iter().next());
    let Some(RuleError { list, message, .. }) = error else { return Ok(()) };
    let subject = if list == "source" { "network" } else { list };
    let why = message.strip_prefix("bad ").and_then(|rest| rest.strip_prefix(subject)).and_then(|rest| rest.strip_prefix("; "));
    Err((why.unwrap_or(&message).to_owned(), None))
}

/// Whether a text is a token (RFC 9110, section 5.6.2): a method, or the name of a field.
pub(crate) fn is_token(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(fits)
}
