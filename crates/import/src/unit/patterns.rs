//! Patterns of Unit as those of Oribi: where a route has no such pattern, as an expression.

use crate::conditions::Match;

/// The place of a star that is no wildcard: a letter of a private area of Unicode.
pub(super) const LITERAL_STAR: &str = "\u{F8F2}";

/// The beginning of a pattern whose first letter is no sign: another such letter.
pub(super) const LITERAL: &str = "\u{F8F3}";

/// Whether a route has such a pattern only as an expression.
fn is_special(pattern: &str) -> bool {
    pattern.contains(LITERAL_STAR) || pattern.starts_with(LITERAL)
}

/// A text as a part of an expression.
pub(super) fn escaped(text: &str) -> String {
    let special = |letter: char| letter.is_ascii_punctuation() && !"_-=;,/%&\"\'<>@!:~`".contains(letter);
    text.replace(LITERAL, "")
        .replace(LITERAL_STAR, "*")
        .chars()
        .flat_map(|letter| special(letter).then_some('\\').into_iter().chain([letter]))
        .collect()
}

/// The sign of a pattern, and its rest.
fn signed(pattern: &str) -> (&str, &str) {
    pattern.strip_prefix('!').map_or(("", pattern), |rest| ("!", rest))
}

/// The patterns of paths. `Vec::new()`: no request meets them.
pub(super) fn of_paths(patterns: &[String]) -> Vec<Match> {
    let any = !patterns.is_empty();
    let mut path: Vec<String> = Vec::new();
    let mut negated = false;
    for pattern in patterns {
        let (sign, rest) = signed(pattern);
        match rest {
            // A path is never empty.
            "" => negated |= sign == "!",
            "~" => path.push(format!("{sign}*")),
            rest if is_special(rest) => path.push(format!("{sign}{}", expression(rest))),
            _ => path.push(pattern.clone()),
        }
    }
    if path.is_empty() && any && !negated {
        return Vec::new();
    }
    vec![Match { path, ..Match::default() }]
}

/// The patterns of hosts: a list that `host` cannot have is one about the field.
pub(super) fn of_hosts(patterns: Vec<String>) -> Match {
    let name = |rest: &str| {
        let tail = rest.strip_prefix("*.").unwrap_or(rest);
        rest == "*" || !tail.is_empty() && !tail.contains('*') && !rest.starts_with('~')
    };
    if patterns.iter().all(|pattern| name(signed(pattern).1)) {
        return Match { host: patterns, ..Match::default() };
    }
    let expressions = patterns.iter().map(|pattern| {
        let (sign, rest) = signed(pattern);
        match rest.strip_prefix('~') {
            Some(expression) => format!("{sign}~(?i){expression}"),
            None => format!("{sign}~(?i)^{}\\.?(:[0-9]*)?$", pieces(rest)),
        }
    });
    Match { field: vec![("Host".to_owned(), expressions.collect())], ..Match::default() }
}

/// The patterns of a field, whose case Unit ignores. The field has to be there.
pub(super) fn of_field(patterns: Vec<String>) -> Vec<String> {
    of_value(patterns)
        .into_iter()
        .map(|pattern| {
            let (sign, rest) = signed(&pattern);
            match rest.strip_prefix('~') {
                _ if !rest.contains(|letter: char| letter.is_ascii_alphabetic()) => pattern,
                Some(rest) => format!("{sign}~(?i){rest}"),
                None => format!("{sign}~(?i)^{}$", pieces(rest)),
            }
        })
        .collect()
}

/// The patterns of a value. The name has to be there.
pub(super) fn of_value(patterns: Vec<String>) -> Vec<String> {
    let mut list: Vec<String> = patterns
        .into_iter()
        .map(|pattern| {
            let (sign, rest) = signed(&pattern);
            match rest {
                "" => format!("{sign}~^$"),
                "~" => format!("{sign}*"),
                rest if is_special(rest) => format!("{sign}{}", expression(rest)),
                _ => pattern,
            }
        })
        .collect();
    if list.iter().all(|pattern| pattern.starts_with('!')) {
        list.insert(0, "*".to_owned());
    }
    list
}

/// A pattern with wildcards as an expression.
fn expression(pattern: &str) -> String {
    format!("~^{}$", pieces(pattern))
}

fn pieces(pattern: &str) -> String {
    pattern.split('*').map(escaped).collect::<Vec<_>>().join(".*")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn an_empty_pattern_fits_an_empty_value() {
        assert_eq!(of_value(list("a")), list("a"));
        assert_eq!(of_value(Vec::new()), list("*"));
        assert_eq!(of_value(vec![String::new()]), list("~^$"));
        assert_eq!(of_value(list("!")), list("* !~^$"));
        assert_eq!(of_value(list("~ !~")), list("* !*"));
        assert_eq!(of_value(vec![format!("{LITERAL_STAR}*")]), list(r"~^\*.*$"));
        assert_eq!(of_value(vec![format!("!{LITERAL}!a*")]), list("* !~^!a.*$"));
        let paths = |text| of_paths(&list(text)).into_iter().map(|found| found.path).collect::<Vec<_>>();
        assert_eq!(paths("/a"), [list("/a")]);
        assert_eq!(paths("! /a"), [list("/a")]);
        assert_eq!(paths("!"), [Vec::<String>::new()]);
        assert!(paths("").is_empty());
        assert_eq!(of_paths(&[]), [Match::default()]);
    }

    #[test]
    fn a_list_that_host_cannot_have_is_about_the_field() {
        assert_eq!(of_hosts(list("a *.b !c")).host, list("a *.b !c"));
        let field = |text| of_hosts(list(text)).field.remove(0).1;
        assert_eq!(field("ex*.le"), [r"~(?i)^ex.*\.le\.?(:[0-9]*)?$"]);
        assert_eq!(field("!~a b"), ["!~(?i)a", r"~(?i)^b\.?(:[0-9]*)?$"]);
    }

    #[test]
    fn the_case_of_a_field_does_not_matter() {
        assert_eq!(of_field(list("on !1 ~a|b")), ["~(?i)^on$", "!1", "~(?i)a|b"]);
    }
}
