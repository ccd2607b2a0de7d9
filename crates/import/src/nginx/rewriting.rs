//! `rewrite` and `return`: other paths, redirects and fixed responses.

use super::Nginx;
use super::syntax::Directive;
use crate::conditions::Match;
use crate::draft::{Action, Route};
use crate::note::Key;
use crate::redirect::{REDIRECTS, groups, target, with_variables};

impl Nginx<'_> {
    /// `rewrite` to another path, after which nginx looks for the location again.
    pub(super) fn rewritten(&mut self, directive: &Directive, conditions: &Match, key: &Key, routes: &mut Vec<Route>) {
        let (expression, replacement, flag) = (directive.word(0), directive.word(1), directive.word(2));
        if flag == "break" {
            return self
                .draft
                .lost(key, "after a rewrite, the routes decide again: write rewrite into the route of this location");
        }
        // nginx adds the query of the request, unless the new path ends with a question mark.
        let text = match replacement.strip_suffix('?') {
            None if replacement.contains('?') => format!("{replacement}&$args"),
            Some(path) if path.contains('?') => path.to_owned(),
            _ => replacement.to_owned(),
        };
        let path = match with_variables(&text, groups(&[format!("~{expression}")])) {
            Ok(path) if path.starts_with(['/', '$']) => path,
            Ok(_) => return self.draft.lost(key, "rewrite of a route leads to a path"),
            Err(reason) => return self.draft.lost(key, reason),
        };
        match with_expression(conditions, vec![format!("~{expression}")]) {
            Ok(Some(both)) => {
                routes.push(Route { rewrite: Some(path), ..Route::new(both, Action::Again, key.clone()) });
            }
            _ => self.draft.lost(key, "left out: a route cannot say its conditions"),
        }
    }

    /// `return` for requests that meet the conditions.
    pub(super) fn answer(&mut self, directive: &Directive, conditions: &Match, key: &Key) -> Action {
        let (first, second) = (directive.word(0), directive.word(1));
        let (status, text) = match first.parse::<u16>() {
            Ok(status) => (status, second),
            Err(_) => (302, first),
        };
        if REDIRECTS.contains(&status) && !text.is_empty() {
            return match target(text, groups(&conditions.path)) {
                Ok(to) => Action::Redirect { to, status },
                Err(reason) => {
                    self.draft.lost(key, format!("{reason}: these requests get a 404"));
                    Action::status(404)
                }
            };
        }
        if status == 444 {
            self.draft.lost(key, "Oribi answers each request: with a 403 here");
            return Action::status(403);
        }
        if text.contains('$') {
            self.draft.lost(key, "content has no variables");
        }
        let content = (!text.is_empty()).then(|| text.to_owned());
        let content_type = None;
        Action::Respond { status, content, content_type }
    }
}

/// The conditions together with patterns of a path, of which an expression keeps its groups.
pub(super) fn with_expression(conditions: &Match, path: Vec<String>) -> Result<Option<Match>, ()> {
    let both = match (conditions.path.as_slice(), path.as_slice()) {
        // An expression that begins with the path of its location says that path, too.
        ([prefix], [expression]) if is_below(prefix, expression) => Match { path, ..conditions.clone() },
        _ => return conditions.and(&Match { path, ..Match::default() }),
    };
    Ok(Some(both))
}

/// Whether all paths that fit an expression fit a pattern that is a prefix.
fn is_below(pattern: &str, expression: &str) -> bool {
    let literal = |letter: char| letter.is_ascii_alphanumeric() || "/-_".contains(letter);
    let (Some(prefix), Some(rest)) = (pattern.strip_suffix('*'), expression.strip_prefix("~^")) else { return false };
    let Some(rest) = rest.strip_prefix(prefix).filter(|_| prefix.chars().all(literal)) else { return false };
    // A repetition is about the last letter, and an alternative has no prefix.
    !rest.starts_with(['?', '*', '+', '{']) && !rest.contains('|')
}

