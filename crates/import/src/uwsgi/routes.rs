//! `route`, `route-uri`, `route-host` and `route-run`: rules with an expression and an action.

use super::Serving;
use super::entry::Entry;
use crate::conditions::Match;
use crate::draft::{Action, Route};
use crate::filters::Auth;
use crate::note::Key;
use crate::redirect::{groups, target};

/// The options that are rules.
pub(super) const NAMES: &[&str] = &[
    "route",
    "route-uri",
    "route-host",
    "route-run",
    "route-if",
    "route-if-not",
    "route-qs",
    "route-remote-addr",
    "route-user-agent",
    "route-remote-user",
    "route-referer",
];

/// Whether an action keeps requests from the app.
fn refuses(kind: &str, argument: &str) -> bool {
    let is_error = argument.starts_with('4');
    match kind {
        "break" | "return" => is_error,
        kind => ["basicauth", "ldapauth", "radius", "spnego"].iter().any(|name| kind.starts_with(name)),
    }
}

/// The condition of `route-if`, such as `equal:${REMOTE_ADDR};10.0.0.1`; `None` if a route has none like it.
fn condition(text: &str, negated: bool) -> Option<Match> {
    let (check, arguments) = text.split_once(':')?;
    let (subject, value) = arguments.split_once(';')?;
    let variable = subject.strip_prefix("${")?.strip_suffix('}')?;
    if value.is_empty() || value.contains(['*', '$']) || value.starts_with(['!', '~']) {
        return None;
    }
    let sign = if negated { "!" } else { "" };
    let list = |pattern: String| vec![format!("{sign}{pattern}")];
    let pattern = match check {
        "equal" => value.to_owned(),
        "startswith" => format!("{value}*"),
        "endswith" => format!("*{value}"),
        "contains" => format!("*{value}*"),
        "regexp" => format!("~{value}"),
        "ipv4in" | "ipv6in" if variable == "REMOTE_ADDR" => {
            return Some(Match { source: list(value.to_owned()), ..Match::default() });
        }
        _ => return None,
    };
    match variable {
        "REMOTE_ADDR" if check == "equal" => Some(Match { source: list(pattern), ..Match::default() }),
        "PATH_INFO" => Some(Match { path: list(pattern), ..Match::default() }),
        "REQUEST_METHOD" => Some(Match { method: list(pattern), ..Match::default() }),
        "REMOTE_ADDR" => None,
        _ => {
            let name = variable.strip_prefix("HTTP_").filter(|_| !negated)?.replace('_', "-").to_ascii_lowercase();
            Some(Match { field: vec![(name, list(pattern))], ..Match::default() })
        }
    }
}

impl Serving<'_> {
    /// Reads a rule.
    pub(super) fn rule(&mut self, entry: &Entry) {
        let key = entry.key();
        let value = entry.value.trim();
        let name = super::plain(&entry.name);
        let (expression, action) = match name.as_str() {
            "route-run" => ("", value),
            _ => value.split_once(char::is_whitespace).unwrap_or((value, "")),
        };
        let (kind, argument) = action.trim().split_once(':').unwrap_or((action.trim(), ""));
        let field = |name: &str| Match { field: vec![(name.to_owned(), vec![format!("~{expression}")])], ..Match::default() };
        let known = match name.as_str() {
            "route-if" => condition(expression, false),
            "route-if-not" => condition(expression, true),
            "route-user-agent" => Some(field("user-agent")),
            "route-referer" => Some(field("referer")),
            "route-qs" | "route-remote-addr" | "route-remote-user" => None,
            "route-host" => host(expression).map(|name| Match { host: vec![name], ..Match::default() }),
            _ => Some(Match::default()),
        };
        if known.is_none() && refuses(kind, argument) {
            let text = "a route has no such condition: until you write one, all requests that get this far get a 403";
            self.draft.lost(&key, text);
            return self.rules.push(Route::new(Match::default(), Action::status(403), key));
        }
        let conditions = match name.as_str() {
            "route-run" => Match::default(),
            "route-host" => match host(expression) {
                Some(name) => Match { host: vec![name], ..Match::default() },
                None => return self.draft.lost(&key, "left out: host of a route takes names and *.NAME, no expressions"),
            },
            "route-if" | "route-if-not" | "route-user-agent" | "route-referer" | "route-qs" | "route-remote-addr"
            | "route-remote-user" => match known {
                Some(conditions) => conditions,
                None => return self.draft.lost(&key, "left out: a route has no such condition"),
            },
            _ if expression.is_empty() => return self.draft.lost(&key, "left out: a rule has an expression and an action"),
            _ => Match { path: vec![format!("~{expression}")], ..Match::default() },
        };
        let action = match kind {
            "basicauth" => match self.password(&key, conditions == Match::default() || ALL.contains(&expression), argument) {
                true => return,
                false => Ok(Action::status(403)),
            },
            kind if refuses(kind, argument) && !["break", "return"].contains(&kind) => {
                self.draft
                    .lost(&key, format!("{kind} is no filter of a route: until you write auth, these requests get a 403"));
                Ok(Action::status(403))
            }
            "redirect" | "redirect-302" => redirect(argument, &conditions, 302),
            "redirect-permanent" | "redirect-301" => redirect(argument, &conditions, 301),
            "break" | "return" => argument
                .split(' ')
                .next()
                .and_then(|status| status.parse().ok())
                .map(Action::status)
                .ok_or_else(|| "respond of a route needs a status".to_owned()),
            "http" if !argument.is_empty() && !argument.contains(',') => {
                let (name, url) = match argument.starts_with('/') {
                    true => (argument.rsplit('/').next().unwrap_or_default(), format!("http+unix:{argument}")),
                    false => (argument, format!("http://{argument}")),
                };
                Ok(self.draft.proxy(name, &[url], &key))
            }
            _ => Err(format!(
                "a [[route]] has app, files, redirect, respond, rewrite, compress and cache, not the action {kind}"
            )),
        };
        match action {
            Ok(action) => {
                if name == "route-uri" {
                    self.draft.lost(&key, "path is compared without the query");
                }
                self.rules.push(Route::new(conditions, action, key));
            }
            Err(reason) => self.draft.lost(&key, format!("left out: {reason}")),
        }
    }
}

