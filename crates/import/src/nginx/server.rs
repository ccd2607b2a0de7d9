//! `server`: addresses, names, and the routes of all servers in the order in which nginx chooses.

use super::context::{Context, pages};
use super::syntax::Directive;
use super::{Nginx, key};
use crate::conditions::Match;
use crate::draft::Route;
use crate::note::Key;

/// A server.
pub(super) struct Server {
    /// Patterns of hosts; empty for a server that takes all.
    hosts: Vec<String>,
    /// Whether it says that it takes the requests for all other hosts.
    default: bool,
    /// Whether its connections are encrypted, if all are alike.
    encrypted: Option<bool>,
    routes: Vec<Route>,
    key: Key,
}

impl Nginx<'_> {
    pub(super) fn server(&mut self, directive: &Directive, inherited: &Context) -> Server {
        let mut context = inherited.inner(directive.inside());
        context.pages = pages(directive, &context);
        let mut server = Server { hosts: Vec::new(), default: false, encrypted: None, routes: Vec::new(), key: key(directive) };
        let all = directive.inside().iter().any(|inside| inside.name == "ssl" && inside.word(0) == "on");
        let (mut plain, mut encrypted) = (false, false);
        let mut addresses = Vec::new();
        for inside in directive.inside().iter().filter(|inside| inside.name == "listen") {
            if let Some((address, ssl)) = self.listen(inside, &mut server) {
                let ssl = ssl || all;
                encrypted |= ssl;
                plain |= !ssl;
                addresses.push((address, ssl));
            }
        }
        if addresses.is_empty() {
            plain = true;
            addresses.push((":80".to_owned(), false));
            self.draft.listen(":80", &key(directive));
        }
        server.encrypted = (plain != encrypted).then_some(encrypted);
        for inside in directive.inside() {
            let key = key(inside);
            match inside.name.as_str() {
                "ssl_certificate" | "ssl_certificate_key" => {
                    let option = if inside.name == "ssl_certificate" { "ssl-cert" } else { "ssl-key" };
                    for (address, _) in addresses.iter().filter(|(_, ssl)| *ssl) {
                        let listen = self.draft.listen(address.clone(), &key);
                        let known = listen.options.list.iter().any(|setting| match &setting.value {
                            crate::draft::Value::List(list) => list.iter().any(|path| path == inside.word(0)),
                            crate::draft::Value::Text(path) => path == inside.word(0),
                            _ => false,
                        });
                        if !known {
                            listen.options.set(option, inside.word(0), &key);
                        }
                    }
                    if !encrypted {
                        self.draft.lost(&key, "no address of this server is encrypted");
                    }
                }
                "server_name" => self.names(inside, &mut server),
                "listen" | "ssl" | "location" | "return" | "rewrite" | "if" | "try_files" => {}
                _ if Context::default().set(inside) => {}
                _ => self.general(inside),
            }
        }
        server.routes = self.locations(directive, &context);
        server
    }

    /// Reads `listen`. Returns the address, and whether it is encrypted.
    fn listen(&mut self, directive: &Directive, server: &mut Server) -> Option<(String, bool)> {
        let key = key(directive);
        let word = directive.word(0);
        let text = word.strip_suffix(":").unwrap_or(word);
        let port = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let whole = if port || text.starts_with("unix:") || text.contains("]:") || text.contains(':') && !text.ends_with(']') {
            text.to_owned()
        } else {
            format!("{text}:80")
        };
        let address = match crate::address::of_server(&whole) {
            Ok(address) => address.text,
            Err(reason) => {
                self.draft.lost(&key, reason);
                return None;
            }
        };
        let mut encrypted = false;
        self.draft.listen(address.clone(), &key);
        for word in directive.words.iter().skip(1) {
            match word.as_str() {
                "ssl" => encrypted = true,
                "default_server" | "default" => server.default = true,
                "http2" | "deferred" | "bind" => {}
                "proxy_protocol" => self.draft.listen(address.clone(), &key).options.set("proxy-protocol", "on", &key),
                "reuseport" => self.draft.server.set("reuse-port", true, &key),
                word => match word.split_once('=') {
                    Some(("backlog", number)) => self.draft.server.set("backlog", number, &key),
                    Some(("ipv6only" | "so_keepalive" | "rcvbuf" | "sndbuf" | "fastopen", _)) => {}
                    _ => self.draft.lost(&key, format!("{word} has no counterpart")),
                },
            }
        }
        Some((address, encrypted))
    }

    fn names(&mut self, directive: &Directive, server: &mut Server) {
        for name in &directive.words {
            let name = name.to_ascii_lowercase();
            if let Some(rest) = name.strip_prefix('.') {
                server.hosts.extend([rest.to_owned(), format!("*.{rest}")]);
            } else if name.is_empty() || name == "_" || name == "\"\"" {
                self.draft.same(&key(directive), "a server that no name chooses takes the requests for all other hosts");
            } else if name.starts_with('~') || name.ends_with(".*") || name.contains('$') {
                self.draft.lost(&key(directive), format!("host takes names and *.NAME, not {name}"));
            } else {
                server.hosts.push(name);
            }
        }
    }

    /// Writes the routes of all servers.
    pub(super) fn servers(&mut self, servers: &[Server]) {
        let of = |encrypted| servers.iter().any(|server| server.encrypted == Some(encrypted));
        let schemes: &[Option<bool>] = if of(true) && !servers.iter().all(|server| server.encrypted == Some(true)) {
            &[Some(false), Some(true)]
        } else {
            &[None]
        };
        let scheme = |encrypted: Option<bool>| match encrypted.filter(|_| schemes.len() > 1) {
            Some(true) => vec!["https".to_owned()],
            Some(false) => vec!["http".to_owned()],
            None => Vec::new(),
        };
        // The default server takes all other hosts: the one that says so, or the first one.
        let mut defaults: Vec<(&Server, Option<bool>)> = Vec::new();
        for encrypted in schemes {
            let fits = |server: &&Server| encrypted.is_none() || server.encrypted.is_none() || server.encrypted == *encrypted;
            let default = servers.iter().filter(fits).find(|server| server.default).or_else(|| servers.iter().find(fits));
            defaults.extend(default.map(|server| (server, *encrypted)));
        }
        let is_default = |server: &Server| {
            let groups =
                schemes.iter().filter(|scheme| scheme.is_none() || server.encrypted.is_none() || server.encrypted == **scheme);
            groups.clone().all(|scheme| defaults.iter().any(|(default, of)| default.key == server.key && of == scheme))
        };
        let wildcard =
            servers.iter().any(|server| server.hosts.iter().any(|host| host.starts_with('*')) && !is_default(server));
        // Without wildcards of others, the names of a default server lead to it in any case.
        for (hosts, server) in by_names(servers).into_iter().filter(|(_, server)| wildcard || !is_default(server)) {
            self.routes_of(server, &Match { host: hosts, scheme: scheme(server.encrypted), ..Match::default() });
        }
        for (server, _) in defaults.iter().filter(|(server, _)| !server.hosts.is_empty() && !wildcard) {
            self.draft.same(
                &server.key.inside("server_name"),
                "its routes need no host: the default server takes all \
                 others, too",
            );
        }
        for (server, encrypted) in &defaults {
            self.routes_of(server, &Match { scheme: scheme(*encrypted), ..Match::default() });
        }
        for server in servers
            .iter()
            .filter(|server| server.hosts.is_empty() && defaults.iter().all(|(default, _)| default.key != server.key))
        {
            self.draft
                .lost(&server.key, "left out: another server of its address is the default, and no name leads to this one");
        }
    }

    fn routes_of(&mut self, server: &Server, conditions: &Match) {
        for route in &server.routes {
            let key = &route.key;
            match conditions.and(&route.conditions) {
                Ok(Some(both)) => self.draft.routes.push(Route { conditions: both, ..route.clone() }),
                Ok(None) => {}
                Err(()) => {
                    self.draft.lost(key, "left out: a route cannot say its conditions together with those of the server");
                }
            }
        }
    }
}

