//! `listeners`: addresses, and the targets to which each passes its requests.

use super::Unit;
use crate::conditions::Match;
use crate::note::Key;
use crate::tree::Node;

/// A listener.
struct Listener {
    key: Key,
    pass: String,
    encrypted: bool,
    /// The pattern of its address.
    destination: String,
}

impl Unit<'_> {
    pub(super) fn listeners(&mut self) {
        let config = self.config;
        let Some(node) = config.get("listeners") else { return };
        let mut listeners = Vec::new();
        for (address, node) in node.entries() {
            let key = Key::new("listeners").inside(address);
            if let Some(listener) = self.listener(address, node, key) {
                listeners.push(listener);
            }
        }
        self.trusts_of_all(node);
        self.passes(&listeners);
    }

    fn listener(&mut self, address: &str, node: &Node, key: Key) -> Option<Listener> {
        let written = match address.strip_prefix("unix:") {
            Some(path) if path.starts_with('@') => {
                node.skip();
                self.draft.lost(&key, "an abstract socket: Oribi listens at a path, as in address = \"/run/app.sock\"");
                return None;
            }
            Some(path) => path.to_owned(),
            None => address.strip_prefix('*').map_or_else(|| address.to_owned(), str::to_owned),
        };
        let pass = match (node.get("pass").and_then(Node::text), node.get("application").and_then(Node::text)) {
            (Some(pass), _) => pass.to_owned(),
            (None, Some(name)) => format!("applications/{name}"),
            (None, None) => {
                node.skip();
                self.draft.lost(&key, "a listener without pass");
                return None;
            }
        };
        self.draft.listen(written, &key);
        let encrypted = node.get("tls").is_some_and(|tls| self.tls(tls, &key));
        self.proxies(node, &key);
        if let Some(number) = node.get("backlog").and_then(Node::number) {
            self.draft.server.set("backlog", number, &key.inside("backlog"));
        }
        Some(Listener { key, pass, encrypted, destination: address.to_owned() })
    }

    /// Writes the certificates into the last address. Returns whether there are any.
    fn tls(&mut self, tls: &Node, key: &Key) -> bool {
        let key = key.inside("tls");
        let mut names = Vec::new();
        if let Some(certificates) = tls.get("certificate") {
            names.extend(certificates.values().iter().filter_map(Node::text));
        }
        let inside = key.inside("certificate");
        for name in &names {
            let path = format!("/var/lib/unit/certs/{name}");
            if let Some(listen) = self.draft.listens.last_mut() {
                listen.options.set("ssl-cert", path, &inside);
            }
        }
        if !names.is_empty() {
            let text = "ssl-cert is the file in which Unit keeps the bundle, if its state is in /var/lib/unit: name your own \
                 PEM file with chain and key, readable by root";
            self.draft.lost(&inside, text);
        }
        for (name, text) in [
            ("conf_commands", "tls-min-version and ssl-ciphers set versions and cipher suites"),
            ("session", "Oribi keeps sessions in tickets, whose keys it makes and replaces by itself"),
        ] {
            if let Some(node) = tls.get(name) {
                node.skip();
                self.draft.lost(&key.inside(name), text);
            }
        }
        !names.is_empty()
    }

    /// Writes the routes of all listeners: those that pass requests elsewhere are told apart by schemes or addresses.
    fn passes(&mut self, listeners: &[Listener]) {
        let mut targets: Vec<Vec<&Listener>> = Vec::new();
        for listener in listeners {
            match targets.iter_mut().find(|target| target[0].pass == listener.pass) {
                Some(target) => target.push(listener),
                None => targets.push(vec![listener]),
            }
        }
        let encrypted = |target: &[&Listener], on: bool| target.iter().all(|listener| listener.encrypted == on);
        let by_scheme = match targets.as_slice() {
            [one, other] => [true, false].iter().any(|on| encrypted(one, *on) && encrypted(other, !*on)),
            _ => false,
        };
        for target in &targets {
            let mut conditions = Match::default();
            if by_scheme {
                conditions.scheme.push(if target[0].encrypted { "https" } else { "http" }.to_owned());
            } else if targets.len() > 1 {
                conditions.destination = target.iter().map(|listener| listener.destination.clone()).collect();
            }
            self.pass(&target[0].pass, &conditions, &target[0].key);
        }
    }
}
