//! nginx.conf: the parts that stand in front of apps.

mod access;
mod location;
mod server;
mod syntax;
mod table;

use crate::draft::Draft;
use crate::note::Key;
use crate::unreadable::Unreadable;
use server::Server;
use syntax::Directive;

/// The parts of a file that others refer to.
struct Nginx<'d> {
    /// Names of upstreams with their servers.
    upstreams: Vec<(String, Vec<String>)>,
    /// Upstreams to which no `proxy_pass` leads.
    unused: Vec<(String, Key)>,
    /// Locations with a name, with the servers to which they pass requests.
    named: Vec<(String, Option<String>)>,
    draft: &'d mut Draft,
}

/// Fills a draft.
///
/// # Errors
/// The file does not have the syntax of nginx, or no directive of it.
pub(crate) fn read(text: &str, draft: &mut Draft) -> Result<(), Unreadable> {
    let directives = syntax::read(text)?;
    if directives.is_empty() {
        return Err(Unreadable::new("there is no directive"));
    }
    let mut nginx = Nginx { upstreams: Vec::new(), unused: Vec::new(), named: Vec::new(), draft };
    let mut servers = Vec::new();
    nginx.level(&directives, &mut servers, true);
    nginx.servers(&servers);
    for (name, key) in std::mem::take(&mut nginx.unused) {
        nginx.draft.lost(&key, format!("no location that was carried over leads to {name}"));
    }
    Ok(())
}

impl Nginx<'_> {
    /// Reads the directives outside of servers.
    fn level(&mut self, directives: &[Directive], servers: &mut Vec<Server>, top: bool) {
        // A server inherits the directives of the level above it, in whatever order they are written.
        let mut inherited = server::Context::default();
        for directive in directives {
            let key = key(directive);
            match directive.name.as_str() {
                "http" | "stream" | "mail" | "events" if top => match directive.name.as_str() {
                    "http" => self.level(directive.inside(), servers, false),
                    "events" => directive.inside().iter().for_each(|directive| self.general(directive)),
                    name => self.draft.lost(&key, format!("{name}: Oribi speaks HTTP and FastCGI only")),
                },
                "upstream" => self.upstream(directive),
                "server" | "location" => {}
                _ if inherited.set(directive) => {}
                _ => self.general(directive),
            }
        }
        for directive in directives {
            match directive.name.as_str() {
                "server" => {
                    let server = self.server(directive, &inherited);
                    servers.push(server);
                }
                "location" => self.draft.lost(&key(directive), "a location outside of a server: import the whole file"),
                _ => {}
            }
        }
    }

    fn upstream(&mut self, directive: &Directive) {
        let mut addresses = Vec::new();
        for inside in directive.inside() {
            match inside.name.as_str() {
                "server" => addresses.push(inside.word(0).to_owned()),
                "keepalive" | "keepalive_requests" | "keepalive_timeout" | "zone" => {
                    self.draft.same(&key(inside), "an app in Oribi has no connections between it and the server");
                }
                _ => self.draft.lost(&key(inside), "Oribi does not balance load: each app has workers and a queue"),
            }
        }
        self.upstreams.push((directive.word(0).to_owned(), addresses));
        self.unused.push((directive.word(0).to_owned(), key(directive)));
    }

    /// Reads a directive that is no condition and no action: an option, or a note.
    fn general(&mut self, directive: &Directive) {
        table::read(directive, &key(directive), self.draft);
    }

    /// The address to which a `proxy_pass` leads.
    fn upstream_of(&mut self, url: &str, key: &Key) -> String {
        let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
        let (host, path) = rest.split_at(rest.find(['/', '$']).unwrap_or(rest.len()));
        let Some((_, servers)) = self.upstreams.iter().find(|(name, _)| name == host) else { return url.to_owned() };
        self.unused.retain(|(name, _)| name != host);
        if servers.len() > 1 {
            self.draft.lost(key, "Oribi does not balance load: an app has workers and a queue");
        }
        format!("{scheme}://{}{path}", servers.first().map_or(host, String::as_str))
    }
}

/// The place of a directive, for notes.
fn key(directive: &Directive) -> Key {
    Key::at(directive.line, &directive.name)
}
