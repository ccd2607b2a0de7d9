//! `listeners`: addresses, and the targets to which each passes its requests.

use super::Unit;
use crate::conditions::Match;
use crate::note::Key;
use crate::tree::Node;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A listener.
struct Listener {
    key: Key,
    pass: String,
    encrypted: bool,
    /// The pattern of its address.
    destination: String,
}

/// An address of Unit as one of Oribi.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// The address with these letters.
    Written(String),
    /// A port for both families, where Unit has one for IPv6 alone.
    Wider(String),
    /// As before; but it would take the port of single addresses of IPv4.
    TooWide(String),
}

/// The port of an address for all interfaces of IPv6.
fn port_of_v6(address: &str) -> Option<&str> {
    let (host, port) = address.strip_prefix('[')?.split_once("]:")?;
    (host.parse() == Ok(Ipv6Addr::UNSPECIFIED)).then_some(port)
}

/// The port of an address for all interfaces of IPv4.
fn port_of_v4(address: &str) -> Option<&str> {
    address.strip_prefix("*:").or_else(|| address.strip_prefix("0.0.0.0:"))
}

/// The place of an address among all of them: Unit opens one family of addresses for each.
fn place(address: &str, all: &[&str]) -> Place {
    let has = |port: &str, port_of: fn(&str) -> Option<&str>| all.iter().any(|other| port_of(other) == Some(port));
    if let Some(port) = port_of_v4(address) {
        let host = if has(port, port_of_v6) { "" } else { "0.0.0.0" };
        return Place::Written(format!("{host}:{port}"));
    }
    let Some(port) = port_of_v6(address) else { return Place::Written(address.to_owned()) };
    let narrow = |other: &&str| other.rsplit_once(':').is_some_and(|(host, of)| of == port && host.parse::<Ipv4Addr>().is_ok());
    if has(port, port_of_v4) {
        Place::Written(format!(":{port}"))
    } else if all.iter().any(narrow) {
        Place::TooWide(port.to_owned())
    } else {
        Place::Wider(port.to_owned())
    }
}

/// The pattern of an address: where both families have the port, that of its own.
fn destination(address: &str, all: &[&str]) -> String {
    let both = |port: &str| {
        all.iter().any(|other| port_of_v4(other) == Some(port)) && all.iter().any(|other| port_of_v6(other) == Some(port))
    };
    match (port_of_v4(address), port_of_v6(address)) {
        (Some(port), _) if both(port) => format!("0.0.0.0/0:{port}"),
        (Some(port), _) => format!("*:{port}"),
        (_, Some(port)) if both(port) => format!("[::/0]:{port}"),
        (_, Some(port)) => format!("*:{port}"),
        _ => address.to_owned(),
    }
}

impl Unit<'_> {
    pub(super) fn listeners(&mut self) {
        let config = self.config;
        let Some(node) = config.get("listeners") else { return };
        let mut listeners = Vec::new();
        let all: Vec<&str> = node.entries().iter().map(|(address, _)| address.as_str()).collect();
        for (address, node) in node.entries() {
            let key = Key::new("listeners").inside(address);
            if let Some(listener) = self.listener(address, &all, node, key) {
                listeners.push(listener);
            }
        }
        self.trusts_of_all(node);
        self.passes(&listeners);
    }

    fn listener(&mut self, address: &str, all: &[&str], node: &Node, key: Key) -> Option<Listener> {
        let written = match address.strip_prefix("unix:") {
            Some(path) if path.starts_with('@') => {
                node.skip();
                self.draft.lost(&key, "an abstract socket: Oribi listens at a path, as in address = \"/run/app.sock\"");
                return None;
            }
            Some(path) => path.to_owned(),
            None => match place(address, all) {
                Place::Written(written) => written,
                Place::Wider(port) => {
                    let text = format!(
                        "OPEN FOR IPv4, TOO: Unit has IPv6 alone here, and :{port} has both: write single addresses, such as \
                         [::1]:{port}, to keep it closed"
                    );
                    self.draft.lost(&key, text);
                    format!(":{port}")
                }
                Place::TooWide(port) => {
                    node.skip();
                    let text = format!(
                        "left out: :{port} would be OPEN FOR IPv4 on all interfaces, too; Oribi has no address for all \
                         interfaces of IPv6 alone: write single ones, such as [::1]:{port}"
                    );
                    self.draft.lost(&key, text);
                    return None;
                }
            },
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
        Some(Listener { key, pass, encrypted, destination: destination(address, all) })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_the_families_of_unit() {
        let wider = |port: &str| Place::Wider(port.to_owned());
        let written = |text: &str| Place::Written(text.to_owned());
        for (all, expected, destinations) in [
            (&["*:80"][..], &[written("0.0.0.0:80")][..], "*:80"),
            (&["*:80", "[::1]:80"], &[written("0.0.0.0:80"), written("[::1]:80")], "*:80 [::1]:80"),
            (&["*:80", "[::]:80"], &[written(":80"), written(":80")], "0.0.0.0/0:80 [::/0]:80"),
            (&["0.0.0.0:80", "[::]:81"], &[written("0.0.0.0:80"), wider("81")], "*:80 *:81"),
            (&["127.0.0.1:80", "[0::0]:80"], &[written("127.0.0.1:80"), Place::TooWide("80".to_owned())], "127.0.0.1:80 *:80"),
        ] {
            let places: Vec<Place> = all.iter().map(|address| place(address, all)).collect();
            assert_eq!(places, expected, "{all:?}");
            let found: Vec<String> = all.iter().map(|address| destination(address, all)).collect();
            assert_eq!(found.join(" "), destinations, "{all:?}");
        }
    }
}
