//! `routes`: steps, and the passes between them, as one list of routes.

use super::{Unit, decoded, matching};
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
        let urls: Vec<String> = servers.iter().map(|address| format!("http://{address}")).collect();
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
        let mut open = false;
        for (index, step) in node.values().iter().enumerate() {
            open |= self.step(step, conditions, &key.inside(&index.to_string()), above);
        }
        above.pop();
        if !open && !conditions.is_open() {
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
        let found = match step.get("match") {
            Some(node) => matching::read(node, &key.inside("match"), self.draft),
            None => Some(vec![Match::default()]),
        };
        let Some(found) = found else {
            if let Some(action) = step.get("action") {
                action.skip();
            }
            self.draft.lost(key, "left out: a route cannot say its conditions");
            return false;
        };
        let action = step.get("action");
        if action.is_none() {
            self.draft.lost(key, "a step without an action");
        }
        let mut open = false;
        for own in found {
            match conditions.and(&own) {
                Ok(None) => {}
                Ok(Some(both)) => {
                    open |= own.is_open();
                    if let Some(action) = action {
                        self.action(action, &both, &key.inside("action"), above);
                    }
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
