//! `server`: addresses, names, and the routes of all servers in the order in which nginx chooses.

use super::context::{Context, pages, questions};
use super::listens::{Address, is_without_listen};
use super::syntax::Directive;
use super::{Nginx, key};
use crate::address::destination;
use crate::conditions::Match;
use crate::draft::{Action, Route, Value};
use crate::note::Key;

/// A server.
pub(super) struct Server {
    /// Patterns of hosts; empty for a server that takes all.
    hosts: Vec<String>,
    addresses: Vec<Address>,
    routes: Vec<Route>,
    key: Key,
}

/// Addresses with the same servers.
struct Group {
    /// The servers, by their numbers.
    members: Vec<usize>,
    /// The server that takes the requests for all other hosts.
    default: usize,
    /// The patterns of the addresses.
    patterns: Vec<String>,
    /// Whether connections are encrypted, if all are alike.
    encrypted: Option<bool>,
}

struct Groups {
    list: Vec<Group>,
    /// Whether schemes tell the groups apart.
    by_scheme: bool,
}

impl Groups {
    /// The conditions for requests that arrive at the addresses of some groups. `None`: routes cannot tell them from others.
    fn conditions(&self, some: &[usize]) -> Option<Match> {
        let mut conditions = Match::default();
        if some.len() == self.list.len() {
            return Some(conditions);
        }
        if self.by_scheme {
            let name = |group: &usize| if self.list[*group].encrypted == Some(true) { "https" } else { "http" };
            conditions.scheme = some.iter().map(|group| name(group).to_owned()).collect();
            return Some(conditions);
        }
        let patterns = |group: usize| self.list[group].patterns.iter().cloned();
        conditions.destination = some.iter().flat_map(|group| patterns(*group)).collect();
        let ports: Vec<String> =
            conditions.destination.iter().filter_map(|pattern| pattern.strip_prefix('*')).map(str::to_owned).collect();
        // nginx takes the address itself before the one that includes it.
        for pattern in (0..self.list.len()).filter(|group| !some.contains(group)).flat_map(patterns) {
            if !pattern.starts_with('*') && ports.iter().any(|port| pattern.ends_with(port.as_str())) {
                conditions.destination.push(format!("!{pattern}"));
            }
        }
        (!conditions.destination.is_empty()).then_some(conditions)
    }
}

