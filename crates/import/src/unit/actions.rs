//! `action`: the answer of a step.

use super::{Unit, locations};
use crate::conditions::Match;
use crate::draft::Action;
use crate::filters::{Changes, Filters};
use crate::note::Key;
use crate::redirect::{REDIRECTS, target, with_variables};
use crate::tree::Node;
use oribi_config::TypePatterns;

impl Unit<'_> {
    pub(super) fn action(&mut self, node: &Node, conditions: &Match, key: &Key, above: &mut Vec<String>) {
        let first = self.draft.routes.len();
        match node.get("rewrite").map(|rewrite| self.rewrite(rewrite, &key.inside("rewrite"))) {
            None => self.answer(node, conditions, key, above),
            Some(None) => {
                node.skip();
                self.draft.lost(key, "these requests get a 404");
                self.draft.route(conditions.clone(), Action::status(404), key);
            }
            Some(Some(path)) => self.rewritten(node, &path, conditions, key, above),
        }
        let passes_on =
            node.get("pass").and_then(Node::text).is_some_and(|pass| pass == "routes" || pass.starts_with("routes/"));
        if let Some(node) = node.get("response_headers").filter(|_| passes_on) {
            node.skip();
            self.draft.same(&key.inside("response_headers"), "Unit sends those of the last action only");
        } else if let Some(node) = node.get("response_headers") {
            let changes = self.response_headers(node, &key.inside("response_headers"));
            // Unit changes no errors.
            let (free, taken): (Vec<_>, Vec<_>) =
                self.draft.routes[first..].iter_mut().partition(|route| route.filters.unless_error == Changes::default());
            free.into_iter().for_each(|route| route.filters.unless_error.clone_from(&changes));
            if !taken.is_empty() {
                self.draft.lost(&key.inside("response_headers"), "routes that change fields of their own do not get these");
            }
        }
    }

    /// The new path of a request; `None` if Oribi cannot make it.
    fn rewrite(&mut self, node: &Node, key: &Key) -> Option<String> {
        let Some(text) = node.text() else {
            node.skip();
            self.draft.lost(key, "expected a text");
            return None;
        };
        // Unit keeps the query of the request in any case, so its own target has the path only.
        let path = text.split('?').next().unwrap_or_default();
        if path.is_empty() {
            self.draft.lost(key, "a path is never empty");
            return None;
        }
        if path != text {
            self.draft.same(key, "Unit does not use the query of a rewrite, either: that of the request stays");
        }
        let found = if text.contains('`') { Err("there are no scripts".to_owned()) } else { with_variables(path, 0) };
        match found {
            Ok(path) => {
                let path = path.replace("$request_uri", "$uri").replace("${request_uri}", "${uri}");
                Some(if path.starts_with(['/', '$']) { path } else { format!("/{path}") })
            }
            Err(reason) => {
                self.draft.lost(key, reason);
                None
            }
        }
    }

    /// An action for requests whose path has changed.
    fn rewritten(&mut self, node: &Node, path: &str, conditions: &Match, key: &Key, above: &mut Vec<String>) {
        let pass = node.get("pass").and_then(Node::text).unwrap_or_default();
        let first = self.draft.routes.len();
        let routes = pass.strip_prefix("routes").map(|rest| super::decoded(rest.trim_start_matches('/')));
        match routes {
            // The routes of the listener begin again.
            Some(name) if above.first() == Some(&name) => self.draft.route(conditions.clone(), Action::Again, key),
            Some(_) => {
                let text = "a rewritten request comes to the first route again, not to another list: these requests get a 404";
                self.draft.lost(&key.inside("pass"), text);
                self.draft.route(conditions.clone(), Action::status(404), key);
            }
            None => self.answer(node, conditions, key, above),
        }
        self.draft.routes[first..].iter_mut().for_each(|route| route.rewrite = Some(path.to_owned()));
    }

    /// The fields that a response gets, or loses.
    fn response_headers(&mut self, node: &Node, key: &Key) -> Changes {
        let mut changes = Changes::default();
        for (name, node) in node.entries() {
            let key = key.inside(name);
            let changed = if node.is_null() {
                changes.remove(name)
            } else {
                match node.text() {
                    Some(value) if value.contains(['$', '`']) => Err("response-fields have no variables: the app sends it"),
                    Some(value) => changes.set(name, value),
                    None => {
                        node.skip();
                        Err("expected a text or null")
                    }
                }
            };
            if let Err(reason) = changed {
                self.draft.lost(&key, reason);
            }
        }
        changes
    }

    fn answer(&mut self, node: &Node, conditions: &Match, key: &Key, above: &mut Vec<String>) {
        if let Some(pass) = node.get("pass").and_then(Node::text) {
            let pass = pass.to_owned();
            return self.passed(&pass, conditions, key, above);
        }
        if let Some(url) = node.get("proxy").and_then(Node::text) {
            let url = url.strip_prefix("http://unix:").map_or_else(|| url.to_owned(), |path| format!("http+unix:{path}"));
            let name = url.split("//").last().unwrap_or_default().rsplit(['/', '@']).next().unwrap_or_default().to_owned();
            let action = self.draft.proxy(&name, &[url], &key.inside("proxy"));
            return self.draft.route(conditions.clone(), action, key);
        }
        if node.get("share").is_some() {
            return self.share(node, conditions, key, above);
        }
        let Some(status) = node.get("return").and_then(Node::number) else {
            node.skip();
            self.draft.lost(key, "an action without pass, proxy, share and return");
            return;
        };
        let status = u16::try_from(status).unwrap_or(0);
        let mut fields = Changes::default();
        let action = match node.get("location").and_then(Node::text) {
            Some(location) => self.located(location, status, &mut fields, &key.inside("location")),
            None => Action::status(status),
        };
        self.draft.route(conditions.clone(), action, key);
        if let Some(route) = self.draft.routes.last_mut() {
            route.filters.response_fields = fields;
        }
    }

    /// The action for a status with a location, which may be one of `fields` instead.
    fn located(&mut self, location: &str, status: u16, fields: &mut Changes, key: &Key) -> Action {
        let redirects = REDIRECTS.contains(&status);
        let target = target(location, 0);
        let fixed = locations::fixed(location);
        match (fixed, target) {
            (Some(text), target) => {
                let sent = locations::escaped(&text);
                match target {
                    Ok(to) if redirects && sent == text => return Action::Redirect { to, status },
                    // A redirect has no relative target, but a field may have any.
                    _ => {
                        if let Err(reason) = fields.set("Location", &sent) {
                            self.draft.lost(key, reason);
                        }
                    }
                }
                Action::status(status)
            }
            (None, Ok(to)) if redirects => Action::Redirect { to, status },
            (None, Err(reason)) if redirects => {
                self.draft.lost(key, format!("{reason}: these requests get a 404"));
                Action::status(404)
            }
            (None, _) => {
                self.draft.lost(key, "only 301, 302, 303, 307 and 308 have a Location with variables");
                Action::status(status)
            }
        }
    }

    fn share(&mut self, node: &Node, conditions: &Match, key: &Key, above: &mut Vec<String>) {
        let shares: Vec<&str> =
            node.get("share").map_or(Vec::new(), |share| share.values().iter().filter_map(Node::text).collect());
        let shares: Vec<String> = shares.iter().map(|share| share.replace("${uri}", "$uri")).collect();
        let shares: Vec<&str> = shares.iter().map(String::as_str).collect();
        if let Some(node) = node.get("traverse_mounts") {
            let key = key.inside("traverse_mounts");
            if node.boolean() == Some(true) {
                self.draft.same(&key, "mounts below the directory are followed");
            } else {
                node.skip();
                let text = "files of mounts below the directory ARE SENT: Oribi follows mounts, so share another directory";
                self.draft.lost(&key, text);
            }
        }
        for name in ["chroot", "follow_symlinks"] {
            if let Some(node) = node.get(name) {
                node.skip();
                self.draft.lost(&key.inside(name), "Oribi follows no link out of the directory: see docs/static.md");
            }
        }
        let types = node.get("types").map_or(Ok(Vec::new()), types);
        let index: Vec<String> = node.get("index").and_then(Node::text).map(str::to_owned).into_iter().collect();
        let fallback =
            node.get("fallback").and_then(|fallback| self.fallback(fallback, conditions, &key.inside("fallback"), above));
        let types = match types {
            Ok(types) => {
                if !types.is_empty() {
                    self.types_of_unit(&key.inside("types"));
                }
                types
            }
            Err(reason) => {
                node.get("types").into_iter().for_each(Node::skip);
                // Without their types, all files would be sent.
                self.draft.lost(&key.inside("types"), format!("{reason}: no file is sent"));
                return self.draft.route(conditions.clone(), fallback.unwrap_or_else(|| Action::status(404)), key);
            }
        };
        let files = |(root, tried): (String, Vec<String>), fallback: Option<Action>| Action::Files {
            root,
            tried,
            index: index.clone(),
            types: types.clone(),
            fallback: fallback.map(Box::new),
        };
        let action = match shared(&shares) {
            Ok(below) => Some(files(below, fallback)),
            // Directories without one in common are looked into in turn.
            Err(_) => shares.iter().rev().fold(fallback, |next, share| match shared(&[share]) {
                Ok(below) => Some(files(below, next)),
                Err(reason) => {
                    self.draft.lost(&key.inside("share"), reason);
                    next
                }
            }),
        };
        self.draft.route(conditions.clone(), action.unwrap_or_else(|| Action::status(404)), key);
    }

    /// The action for files that do not exist: that of the one route that it would become.
    fn fallback(&mut self, node: &Node, conditions: &Match, key: &Key, above: &mut Vec<String>) -> Option<Action> {
        let first = self.draft.routes.len();
        self.action(node, conditions, key, above);
        let mut routes = self.draft.routes.split_off(first);
        let route = routes.pop().filter(|_| routes.is_empty());
        match route {
            Some(route)
                if route.action != Action::Again
                    && route.conditions == *conditions
                    && route.rewrite.is_none()
                    && route.filters.response_fields == Changes::default() =>
            {
                if route.filters != Filters::default() {
                    self.draft.lost(&key.inside("response_headers"), "those of the route are sent with its fallback, too");
                }
                Some(route.action)
            }
            _ => {
                let text = "the fallback of files is one action, without conditions and a relative location: clients get a 404";
                self.draft.lost(key, text);
                None
            }
        }
    }
}