/// Expressions that all paths fit.
const ALL: &[&str] = &["^", "^/", ".*", "^.*", "^/.*"];

impl Serving<'_> {
    /// `basicauth:REALM,FILE` for all requests, after which uWSGI goes on with the next rule. Returns whether `[defaults]` has
    /// it.
    fn password(&mut self, key: &Key, of_all: bool, argument: &str) -> bool {
        match argument.split_once(',') {
            Some((realm, file)) if !file.contains(':') && of_all && self.rules.is_empty() => {
                self.draft.defaults.auth =
                    Some(Auth::Passwords { htpasswd: file.to_owned(), realm: realm.to_owned(), keep: false, field: None });
                self.draft.lost(key, "hashes of older crypt are not known: make new ones with `htpasswd -B`");
                true
            }
            _ => {
                self.draft.lost(key, "auth of a route takes a file of users: until you write it, these requests get a 403");
                false
            }
        }
    }
}

fn redirect(to: &str, conditions: &Match, status: u16) -> Result<Action, String> {
    target(to, groups(&conditions.path)).map(|to| Action::Redirect { to, status })
}

/// The name for which an expression stands, if it is one of a name as a whole.
fn host(expression: &str) -> Option<String> {
    let name = expression.strip_prefix('^')?.strip_suffix('$')?.replace("\\.", ".");
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_of_a_whole_name_is_a_host() {
        for (expression, expected) in [
            ("^www\\.example\\.com$", Some("www.example.com")),
            ("^localhost$", Some("localhost")),
            ("example", None),
            ("^a.*$", None),
        ] {
            assert_eq!(host(expression).as_deref(), expected, "{expression}");
        }
    }

    #[test]
    fn a_condition_is_one_of_a_route() {
        let named = |name: &str, pattern: &str| vec![(name.to_owned(), vec![pattern.to_owned()])];
        let one = |pattern: &str| vec![pattern.to_owned()];
        for (text, negated, expected) in [
            ("equal:${REMOTE_ADDR};10.0.0.1", true, Some(Match { source: one("!10.0.0.1"), ..Match::default() })),
            ("ipv4in:${REMOTE_ADDR};10.0.0.0/8", false, Some(Match { source: one("10.0.0.0/8"), ..Match::default() })),
            ("startswith:${PATH_INFO};/a", false, Some(Match { path: one("/a*"), ..Match::default() })),
            ("equal:${REQUEST_METHOD};POST", false, Some(Match { method: one("POST"), ..Match::default() })),
            ("contains:${HTTP_USER_AGENT};bot", false, Some(Match { field: named("user-agent", "*bot*"), ..Match::default() })),
            ("startswith:${REMOTE_ADDR};10.", false, None),
            ("equal:${HTTPS};on", false, None),
            ("exists:/tmp/closed", false, None),
        ] {
            assert_eq!(condition(text, negated), expected, "{text}");
        }
    }

    #[test]
    fn a_rule_that_refuses_is_known() {
        for (kind, argument, expected) in [
            ("break", "403 Forbidden", true),
            ("break", "200 OK", false),
            ("basicauth-next", "R,a:b", true),
            ("ldapauth", "R,url=ldap://a", true),
            ("redirect", "/a", false),
        ] {
            assert_eq!(refuses(kind, argument), expected, "{kind}:{argument}");
        }
    }
}