impl Nginx<'_> {
    pub(super) fn server(&mut self, directive: &Directive, inherited: &Context) -> Server {
        let mut context = inherited.inner(directive.inside());
        context.pages = pages(directive, &context);
        let inherited = context.logins[1].iter().map(|login| login.word(0).to_owned());
        context.questions = inherited.chain(questions(directive)).collect();
        context.has_expressions =
            directive.inside().iter().any(|inside| inside.name == "location" && inside.word(0).starts_with('~'));
        let mut server = Server { hosts: Vec::new(), addresses: Vec::new(), routes: Vec::new(), key: key(directive) };
        let all = directive.inside().iter().any(|inside| inside.name == "ssl" && inside.word(0) == "on");
        for inside in directive.inside().iter().filter(|inside| inside.name == "listen") {
            if let Some(address) = self.listen(inside) {
                server.addresses.push(Address { encrypted: address.encrypted || all, ..address });
            }
        }
        if is_without_listen(directive) {
            server.addresses.push(Address { text: ":80".to_owned(), encrypted: false, default: false });
            self.draft.listen(":80", &key(directive));
        }
        self.families(directive);
        let encrypted = server.addresses.iter().any(|address| address.encrypted);
        for inside in directive.inside() {
            let key = key(inside);
            match inside.name.as_str() {
                "ssl_certificate" | "ssl_certificate_key" => {
                    let path = self.beside(inside.word(0), &key);
                    let option = if inside.name == "ssl_certificate" { "ssl-cert" } else { "ssl-key" };
                    for address in server.addresses.iter().filter(|address| address.encrypted) {
                        let listen = self.draft.listen(address.text.clone(), &key);
                        let known = listen.options.list.iter().any(|setting| match &setting.value {
                            Value::List(list) => list.contains(&path),
                            Value::Text(known) => *known == path,
                            _ => false,
                        });
                        if !known {
                            listen.options.set(option, path.clone(), &key);
                        }
                    }
                    if !encrypted {
                        self.draft.lost(&key, "no address of this server is encrypted");
                    }
                }
                "server_name" => self.names(inside, &mut server),
                "listen" | "ssl" | "location" | "return" | "rewrite" | "if" | "break" | "try_files" => {}
                _ if Context::default().set(inside) => {}
                _ => self.general(inside),
            }
        }
        server.routes = self.locations(directive, &context);
        server
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
    pub(super) fn servers(&mut self, servers: Vec<Server>) {
        let (servers, nowhere): (Vec<_>, Vec<_>) = servers.into_iter().partition(|server| !server.addresses.is_empty());
        for server in &nowhere {
            self.draft.lost(&server.key, "left out: it has no address here");
        }
        if let ([], [server, ..]) = (servers.as_slice(), nowhere.as_slice()) {
            // Without a route, the one app would get all requests.
            self.draft.route(Match::default(), Action::status(404), &server.key);
        }
        let servers = servers.as_slice();
        let groups = groups(servers);
        let of = |server: &Server| -> Vec<usize> {
            let place = servers.iter().position(|other| std::ptr::eq(other, server));
            (0..groups.list.len())
                .filter(|group| place.is_some_and(|place| groups.list[*group].members.contains(&place)))
                .collect()
        };
        let leads = |group: &usize, server: &Server| std::ptr::eq(&raw const servers[groups.list[*group].default], server);
        let is_default = |server: &Server| of(server).iter().all(|group| leads(group, server));
        let wildcard =
            servers.iter().any(|server| server.hosts.iter().any(|host| host.starts_with('*')) && !is_default(server));
        // Without wildcards of others, the names of a default server lead to it in any case.
        for (hosts, server) in by_names(servers).into_iter().filter(|(_, server)| wildcard || !is_default(server)) {
            if let Some(within) = groups.conditions(&of(server)) {
                self.routes_of(server, &Match { host: hosts, ..within });
            }
        }
        for server in servers {
            let own: Vec<usize> = of(server).into_iter().filter(|group| leads(group, server)).collect();
            if own.is_empty() {
                if server.hosts.is_empty() {
                    let text = "left out: another server of its address is the default, and no name leads to this one";
                    self.draft.lost(&server.key, text);
                }
                continue;
            }
            if !server.hosts.is_empty() && !wildcard && is_default(server) {
                let text = "its routes need no host: the default server takes all others, too";
                self.draft.same(&server.key.inside("server_name"), text);
            }
            if let Some(within) = groups.conditions(&own) {
                self.routes_of(server, &within);
            }
        }
        self.covered();
    }

    /// Leaves out addresses that another one includes.
    fn covered(&mut self) {
        let port =
            |text: &str| text.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()).map(|(_, port)| port.to_owned());
        let all: Vec<String> =
            self.draft.listens.iter().filter_map(|listen| listen.address.strip_prefix(':')).map(str::to_owned).collect();
        let mut kept = Vec::new();
        for listen in std::mem::take(&mut self.draft.listens) {
            let within = port(&listen.address).filter(|port| all.contains(port) && !listen.address.starts_with(':'));
            match within {
                Some(port) if listen.options.list.is_empty() => {
                    self.draft.same(&listen.key, format!("the address :{port} includes {}", listen.address));
                }
                Some(port) => {
                    let text = format!(
                        "the address :{port} includes {}, which has options of its own: write one of them",
                        listen.address
                    );
                    self.draft.lost(&listen.key, text);
                    kept.push(listen);
                }
                None => kept.push(listen),
            }
        }
        self.draft.listens = kept;
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

/// The groups of addresses that have the same servers.
fn groups(servers: &[Server]) -> Groups {
    let mut list: Vec<Group> = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for address in servers.iter().flat_map(|server| &server.addresses) {
        if seen.contains(&&*address.text) {
            continue;
        }
        seen.push(&address.text);
        let at = |server: &Server| -> Vec<(bool, bool)> {
            let same = server.addresses.iter().filter(|other| other.text == address.text);
            same.map(|place| (place.encrypted, place.default)).collect()
        };
        let members: Vec<usize> = (0..servers.len()).filter(|place| !at(&servers[*place]).is_empty()).collect();
        let says = |place: &&usize| at(&servers[**place]).iter().any(|(_, default)| *default);
        let default = members.iter().find(says).or(members.first()).copied().unwrap_or_default();
        let encrypted = members.iter().any(|place| at(&servers[*place]).iter().any(|(encrypted, _)| *encrypted));
        let known = list.iter().position(|group| (&group.members, group.default) == (&members, default));
        let index = known.unwrap_or_else(|| {
            list.push(Group { members, default, patterns: Vec::new(), encrypted: Some(encrypted) });
            list.len() - 1
        });
        let group = &mut list[index];
        group.encrypted = group.encrypted.filter(|all| *all == encrypted);
        let pattern = destination(&address.text);
        if !group.patterns.contains(&pattern) {
            group.patterns.push(pattern);
        }
    }
    let schemes: Vec<Option<bool>> = list.iter().map(|group| group.encrypted).collect();
    Groups { by_scheme: matches!(schemes.as_slice(), [Some(one), Some(other)] if one != other), list }
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
