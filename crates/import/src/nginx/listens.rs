//! `listen`. An address for all interfaces has both families of addresses in Oribi; in nginx each `listen` has one of them.

use super::syntax::Directive;
use super::{Nginx, key};
use crate::note::Key;
use std::collections::BTreeSet;
use std::net::Ipv6Addr;

/// An address of a server.
pub(super) struct Address {
    pub text: String,
    pub encrypted: bool,
    /// Whether the server takes the requests for all other hosts there.
    pub default: bool,
}

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Family {
    V4,
    V6,
}

/// The ports of all servers.
#[derive(Default)]
pub(super) struct Ports {
    /// Ports of all interfaces.
    open: BTreeSet<(String, Family)>,
    /// Ports of single addresses of IPv4.
    narrow: BTreeSet<String>,
    /// Ports that one `listen` opens for both families.
    both: BTreeSet<String>,
    /// Ports about which a note says that Oribi opens them for the other family, too.
    told: BTreeSet<(String, Family)>,
}

impl Ports {
    /// The ports of all servers for HTTP.
    pub fn of(directives: &[Directive]) -> Self {
        let mut ports = Self::default();
        ports.add(directives);
        ports
    }

    fn add(&mut self, directives: &[Directive]) {
        for directive in directives.iter().filter(|directive| !["stream", "mail"].contains(&&*directive.name)) {
            match directive.name.as_str() {
                "listen" => match place(directive.word(0)) {
                    Some((port, Some(family))) => {
                        if directive.words.iter().any(|word| word == "ipv6only=off") {
                            self.both.insert(port.clone());
                            self.open.insert((port.clone(), Family::V4));
                        }
                        self.open.insert((port, family));
                    }
                    Some((port, None)) => {
                        self.narrow.insert(port);
                    }
                    None => {}
                },
                "server" if is_without_listen(directive) => {
                    self.open.insert(("80".to_owned(), Family::V4));
                }
                _ => self.add(directive.inside()),
            }
        }
    }
}

/// Whether a server has the default address.
pub(super) fn is_without_listen(server: &Directive) -> bool {
    server.inside().iter().all(|inside| inside.name != "listen")
}

/// An address with its port.
fn whole(word: &str) -> String {
    let text = word.strip_suffix(":").unwrap_or(word);
    let port = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if port || text.starts_with("unix:") || text.contains("]:") || text.contains(':') && !text.ends_with(']') {
        text.to_owned()
    } else {
        format!("{text}:80")
    }
}

/// The port of an address and, if it is for all interfaces, its family. `None` for single addresses of IPv6 and for sockets.
fn place(word: &str) -> Option<(String, Option<Family>)> {
    let whole = whole(word);
    if whole.starts_with("unix:") {
        return None;
    }
    let (host, port) = whole.rsplit_once(':').unwrap_or(("", &whole));
    let family = match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(host) if host.parse::<Ipv6Addr>() == Ok(Ipv6Addr::UNSPECIFIED) => Some(Family::V6),
        Some(_) => return None,
        None => ["", "*", "0.0.0.0"].contains(&host).then_some(Family::V4),
    };
    Some((port.to_owned(), family))
}

