//! `match`: the conditions of a step.

use super::decoded;
use super::networks::networks;
use super::patterns::{LITERAL, LITERAL_STAR, escaped};
use crate::conditions::{Match, Named};
use crate::draft::Draft;
use crate::note::Key;
use crate::tree::Node;
use oribi_route::{NamedPattern, Rule, Table};

/// The most routes that one step becomes.
const ALTERNATIVES: usize = 64;

/// Conditions as alternatives, each of which a route can say.
pub(super) struct Conditions {
    pub alternatives: Vec<Match>,
    /// Whether these are all conditions. Otherwise more requests meet the alternatives.
    pub complete: bool,
}

/// Reads conditions.
pub(super) fn read(node: &Node, key: &Key, draft: &mut Draft) -> Conditions {
    let mut found = vec![Match::default()];
    let mut complete = true;
    for (name, value) in node.entries() {
        let inside = key.inside(name);
        let alternatives = match name.as_str() {
            "uri" => patterns(value, pattern_decoded).map(|patterns| super::patterns::of_paths(&patterns)),
            "host" => patterns(value, str::to_ascii_lowercase).map(|patterns| vec![super::patterns::of_hosts(patterns)]),
            "method" => simple(value, |patterns| Match { method: patterns, ..Match::default() }, method),
            "scheme" => simple(value, |patterns| Match { scheme: patterns, ..Match::default() }, str::to_ascii_lowercase),
            "source" => source(value, draft.server.has("trusted-proxies")),
            "destination" => destination(value),
            "headers" => {
                let make = |field| Match { field, ..Match::default() };
                named(value, make, str::to_owned, str::to_owned, super::patterns::of_field)
            }
            "arguments" => {
                let make = |query| Match { query, ..Match::default() };
                let pattern = |text: &str| pattern_decoded(&spaced(text));
                named(value, make, |name| decoded(&spaced(name)), pattern, super::patterns::of_value)
            }
            "cookies" => cookies(value),
            _ => None,
        };
        let invalid = alternatives.iter().flatten().find_map(invalid);
        let Some(alternatives) = alternatives.filter(|_| invalid.is_none()) else {
            value.skip();
            let text = match name.as_str() {
                "destination" => "destination takes addresses and networks with ports, unix, and unix:/PATH",
                "query" => "conditions are about single parameters: query = { NAME = \"VALUE\" }",
                "source" => "source takes addresses and networks, without ports, and unix only if no proxy is trusted",
                "cookies" => "a route compares one cookie with patterns that it must have: field = { Cookie = \"~...\" }",
                "if" => "conditions have no scripts and variables",
                _ => "no such condition",
            };
            draft.lost(&inside, invalid.unwrap_or_else(|| text.to_owned()));
            complete = false;
            continue;
        };
        let mut joined = Vec::new();
        for one in &found {
            for other in &alternatives {
                // Each key is there once, so that the conditions have no list in common but that of fields.
                match one.and(other) {
                    Ok(Some(both)) => joined.push(both),
                    Ok(None) => {}
                    Err(()) => {
                        draft.lost(&inside, "two conditions about one field");
                        joined.push(one.clone());
                        complete = false;
                    }
                }
            }
        }
        if joined.len() > ALTERNATIVES {
            draft.lost(&inside, format!("more than {ALTERNATIVES} alternatives"));
            return Conditions { alternatives: vec![Match::default()], complete: false };
        }
        found = joined;
    }
    Conditions { alternatives: found, complete }
}

/// The reason why a route cannot have a condition.
fn invalid(conditions: &Match) -> Option<String> {
    let named = |named: &Named| {
        let pattern = |name: &String, value: &String| NamedPattern { name: name.clone(), value: Some(value.clone()) };
        named.iter().flat_map(|(name, values)| values.iter().map(move |value| pattern(name, value))).collect()
    };
    let rule = Rule {
        host: conditions.host.clone(),
        path: conditions.path.clone(),
        method: conditions.method.clone(),
        field: named(&conditions.field),
        query: named(&conditions.query),
        source: conditions.source.clone(),
        destination: conditions.destination.clone(),
        scheme: conditions.scheme.clone(),
    };
    let errors = Table::compile(&[rule]).err()?;
    errors.first().map(|error| error.message.clone())
}

/// A list of patterns.
fn simple(node: &Node, make: impl Fn(Vec<String>) -> Match, change: impl Fn(&str) -> String) -> Option<Vec<Match>> {
    Some(vec![make(patterns(node, change)?)])
}

