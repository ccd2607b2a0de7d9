//! Trusted proxies: `forwarded` of a listener, or `client_ip` of older versions.

use super::{Unit, networks};
use crate::note::Key;
use crate::tree::Node;

impl Unit<'_> {
    /// Reads the trusted proxies of a listener.
    pub(super) fn proxies(&mut self, node: &Node, key: &Key) {
        for name in ["forwarded", "client_ip"] {
            let Some(forwarded) = node.get(name) else { continue };
            let key = key.inside(name);
            let mut sources = Vec::new();
            if let Some(source) = forwarded.get("source") {
                let texts: Vec<&str> = source.values().iter().filter_map(Node::text).collect();
                match networks::of_sources(&texts) {
                    Some(networks) => sources = networks,
                    None => {
                        let text = "trusted-proxies takes addresses and networks, and unix: none of these is trusted";
                        self.draft.lost(&key.inside("source"), text);
                    }
                }
            }
            for source in sources {
                self.draft.server.set("trusted-proxies", source, &key.inside("source"));
            }
            let client = forwarded.get(if name == "forwarded" { "client_ip" } else { "header" }).and_then(Node::text);
            let protocol = forwarded.get("protocol").and_then(Node::text);
            let mut fields: Vec<String> = Vec::new();
            for field in client.into_iter().chain(protocol).map(str::to_ascii_lowercase) {
                if !["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-forwarded-port", "forwarded"]
                    .contains(&&*field)
                {
                    self.draft.lost(&key, format!("the field {field} is not known: the proxy has to send X-Forwarded-For"));
                } else if !fields.contains(&field) {
                    fields.push(field);
                }
            }
            if !fields.is_empty() {
                self.draft.server.set("forwarded-fields", fields.join(","), &key);
            }
            if let Some(recursive) = forwarded.get("recursive").and_then(Node::boolean) {
                let text = "Oribi takes the last address that is not that of a trusted proxy";
                let inside = key.inside("recursive");
                if recursive { self.draft.same(&inside, text) } else { self.draft.lost(&inside, text) }
            }
        }
    }

    /// Notes that all listeners trust the proxies of each, if they did not.
    pub(super) fn trusts_of_all(&mut self, listeners: &Node) {
        let of = |node: &Node| {
            let forwarded = node.get("forwarded").or_else(|| node.get("client_ip"));
            let source = forwarded.and_then(|forwarded| forwarded.get("source"));
            source.map(|source| source.values().iter().filter_map(Node::text).map(str::to_owned).collect::<Vec<_>>())
        };
        let all: Vec<_> = listeners.entries().iter().map(|(_, node)| of(node)).collect();
        if all.iter().any(|sources| *sources != all[0]) {
            let text = "trusted-proxies holds for all addresses: each listener believes the proxies of the others, too";
            self.draft.lost(&Key::new("listeners"), text);
        }
    }
}
