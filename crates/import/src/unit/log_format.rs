//! The format of the access log, in the letters of Apache's `LogFormat`.

/// Variables with the same value.
const VARIABLES: &[(&str, &str)] = &[
    ("remote_addr", "%a"),
    ("time_local", "%{%d/%b/%Y:%H:%M:%S %z}t"),
    ("request_line", "%r"),
    ("method", "%m"),
    ("status", "%s"),
    ("body_bytes_sent", "%B"),
    ("request_uri", "%U%q"),
    ("dollar", "$"),
];

/// Variables with a similar value, and the difference.
const SIMILAR: &[(&str, &str, &str)] = &[
    ("uri", "%U", "the path as the client has sent it, with escapes, before any rewrite"),
    ("host", "%{Host}i", "as the client has sent it, perhaps with a port"),
    ("request_time", "%{ms}T", "milliseconds, not seconds"),
    ("request_id", "%L", "an id of another form, with the option request-id"),
];

/// Variables that begin with a name.
const FAMILIES: &[(&str, char)] = &[("header_", 'i'), ("response_header_", 'o'), ("cookie_", 'C')];

/// The format, and the differences of its variables.
pub(super) fn pattern(text: &str) -> (String, Vec<String>) {
    let (mut pattern, mut differences) = (String::new(), Vec::new());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        pattern.push_str(&before.replace('%', "%%"));
        let (name, behind) = match after.strip_prefix('{').and_then(|inside| inside.split_once('}')) {
            Some(parts) => parts,
            None => {
                let end = after.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(after.len());
                after.split_at(end)
            }
        };
        rest = behind;
        if name == "time_local" && pattern.ends_with('[') && rest.starts_with(']') {
            // The stamp of %t has its own brackets.
            pattern.pop();
            rest = &rest[1..];
            pattern.push_str("%t");
        } else if let Some((_, directive)) = VARIABLES.iter().find(|(known, _)| *known == name) {
            pattern.push_str(directive);
        } else if let Some((_, directive, difference)) = SIMILAR.iter().find(|(known, ..)| *known == name) {
            pattern.push_str(directive);
            differences.push(format!("{directive} in place of ${name}: {difference}"));
        } else if let Some((field, letter)) = family(name) {
            pattern.push_str(&format!("%{{{field}}}{letter}"));
        } else {
            pattern.push('-');
            differences
                .push(format!("a hyphen in place of ${name}, which access-log-format does not have; %q is the whole query"));
        }
    }
    (pattern + &rest.replace('%', "%%"), differences)
}

/// A field or a cookie, with the letter of its directive.
fn family(name: &str) -> Option<(String, char)> {
    let (field, letter) = FAMILIES.iter().find_map(|(family, letter)| Some((name.strip_prefix(family)?, *letter)))?;
    let fits = !field.is_empty() && field.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let field = if letter == 'C' { field.to_owned() } else { field.replace('_', "-") };
    fits.then_some((field, letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_keeps_all_that_has_a_counterpart() {
        for (text, expected, different) in [
            ("$remote_addr [$time_local] $time_local", "%a %t %{%d/%b/%Y:%H:%M:%S %z}t", 0),
            ("${method}x$request_uri$dollar 100%", "%mx%U%q$ 100%%", 0),
            ("$header_x_id $response_header_etag $cookie_a_b", "%{x-id}i %{etag}o %{a_b}C", 0),
            ("$uri@$host@$request_time@$request_id", "%U@%{Host}i@%{ms}T@%L", 4),
            ("$status $arg_a $zork $header_", "%s - - -", 3),
        ] {
            let (made, differences) = pattern(text);
            assert_eq!((&*made, differences.len()), (expected, different), "{text}: {differences:?}");
        }
    }
}