fn patterns(node: &Node, change: impl Fn(&str) -> String) -> Option<Vec<String>> {
    let texts: Option<Vec<String>> = node.values().iter().map(Node::scalar).collect();
    let is_expression = |text: &String| text.trim_start_matches('!').starts_with('~');
    texts.map(|texts| texts.into_iter().map(|text| if is_expression(&text) { text } else { change(&text) }).collect())
}

fn method(text: &str) -> String {
    text.to_ascii_uppercase()
}

/// Conditions for the address of the client. `forwarded`: that of another one may take its place.
fn source(node: &Node, forwarded: bool) -> Option<Vec<Match>> {
    let (mut list, mut unix, mut no_unix) = (Vec::new(), false, false);
    let all = patterns(node, str::to_owned)?;
    if all.is_empty() {
        // No client is in an empty list.
        return Some(Vec::new());
    }
    for text in all {
        let (sign, address) = text.strip_prefix('!').map_or(("", &*text), |rest| ("!", rest));
        match (address, address.split_once('-')) {
            ("unix", _) if sign.is_empty() => unix = true,
            ("unix", _) => no_unix = true,
            ("*:0-65535" | "*:1-65535", _) => list.extend(["0.0.0.0/0", "::/0"].map(|network| format!("{sign}{network}"))),
            (_, Some((first, last))) => {
                let networks = networks(first.trim().parse().ok()?, last.trim().parse().ok()?)?;
                list.extend(networks.into_iter().map(|network| format!("{sign}{network}")));
            }
            (_, None) => list.push(text),
        }
    }
    if forwarded && (unix || no_unix) {
        return None;
    }
    // A client at a Unix socket is in no network.
    let networks = list.iter().any(|pattern| !pattern.starts_with('!'));
    let at = |pattern: &str| Match { destination: vec![pattern.to_owned()], ..Match::default() };
    let others = match (no_unix && !networks, list.is_empty()) {
        (true, _) => Some(Match { source: list, ..at("!unix") }),
        (false, false) if networks || !unix => Some(Match { source: list, ..Match::default() }),
        _ => None,
    };
    Some(others.into_iter().chain((unix && !no_unix).then(|| at("unix"))).collect())
}

fn destination(node: &Node) -> Option<Vec<Match>> {
    let mut list = Vec::new();
    for text in patterns(node, str::to_owned)? {
        let (sign, pattern) = text.strip_prefix('!').map_or(("", &*text), |rest| ("!", rest));
        if pattern == "unix" || pattern.starts_with("unix:") {
            list.push(text);
            continue;
        }
        let (host, port) = match pattern.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, port)) => (host, port.strip_prefix(':')),
            None if pattern.matches(':').count() == 1 => pattern.split_once(':').map(|(host, port)| (host, Some(port)))?,
            None => (pattern, None),
        };
        let Some((first, last)) = host.split_once('-') else {
            list.push(text);
            continue;
        };
        for network in networks(first.trim().parse().ok()?, last.trim().parse().ok()?)? {
            let network = if network.contains(':') && port.is_some() { format!("[{network}]") } else { network };
            list.push(format!("{sign}{network}{}", port.map_or_else(String::new, |port| format!(":{port}"))));
        }
    }
    // No address is in an empty list.
    let is_met = !list.is_empty();
    Some(is_met.then(|| Match { destination: list, ..Match::default() }).into_iter().collect())
}

/// A text with spaces in the form that a query has of them.
fn spaced(text: &str) -> String {
    text.replace('+', " ")
}

/// A pattern with its escapes decoded. A star that was escaped is no wildcard, and only the first `!` is a sign.
fn pattern_decoded(text: &str) -> String {
    let (sign, rest) = text.strip_prefix('!').map_or(("", text), |rest| ("!", rest));
    let rest = decoded(&rest.replace("%2a", "%2A").replace("%2A", LITERAL_STAR));
    let literal = if rest.starts_with(['!', '~']) { LITERAL } else { "" };
    format!("{sign}{literal}{rest}")
}

/// Patterns by names: an object, or an array of objects, one of which must fit. `name_of` reads a name, and `change` a
/// pattern.
fn named(
    node: &Node,
    make: impl Fn(Named) -> Match,
    name_of: impl Fn(&str) -> String,
    change: impl Fn(&str) -> String + Copy,
    written: impl Fn(Vec<String>) -> Vec<String>,
) -> Option<Vec<Match>> {
    let mut alternatives = Vec::new();
    let objects = node.values();
    if objects.is_empty() {
        return Some(vec![make(Named::new())]);
    }
    for object in objects {
        if !object.is_map() {
            return None;
        }
        let entries = object.entries().iter();
        let named: Option<Named> =
            entries.map(|(name, value)| Some((name_of(name), written(patterns(value, change)?)))).collect();
        alternatives.push(make(named?));
    }
    (!alternatives.is_empty()).then_some(alternatives)
}