/// The patterns for the media types of files.
///
/// # Errors
/// The reason why a route cannot have them.
fn types(node: &Node) -> Result<Vec<String>, String> {
    let mut list = Vec::new();
    for node in node.values() {
        let text = node.text().ok_or_else(|| "expected a text".to_owned())?;
        let (sign, rest) = text.strip_prefix('!').map_or(("", text), |rest| ("!", rest));
        let pattern = match rest {
            // A file whose name says no type.
            "" => format!("{sign}application/octet-stream"),
            "*" => format!("{sign}*/*"),
            _ => text.to_owned(),
        };
        TypePatterns::default().add(&pattern).map_err(|expected| format!("{text}: {expected}"))?;
        list.push(pattern);
    }
    if list.is_empty() { Err("an empty list".to_owned()) } else { Ok(list) }
}

/// The directory of shares, and the files to try below it; none of these for the path of the request itself.
///
/// # Errors
/// The reason why a route cannot have them.
fn shared(shares: &[&str]) -> Result<(String, Vec<String>), &'static str> {
    let mut parts: Vec<(&str, &str)> = Vec::new();
    for share in shares {
        let (before, rest) = match share.find("$uri") {
            Some(at) => share.split_at(at),
            None if share.ends_with('/') => (share.trim_end_matches('/'), "$uri"),
            None => share.split_at(share.rfind('/').unwrap_or(0)),
        };
        if before.contains('$') || rest.trim_start_matches("$uri").contains('$') {
            return Err("a share with variables: write a route for each value");
        }
        parts.push((before.trim_end_matches('/'), rest));
    }
    let Some((first, rest)) = parts.split_first() else { return Err("no share") };
    let mut root: Vec<&str> = first.0.split('/').collect();
    for (before, _) in rest {
        let same = before.split('/').zip(&root).take_while(|(one, other)| one == *other).count();
        root.truncate(same);
    }
    let root = root.join("/");
    if root.is_empty() {
        let alone = rest.is_empty() && first.0.is_empty() && first.1 == "$uri";
        return if alone { Ok(("/".to_owned(), Vec::new())) } else { Err("the shares have no directory in common") };
    }
    let tried: Vec<String> = parts.iter().map(|(before, rest)| format!("{}{rest}", &before[root.len()..])).collect();
    Ok((root, if tried == ["$uri"] { Vec::new() } else { tried }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draft::Draft;
    use crate::note::Kind;

    #[test]
    fn shares_are_below_one_directory() {
        for (shares, root, tried) in [
            (&["/srv/www$uri"][..], "/srv/www", ""),
            (&["/srv/www/$uri"], "/srv/www", ""),
            (&["/srv/a$uri", "/srv/b$uri"], "/srv", "/a$uri /b$uri"),
            (&["public$uri", "public/index.html"], "public", "$uri /index.html"),
            (&["/srv/a$uri", "/srv/a/b$uri.html"], "/srv/a", "$uri /b$uri.html"),
            (&["$uri"], "/", ""),
        ] {
            let tried = tried.split_whitespace().map(str::to_owned).collect();
            assert_eq!(shared(shares), Ok((root.to_owned(), tried)), "{shares:?}");
        }
        assert!(shared(&["/a$uri", "/b$uri"]).is_err());
        assert!(shared(&["/srv/$host$uri"]).is_err());
    }

    /// The draft of a listener whose requests have this action, and the notes about it.
    fn of_action(action: &str) -> (Draft, Vec<String>) {
        let text = format!(
            r#"{{"listeners": {{"127.0.0.1:80": {{"pass": "routes"}}}}, "routes": [{{"match": {{"uri": "/"}}, "action": {action}}}]}}"#
        );
        let mut draft = Draft::default();
        super::super::read(&serde_json::from_str(&text).expect("JSON"), &mut draft);
        let notes = draft.notes.iter().filter(|note| note.kind == Kind::Lost).map(|note| note.text.clone()).collect();
        (draft, notes)
    }

    #[test]
    fn a_location_is_a_redirect_or_a_field() {
        let redirect = |to: &str| Action::Redirect { to: to.to_owned(), status: 301 };
        for (action, expected, field, noted) in [
            (r#"{"return": 301, "location": "/a?b#c"}"#, redirect("/a?b#c"), None, 0),
            (r#"{"return": 301, "location": "/a/$dollar"}"#, redirect("/a/$dollar"), None, 0),
            (r#"{"return": 301, "location": "https://${host}/a"}"#, redirect("https://$host/a"), None, 0),
            (r#"{"return": 301, "location": "blah"}"#, Action::status(301), Some("blah"), 0),
            (r#"{"return": 301, "location": ""}"#, Action::status(301), Some(""), 0),
            (r#"{"return": 301, "location": "/a b"}"#, Action::status(301), Some("/a%20b"), 0),
            (r#"{"return": 302, "location": "b$dollar"}"#, Action::status(302), Some("b$"), 0),
            (r#"{"return": 201, "location": "/new"}"#, Action::status(201), Some("/new"), 0),
            (r#"{"return": 201, "location": "/$uri"}"#, Action::status(201), None, 1),
            (r#"{"return": 301, "location": "$host"}"#, Action::status(404), None, 1),
        ] {
            let (draft, notes) = of_action(action);
            let mut fields = Changes::default();
            field.into_iter().for_each(|value| fields.set("Location", value).expect("valid"));
            let route = &draft.routes[0];
            assert_eq!((&route.action, &route.filters.response_fields), (&expected, &fields), "{action}");
            assert_eq!(notes.len(), noted, "{action}: {notes:?}");
        }
    }

    #[test]
    fn a_path_that_becomes_empty_is_no_loop() {
        for text in ["", "?a=b"] {
            let (draft, notes) = of_action(&format!(r#"{{"rewrite": "{text}", "pass": "routes"}}"#));
            assert_eq!(draft.routes[0].action, Action::status(404), "{text}");
            assert!(notes.iter().any(|note| note.contains("never empty")), "{notes:?}");
        }
    }

    #[test]
    fn errors_lack_the_headers_of_responses() {
        let (draft, notes) = of_action(r#"{"return": 302, "location": "a", "response_headers": {"X-A": "b", "Server": null}}"#);
        let (mut fields, mut further) = (Changes::default(), Changes::default());
        fields.set("Location", "a").expect("valid");
        further.set("X-A", "b").and(further.remove("Server")).expect("valid");
        let filters = &draft.routes[0].filters;
        assert_eq!((&filters.response_fields, &filters.unless_error), (&fields, &further), "{notes:?}");
        let expected = r#"{ set = { Location = "a" }, unless-error = { set = { X-A = "b" }, remove = "Server" } }"#;
        assert_eq!(filters.text("response-fields").as_deref(), Some(expected));
    }

    #[test]
    fn a_fallback_loses_no_location() {
        let (draft, notes) = of_action(r#"{"share": "/a$uri", "fallback": {"return": 301, "location": "a"}}"#);
        assert!(matches!(&draft.routes[0].action, Action::Files { fallback: None, .. }), "{:?}", draft.routes);
        assert!(notes.iter().any(|note| note.contains("relative location")), "{notes:?}");
    }

    #[test]
    fn mounts_that_are_followed_are_noted() {
        for (traverse, kind) in [(true, Kind::Same), (false, Kind::Lost)] {
            let text = format!(
                r#"{{"listeners": {{"127.0.0.1:80": {{"pass": "routes"}}}}, "routes": [{{"action": {{"share": "/a$uri", "traverse_mounts": {traverse}}}}}]}}"#
            );
            let mut draft = Draft::default();
            super::super::read(&serde_json::from_str(&text).expect("JSON"), &mut draft);
            let noted = draft.notes.iter().find(|note| note.key.ends_with("traverse_mounts")).expect("a note");
            assert!(noted.kind == kind && noted.text.contains("mounts"), "{noted:?}");
        }
    }
}