impl Nginx<'_> {
    /// Reads `listen`. `None`: the address is left out.
    pub(super) fn listen(&mut self, directive: &Directive) -> Option<Address> {
        let key = key(directive);
        let found = crate::address::of_server(&whole(directive.word(0)));
        let address = match (found, place(directive.word(0))) {
            (_, Some((port, Some(Family::V6))))
                if self.ports.narrow.contains(&port) && !self.ports.open.contains(&(port.clone(), Family::V4)) =>
            {
                let text = format!(
                    "left out: :{port} would be OPEN FOR IPv4 on all interfaces, too; Oribi has no address for all interfaces of \
                     IPv6 alone: write single ones, such as [::1]:{port}"
                );
                self.draft.lost(&key, text);
                return None;
            }
            (_, Some((port, Some(_)))) => format!(":{port}"),
            (Ok(address), _) => address.text,
            (Err(reason), _) => {
                self.draft.lost(&key, reason);
                return None;
            }
        };
        let (mut encrypted, mut default) = (false, false);
        self.draft.listen(address.clone(), &key);
        for word in directive.words.iter().skip(1) {
            match word.as_str() {
                "ssl" => encrypted = true,
                "default_server" | "default" => default = true,
                "http2" => {}
                "deferred" => self.draft.same(&key, "a connection that stays silent ends by header-timeout, without deferred"),
                "bind" => self.draft.same(&key, "each address has a socket of its own, without bind"),
                "proxy_protocol" => self.draft.listen(address.clone(), &key).options.set("proxy-protocol", "on", &key),
                "reuseport" => self.draft.server.set("reuse-port", true, &key),
                word => match word.split_once('=') {
                    Some(("backlog", number)) => self.draft.server.set("backlog", number, &key),
                    // The notes about families tell of it.
                    Some(("ipv6only", _)) => {}
                    Some(("so_keepalive", "off")) => self.draft.same(&key, "so_keepalive is off"),
                    Some(("so_keepalive", _)) => {
                        let text = "so_keepalive has no counterpart: timeouts in [server] end connections whose client is gone";
                        self.draft.lost(&key, text);
                    }
                    _ => self.draft.lost(&key, format!("{word} has no counterpart")),
                },
            }
        }
        Some(Address { text: address, encrypted, default })
    }

    /// Notes the addresses of a server that get another family of addresses.
    pub(super) fn families(&mut self, server: &Directive) {
        let mut all: Vec<(Key, String, Family)> = Vec::new();
        if is_without_listen(server) {
            all.push((key(server), "80".to_owned(), Family::V4));
        }
        for listen in server.inside().iter().filter(|inside| inside.name == "listen") {
            if let Some((port, Some(family))) = place(listen.word(0)) {
                all.push((key(listen), port, family));
            }
        }
        for (key, port, family) in &all {
            let is_alone = all.iter().all(|(_, other, of)| other != port || of == family);
            let is_there = self.draft.listens.iter().any(|listen| listen.address.strip_prefix(':') == Some(port.as_str()));
            if !is_alone || !is_there || self.ports.both.contains(port) || !self.ports.told.insert((port.clone(), *family)) {
                continue;
            }
            let text = match family {
                Family::V4 => format!("nginx has IPv4 alone here, and :{port} has IPv6, too: 0.0.0.0:{port} has IPv4 alone"),
                Family::V6 => format!(
                    "OPEN FOR IPv4, TOO: nginx has IPv6 alone here, and :{port} has both: write single addresses, such as \
                     [::1]:{port}, to keep it closed"
                ),
            };
            self.draft.lost(key, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::draft::Draft;
    use crate::note::Kind;

    fn read(text: &str) -> Draft {
        let mut draft = Draft::default();
        super::super::read("nginx.conf", text, &mut draft).expect("it can be read");
        draft
    }

    /// The addresses of a server with these directives, and the warnings about its `listen`.
    fn addresses(listens: &str) -> (String, Vec<String>) {
        let draft = read(&format!("server {{ {listens} return 200; }}"));
        let addresses: Vec<String> = draft.listens.iter().map(|listen| listen.address.clone()).collect();
        let notes = draft.notes.into_iter().filter(|note| note.kind == Kind::Lost && note.key == "listen");
        (addresses.join(" "), notes.map(|note| note.text).collect())
    }

    #[test]
    fn no_address_is_wider_without_a_warning() {
        for (listens, expected, warnings) in [
            ("listen 80; listen [::]:80;", ":80", &[][..]),
            ("listen [::]:80 ipv6only=off;", ":80", &[]),
            ("listen [::]; listen *:80;", ":80", &[]),
            ("listen 127.0.0.1:80; listen [::1]:80;", "127.0.0.1:80 [::1]:80", &[]),
            ("listen 127.0.0.1:80; listen [::]:80;", "127.0.0.1:80", &["OPEN FOR IPv4"]),
            ("listen localhost:80; listen [::0]:80 ipv6only=on;", "localhost:80", &["OPEN FOR IPv4"]),
            ("listen [::]:82;", ":82", &["OPEN FOR IPv4, TOO"]),
            ("listen [::]:82 ipv6only=on; listen 80;", ":82 :80", &["OPEN FOR IPv4, TOO", "0.0.0.0:80"]),
            ("listen 80;", ":80", &["0.0.0.0:80 has IPv4 alone"]),
        ] {
            let (found, notes) = addresses(listens);
            assert_eq!(found, expected, "{listens}");
            let fit = warnings.iter().zip(&notes).all(|(warning, note)| note.contains(warning));
            assert!(fit && warnings.len() == notes.len(), "{listens}: {notes:?}");
        }
    }

    #[test]
    fn a_server_without_an_address_answers_nowhere() {
        let draft = read(
            "server { listen 127.0.0.1:80; server_name a; return 200; } server { listen [::]:80; server_name b; return 201; }",
        );
        assert!(draft.listens.iter().all(|listen| listen.address == "127.0.0.1:80"), "{:?}", draft.listens);
        assert_eq!(draft.routes.len(), 1, "{:?}", draft.routes);
        let draft = read("server { listen unix:@a; return 200; }");
        assert!(draft.listens.is_empty(), "{:?}", draft.listens);
        let actions: Vec<_> = draft.routes.iter().map(|route| &route.action).collect();
        assert_eq!(actions, [&crate::draft::Action::status(404)]);
    }

    #[test]
    fn each_word_of_an_address_is_noted() {
        let words = "deferred bind so_keepalive=on rcvbuf=1k sndbuf=1k fastopen=3 setfib=1 accept_filter=httpready";
        let draft = read(&format!("server {{ listen 127.0.0.1:80 {words}; return 200; }}"));
        for word in words.split(' ').map(|word| word.split('=').next().unwrap_or_default()) {
            assert!(draft.notes.iter().any(|note| note.text.contains(word)), "{word}: {:?}", draft.notes);
        }
    }
}
