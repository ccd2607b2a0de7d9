//! `action`: the answer of a step.

use super::Unit;
use crate::conditions::Match;
use crate::draft::Action;
use crate::note::Key;
use crate::redirect::{REDIRECTS, target};
use crate::tree::Node;

impl Unit<'_> {
    pub(super) fn action(&mut self, node: &Node, conditions: &Match, key: &Key, above: &mut Vec<String>) {
        for (name, text) in [
            (
                "rewrite",
                "routes do not change paths: mount of a route with app moves a beginning into SCRIPT_NAME; otherwise the app \
                     does it",
            ),
            ("response_headers", "routes add no fields to responses: the app, or a middleware in it, does it"),
        ] {
            if let Some(node) = node.get(name) {
                node.skip();
                self.draft.lost(&key.inside(name), text);
            }
        }
        if let Some(pass) = node.get("pass").and_then(Node::text) {
            let pass = pass.to_owned();
            return self.passed(&pass, conditions, key, above);
        }
        if let Some(url) = node.get("proxy").and_then(Node::text) {
            let action = self.draft.proxy(url, &key.inside("proxy"));
            return self.draft.route(conditions.clone(), action, key);
        }
        if node.get("share").is_some() {
            return self.share(node, conditions, key);
        }
        let Some(status) = node.get("return").and_then(Node::number) else {
            node.skip();
            self.draft.lost(key, "an action without pass, proxy, share and return");
            return;
        };
        let status = u16::try_from(status).unwrap_or(0);
        let location = node.get("location").and_then(Node::text);
        let action = match location {
            Some(location) if REDIRECTS.contains(&status) => match target(location) {
                Ok(to) => Action::Redirect { to, status },
                Err(reason) => {
                    self.draft.lost(&key.inside("location"), format!("{reason}: these requests get a 404"));
                    Action::status(404)
                }
            },
            Some(_) => {
                self.draft.lost(&key.inside("location"), "only 301, 302, 303, 307 and 308 have a Location");
                Action::status(status)
            }
            None => Action::status(status),
        };
        self.draft.route(conditions.clone(), action, key);
    }

    fn share(&mut self, node: &Node, conditions: &Match, key: &Key) {
        let shares: Vec<&str> =
            node.get("share").map_or(Vec::new(), |share| share.values().iter().filter_map(Node::text).collect());
        for name in ["types", "chroot", "follow_symlinks", "traverse_mounts"] {
            if let Some(node) = node.get(name) {
                node.skip();
                let text = match name {
                    "types" => "files of all types are sent: a condition such as path = \"*.png\" chooses some",
                    _ => "Oribi follows no link out of the directory: see docs/static.md",
                };
                self.draft.lost(&key.inside(name), text);
            }
        }
        let index = node.get("index").and_then(Node::text).map(str::to_owned);
        let fallback = node.get("fallback").and_then(|fallback| self.fallback(fallback, &key.inside("fallback")));
        let inside = key.inside("share");
        let mut roots = Vec::new();
        for share in shares {
            let root = share.strip_suffix("$uri").unwrap_or(share);
            if root.contains('$') {
                self.draft.lost(&inside, "a share with variables: write a route for each value");
            } else if share.ends_with("$uri") || share.ends_with('/') {
                roots.push(if root.is_empty() { "/".to_owned() } else { root.to_owned() });
            } else {
                let text = "a share of one file: files of a route are those below root, by the whole path";
                self.draft.lost(&inside, text);
            }
        }
        if roots.len() > 1 {
            self.draft.lost(&inside, format!("a route has one directory, the first of {}", roots.len()));
        }
        let action = match (roots.into_iter().next(), fallback) {
            (Some(root), fallback) => Action::Files { root, index, fallback },
            (None, Some(app)) => Action::app(app),
            (None, None) => Action::status(404),
        };
        self.draft.route(conditions.clone(), action, key);
    }

    /// The app that answers for files that do not exist.
    fn fallback(&mut self, node: &Node, key: &Key) -> Option<String> {
        let pass = node.get("pass").and_then(Node::text);
        let app = pass.and_then(|pass| pass.strip_prefix("applications/")).map(|name| {
            let name = name.split('/').next().unwrap_or_default();
            self.app(&super::decoded(name))
        });
        match app {
            Some(Ok(app)) => Some(app),
            Some(Err(reason)) => {
                self.draft.lost(key, format!("{reason}: clients get a 404"));
                None
            }
            None => {
                node.skip();
                self.draft.lost(key, "the fallback of files is an app: clients get a 404");
                None
            }
        }
    }
}
