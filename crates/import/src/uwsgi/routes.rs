//! `route`, `route-uri`, `route-host` and `route-run`: rules with an expression and an action.

use super::Serving;
use super::entry::Entry;
use crate::conditions::Match;
use crate::draft::{Action, Route};
use crate::filters::Auth;
use crate::note::Key;
use crate::redirect::target;

/// The options that are rules.
pub(super) const NAMES: &[&str] = &["route", "route-uri", "route-host", "route-run"];

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
        let conditions = match name.as_str() {
            "route-run" => Match::default(),
            "route-host" => match host(expression) {
                Some(name) => Match { host: vec![name], ..Match::default() },
                None => return self.draft.lost(&key, "left out: host of a route takes names and *.NAME, no expressions"),
            },
            _ if expression.is_empty() => return self.draft.lost(&key, "left out: a rule has an expression and an action"),
            _ => Match { path: vec![format!("~{expression}")], ..Match::default() },
        };
        let (kind, argument) = action.trim().split_once(':').unwrap_or((action.trim(), ""));
        let action = match kind {
            "basicauth" => match self.password(&key, conditions == Match::default() || ALL.contains(&expression), argument) {
                true => return,
                false => Ok(Action::status(403)),
            },
            "redirect" | "redirect-302" => redirect(argument, 302),
            "redirect-permanent" | "redirect-301" => redirect(argument, 301),
            "break" => argument
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
            _ => Err(format!("a [[route]] has app, files, redirect or respond, not the action {kind}")),
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
                self.draft.defaults.auth = Some(Auth { htpasswd: file.to_owned(), realm: realm.to_owned() });
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

fn redirect(to: &str, status: u16) -> Result<Action, String> {
    target(to, false).map(|to| Action::Redirect { to, status })
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
}
