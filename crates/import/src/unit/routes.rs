//! `routes`: steps, and the passes between them, as one list of routes.

use super::matching::{self, Conditions};
use super::{Unit, decoded};
use crate::conditions::Match;
use crate::draft::Action;
use crate::note::Key;
use crate::tree::Node;

/// The most passes from one list of steps to another.
const DEPTH: usize = 16;

/// The most routes, a few more than a server can have.
const ROUTES: usize = 5000;

impl Unit<'_> {
    /// Writes the routes for the requests that meet `conditions` and are passed to `pass`.
    pub(super) fn pass(&mut self, pass: &str, conditions: &Match, key: &Key) {
        self.passed(pass, conditions, key, &mut Vec::new());
    }

    pub(super) fn passed(&mut self, pass: &str, conditions: &Match, key: &Key, above: &mut Vec<String>) {
        let key = key.inside("pass");
        let mut parts = pass.split('/').map(decoded);
        let (kind, name) = (parts.next().unwrap_or_default(), parts.next());
        if let Some(rest) = parts.next() {
            self.draft.lost(&key, format!("the target {rest}: an app of Perl or Ruby has none"));
        }
        if pass.contains('$') {
            self.draft.lost(&key, "a pass with variables: write a route for each value");
            return self.draft.route(conditions.clone(), Action::status(502), &key);
        }
        match (kind.as_str(), name) {
            ("routes", name) => self.steps(name.as_deref(), conditions, &key, above),
            ("applications", Some(name)) => match self.app(&name) {
                Ok(app) => self.draft.route(conditions.clone(), Action::app(app), &key),
                Err(reason) => {
                    self.draft.lost(&key, format!("{reason}: these requests get a 502"));
                    self.draft.route(conditions.clone(), Action::status(502), &key);
                }
            },
            ("upstreams", Some(name)) => {
                let action = self.upstream(&name, &key);
                self.draft.route(conditions.clone(), action, &key);
            }
            _ => {
                self.draft.lost(&key, "a pass to an unknown target: these requests get a 502");
                self.draft.route(conditions.clone(), Action::status(502), &key);
            }
        }
    }

    fn upstream(&mut self, name: &str, key: &Key) -> Action {
        let node = self.config.get("upstreams").and_then(|upstreams| upstreams.get(name)).and_then(|node| node.get("servers"));
        let mut weighted = false;
        let servers: Vec<&str> = node.map_or(Vec::new(), |node| {
            node.entries()
                .iter()
                .map(|(address, server)| {
                    weighted |= !server.entries().is_empty();
                    server.skip();
                    address.as_str()
                })
                .collect()
        });
        let url = |address: &&str| match address.strip_prefix("unix:") {
            Some(path) => format!("http+unix:{path}"),
            None => format!("http://{address}"),
        };
        let urls: Vec<String> = servers.iter().map(url).collect();
        if weighted {
            self.draft.lost(key, "upstreams have no weight: the one with the fewest open exchanges is next");
        }
        self.draft.proxy(name, &urls, key)
    }

    /// Writes the steps of a list. Requests that meet none of them get a 404, as in Unit.
    fn steps(&mut self, name: Option<&str>, conditions: &Match, key: &Key, above: &mut Vec<String>) {
        let label = name.unwrap_or_default().to_owned();
        if above.contains(&label) || above.len() >= DEPTH {
            self.draft.lost(key, "a pass to the same routes again: these requests get a 500");
            return self.draft.route(conditions.clone(), Action::status(500), key);
        }
        let routes = self.config.get("routes");
        let node = match name {
            Some(name) => routes.filter(|routes| routes.is_map()).and_then(|routes| routes.get(name)),
            None => routes.filter(|routes| routes.is_list()),
        };
        let Some(node) = node else {
            self.draft.lost(key, "a pass to routes that do not exist: these requests get a 404");
            return self.draft.route(conditions.clone(), Action::status(404), key);
        };
        let key = Key::new("routes");
        let key = if name.is_some() { key.inside(&label) } else { key };
        above.push(label);
        let (mut open, first) = (false, self.draft.routes.len());
        for (index, step) in node.values().iter().enumerate() {
            open |= self.step(step, conditions, &key.inside(&index.to_string()), above);
        }
        above.pop();
        // Without any route, the one app of a server would answer.
        if !open && (!conditions.is_open() || self.draft.routes.len() == first) {
            self.draft.route(conditions.clone(), Action::status(404), &key);
        }
    }

    /// Writes a step. Returns whether every request meets its conditions.
    fn step(&mut self, step: &Node, conditions: &Match, key: &Key, above: &mut Vec<String>) -> bool {
        if self.draft.routes.len() > ROUTES {
            step.skip();
            self.draft.lost(key, "too many routes");
            return false;
        }
        let action = step.get("action");
        let all = Conditions { alternatives: vec![Match::default()], complete: true };
        let found = step.get("match").map_or(all, |node| matching::read(node, &key.inside("match"), self.draft));
        if !found.complete {
            if let Some(action) = action {
                action.skip();
            }
            let refusal = action.and_then(refusal);
            match refusal {
                Some(status) => {
                    let text = format!(
                        "a route cannot say its conditions: until you write it, all requests that meet the others get a {status}"
                    );
                    self.draft.lost(key, text);
                    for own in &found.alternatives {
                        let both = conditions.and(own).unwrap_or_else(|()| Some(conditions.clone()));
                        if let Some(both) = both {
                            self.draft.route(both, Action::status(status), key);
                        }
                    }
                    return found.alternatives.iter().any(Match::is_open);
                }
                None => self.draft.lost(key, "left out: a route cannot say its conditions"),
            }
            return false;
        }
        if action.is_none() {
            self.draft.lost(key, "a step without an action");
        }
        let mut open = false;
        for own in found.alternatives {
            match conditions.and(&own) {
                Ok(None) => {}
                Ok(Some(both)) => {
                    open |= own.is_open();
                    if let Some(action) = action {
                        self.action(action, &both, &key.inside("action"), above);
                    }
                }
                Err(()) if action.and_then(refusal).is_some() => {
                    let text = "a route cannot say its conditions together with those of the step that passes to it: until \
                         you write it, all requests that are passed to it are refused";
                    self.draft.lost(key, text);
                    self.draft.route(conditions.clone(), Action::status(action.and_then(refusal).unwrap_or(403)), key);
                }
                Err(()) => {
                    self.draft.lost(
                        key,
                        "left out: a route cannot say its conditions together with those of the step that passes to it",
                    );
                }
            }
        }
        if let Some(action) = action.filter(|action| action.entries().is_empty()) {
            action.skip();
        }
        open
    }
}

/// The status of an action that refuses requests.
fn refusal(action: &Node) -> Option<u16> {
    let status = action.get("return").and_then(Node::number).and_then(|status| u16::try_from(status).ok());
    status.filter(|status| (400..500).contains(status))
}

#[cfg(test)]
mod tests {
    use crate::draft::Draft;

    #[test]
    fn an_upstream_may_be_a_socket() {
        let text = r#"{"listeners": {"127.0.0.1:80": {"pass": "upstreams/a"}}, "upstreams": {"a": {"servers": {"unix:/x": {}, "127.0.0.1:81": {}}}}}"#;
        let mut draft = Draft::default();
        super::super::read(&serde_json::from_str(text).expect("JSON"), &mut draft);
        assert_eq!(draft.apps[0].proxy, ["http+unix:/x", "http://127.0.0.1:81"], "{:?}", draft.notes);
    }
}