/// Servers by their names, in the order in which nginx looks: all exact names, then the longest wildcards. A server whose
/// wildcards fit no exact name of another one is there once.
fn by_names(servers: &[Server]) -> Vec<(Vec<String>, &Server)> {
    let is_wildcard = |host: &String| host.starts_with('*');
    let covers = |wildcard: &str, host: &str| host.ends_with(wildcard.trim_start_matches('*'));
    let mut first = Vec::new();
    let mut last = Vec::new();
    for (index, server) in servers.iter().enumerate().filter(|(_, server)| !server.hosts.is_empty()) {
        let (wildcards, exact): (Vec<String>, Vec<String>) = server.hosts.iter().cloned().partition(is_wildcard);
        let mut others = servers.iter().enumerate().filter(|(other, _)| *other != index).flat_map(|(_, other)| &other.hosts);
        let shared = others.any(|host| wildcards.iter().any(|wildcard| covers(wildcard, host)));
        if exact.is_empty() || shared && !wildcards.is_empty() {
            last.push((wildcards, server));
        }
        if shared && !exact.is_empty() {
            first.push((exact, server));
        } else if !exact.is_empty() {
            first.push((server.hosts.clone(), server));
        }
    }
    let length = |hosts: &[String]| hosts.iter().map(String::len).max().unwrap_or(0);
    last.sort_by_key(|(hosts, _)| std::cmp::Reverse(length(hosts)));
    first.into_iter().chain(last).collect()
}