/// The text of a redirect with the query of the request, which nginx adds unless the text ends with a question mark.
fn with_query(text: &str) -> String {
    match text.strip_suffix('?') {
        Some(whole) => whole.to_owned(),
        None if text.contains("$request_uri") || text.contains("${request_uri}") => text.to_owned(),
        None if text.contains('?') => format!("{text}&$args"),
        None => format!("{text}?$args"),
    }
}

/// A `rewrite` that is a redirect: its patterns for paths, and its action.
pub(super) fn redirect_of(directive: &Directive) -> Option<Result<(Vec<String>, Action), String>> {
    let (expression, replacement, flag) = (directive.word(0), directive.word(1), directive.word(2));
    let status = match flag {
        "permanent" => 301,
        "redirect" => 302,
        _ if ["http://", "https://", "$scheme"].iter().any(|scheme| replacement.starts_with(scheme)) => 302,
        _ => return None,
    };
    let plain = expression.trim_start_matches('^').trim_end_matches('$');
    let (path, to) = match expression {
        "^" | "^/" | "^(.*)" | "^(.*)$" | "^/(.*)" | "^/(.*)$" => {
            let group = if expression.starts_with("^/(") { "/$1" } else { "$1" };
            let whole = if replacement.ends_with('?') { "$uri" } else { "$request_uri" };
            let is_last = replacement.trim_end_matches('?').ends_with(group) && !replacement.contains("/$1$1");
            (Vec::new(), if is_last { replacement.replace(group, whole) } else { replacement.to_owned() })
        }
        _ if expression.starts_with("^/")
            && expression.ends_with('$')
            && !plain.contains(['(', '[', '*', '+', '?', '\\', '|', '.', '{']) =>
        {
            (vec![plain.to_owned()], replacement.to_owned())
        }
        _ => (vec![format!("~{expression}")], replacement.to_owned()),
    };
    // A group of an expression that all paths fit needs the expression.
    let path = if path.is_empty() && to.contains("$1") { vec![format!("~{expression}")] } else { path };
    let to = target(&with_query(&to), groups(&path));
    Some(to.map(|to| (path, Action::Redirect { to, status })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_has_groups_and_the_query() {
        for (text, path, to) in [
            ("^/perm$ /moved permanent", "/perm", "/moved?$args"),
            ("^/perm$ /moved? permanent", "/perm", "/moved"),
            ("^/perm$ /moved?a=b permanent", "/perm", "/moved?a=b&$args"),
            ("^/perm/(.*)$ /moved/$1 permanent", "~^/perm/(.*)$", "/moved/$1?$args"),
            ("^/y/(.*)$ https://$host/m/$1 permanent", "~^/y/(.*)$", "https://$host/m/$1?$args"),
            ("^(.*)$ https://old.example.com$1 permanent", "", "https://old.example.com$request_uri"),
            ("^(.*)$ https://old.example.com$1? permanent", "", "https://old.example.com$uri"),
            ("^/(.*)$ /a/$1/b redirect", "~^/(.*)$", "/a/$1/b?$args"),
            ("^ https://$host$request_uri? permanent", "", "https://$host$request_uri"),
        ] {
            let words = text.split(' ').map(str::to_owned).collect();
            let directive = Directive { name: "rewrite".to_owned(), words, line: 1, block: None };
            let (patterns, action) = redirect_of(&directive).expect(text).expect(text);
            let Action::Redirect { to: written, .. } = action else { panic!("{text}: {action:?}") };
            assert_eq!((patterns.concat().as_str(), written.as_str()), (path, to), "{text}");
        }
    }

    #[test]
    fn an_expression_may_say_its_prefix() {
        for (pattern, expression, expected) in [
            ("/a/*", "~^/a/(.*)$", true),
            ("/a*", "~^/a$", true),
            ("/a*", "~^/a?b", false),
            ("/a*", "~^/a|/b", false),
            ("/a*", "~/a", false),
            ("/a", "~^/a", false),
        ] {
            assert_eq!(is_below(pattern, expression), expected, "{pattern} {expression}");
        }
    }
}