/// Cookies as expressions about the field.
fn cookies(node: &Node) -> Option<Vec<Match>> {
    let make = |field| Match { field, ..Match::default() };
    let found = named(node, make, str::to_owned, str::to_owned, |patterns| patterns)?;
    found
        .into_iter()
        .map(|one| {
            let (name, patterns) = match one.field.as_slice() {
                [] => return Some(Match::default()),
                [(name, patterns)] => (name, patterns),
                _ => return None,
            };
            let expressions: Option<Vec<String>> = patterns.iter().map(|pattern| cookie(name, pattern)).collect();
            Some(Match { field: vec![("Cookie".to_owned(), expressions?)], ..Match::default() })
        })
        .collect()
}

fn cookie(name: &str, pattern: &str) -> Option<String> {
    if pattern.starts_with(['!', '~']) {
        return None;
    }
    let value: Vec<String> = pattern.split('*').map(escaped).collect();
    Some(format!("~(^|; *){}={}(;|$)", escaped(name), value.join("[^;]*")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_of_unix_sockets_are_those_that_arrive_there() {
        let read = |text: &str, forwarded| {
            let found = source(&serde_json::from_str(text).expect("JSON"), forwarded)?;
            let lists = found.iter().map(|found| format!("{}>{}", found.source.join(" "), found.destination.join(" ")));
            Some(lists.collect::<Vec<_>>().join(", "))
        };
        for (text, expected) in [
            (r#""unix""#, ">unix"),
            (r#"["unix", "10.0.0.1"]"#, "10.0.0.1>, >unix"),
            (r#"["unix", "!10.0.0.1"]"#, ">unix"),
            (r#""!unix""#, ">!unix"),
            (r#"["!unix", "10.0.0.1"]"#, "10.0.0.1>"),
            (r#"["!unix", "!10.0.0.1"]"#, "!10.0.0.1>!unix"),
            (r#"["unix", "!unix"]"#, ">!unix"),
            (r#""*:0-65535""#, "0.0.0.0/0 ::/0>"),
            (r#""!10.0.0.1""#, "!10.0.0.1>"),
            ("[]", ""),
        ] {
            assert_eq!(read(text, false).as_deref(), Some(expected), "{text}");
        }
        assert_eq!(read(r#""unix""#, true), None);
        assert_eq!(read(r#""10.0.0.1""#, true).as_deref(), Some("10.0.0.1>"));
    }

    #[test]
    fn a_range_of_addresses_keeps_its_port() {
        let read = |text: &str| {
            let node: Node = serde_json::from_str(text).expect("JSON");
            destination(&node).map(|found| found.into_iter().flat_map(|found| found.destination).collect::<Vec<_>>().join(" "))
        };
        for (text, expected) in [
            (
                r#"["*:80", "!10.0.0.1", "unix", "10.0.0.0/8:80-90", "[::1]:80"]"#,
                Some("*:80 !10.0.0.1 unix 10.0.0.0/8:80-90 [::1]:80"),
            ),
            (r#"["unix:/run/a-b:c.sock", "!unix:/run/*"]"#, Some("unix:/run/a-b:c.sock !unix:/run/*")),
            (r#""!10.0.0.1-10.0.0.2:80""#, Some("!10.0.0.1/32:80 !10.0.0.2/32:80")),
            (r#""[::2-::3]:8080-8090""#, Some("[::2/127]:8080-8090")),
            (r#""10.0.0.1-x""#, None),
            ("[]", Some("")),
        ] {
            assert_eq!(read(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn arguments_are_decoded_as_a_form_is() {
        let read = |text: &str| {
            let node: Node = serde_json::from_str(text).expect("JSON");
            let found = read(&node, &Key::new("match"), &mut Draft::default());
            let mut all = found.alternatives.into_iter().flat_map(|found| found.query);
            all.next().map(|(name, patterns)| format!("{name}: {}", patterns.join(", ")))
        };
        for (text, expected) in [
            (r#"{"arguments": {"b": "1+2"}}"#, "b: 1 2"),
            (r#"{"arguments": {"b+c": "!1%2B2"}}"#, "b c: *, !1+2"),
            (r#"{"arguments": {"a%2A": "1%2a"}}"#, r"a*: ~^1\*$"),
            (r#"{"arguments": {"%21x": "%21x*"}}"#, "!x: ~^!x.*$"),
            (r#"{"arguments": {"%7Ex": "~a+b"}}"#, "~x: ~a+b"),
        ] {
            assert_eq!(read(text).as_deref(), Some(expected), "{text}");
        }
    }
}
