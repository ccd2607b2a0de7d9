//! nginx.conf: the parts that stand in front of apps.

mod access;
mod alias;
mod condition;
mod context;
mod expressions;
mod files;
mod filters;
mod guards;
mod indexes;
mod letters;
mod limits;
mod listens;
mod location;
mod logs;
mod nesting;
mod passenger;
mod passing;
mod rewriting;
mod server;
mod syntax;
mod table;
mod types;

use crate::draft::Draft;
use crate::note::Key;
use crate::unreadable::Unreadable;
use context::Context;
use listens::Ports;
use server::Server;
use std::collections::BTreeSet;
use syntax::Directive;

/// The parts of a file that others refer to.
struct Nginx<'d> {
    upstreams: Vec<passing::Upstream>,
    zones: Vec<limits::Zone>,
    /// Locations with a name, with their `proxy_pass`.
    named: Vec<(String, Option<Directive>, Context)>,
    /// The locations of the server, in the order in which routes look.
    places: Vec<indexes::Place>,
    /// The filters that a route has, or that a note is about: their lines, names and words.
    used: BTreeSet<(usize, String, Vec<String>)>,
    told_of_passwords: bool,
    ports: Ports,
    /// The `default_type` of each route with files.
    types_of_files: Vec<Option<Directive>>,
    /// The directory of the file, in which nginx looks for others; `None` if it is not known.
    directory: Option<String>,
    draft: &'d mut Draft,
}

/// Fills a draft. `name` is the path of the file.
///
/// # Errors
/// The file does not have the syntax of nginx, or no directive of it.
pub(crate) fn read(name: &str, text: &str, draft: &mut Draft) -> Result<(), Unreadable> {
    let directives = files::read(text)?;
    if directives.is_empty() {
        return Err(Unreadable::new("there is no directive"));
    }
    let mut nginx = Nginx {
        upstreams: Vec::new(),
        zones: Vec::new(),
        named: Vec::new(),
        places: Vec::new(),
        used: BTreeSet::new(),
        told_of_passwords: false,
        ports: Ports::of(&directives),
        types_of_files: Vec::new(),
        directory: directory(name, text),
        draft,
    };
    let mut servers = Vec::new();
    nginx.level(&directives, &mut servers, true);
    nginx.servers(servers);
    nginx.unused_filters(&directives);
    nginx.unused_of_passenger(&directives);
    nginx.type_of_files();
    nginx.unused_types(&directives);
    for upstream in nginx.upstreams.iter().filter(|upstream| !upstream.used) {
        nginx.draft.lost(&upstream.key, format!("no location that was carried over leads to {}", upstream.name));
    }
    Ok(())
}

impl Nginx<'_> {
    /// Reads the directives outside of servers.
    fn level(&mut self, directives: &[Directive], servers: &mut Vec<Server>, top: bool) {
        // A server inherits the directives of the level above it, in whatever order they are written.
        let mut inherited = Context::default();
        for directive in directives {
            let key = key(directive);
            match directive.name.as_str() {
                "http" | "stream" | "mail" | "events" if top => match directive.name.as_str() {
                    "http" => self.level(directive.inside(), servers, false),
                    "events" => directive.inside().iter().for_each(|directive| self.general(directive)),
                    name => self.draft.lost(&key, format!("{name}: Oribi speaks HTTP and FastCGI only")),
                },
                "upstream" => self.upstream(directive),
                "limit_req_zone" | "limit_conn_zone" => self.zone(directive),
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

    /// The path of a file that nginx looks for beside its own file.
    fn beside(&mut self, path: &str, key: &Key) -> String {
        match &self.directory {
            _ if path.starts_with('/') => path.to_owned(),
            Some(directory) => format!("{directory}{path}"),
            None => {
                let text =
                    format!("nginx looks for {path} in the directory of nginx.conf, which is not known here: write it out");
                self.draft.lost(key, text);
                path.to_owned()
            }
        }
    }

    /// Reads a directive that is no condition and no action: an option, or a note.
    fn general(&mut self, directive: &Directive) {
        table::read(directive, &key(directive), self.draft);
    }
}

/// The directory of a file: that of its first file in the output of `nginx -T`, otherwise that of its path.
fn directory(name: &str, text: &str) -> Option<String> {
    let path = match files::first(text) {
        Some(path) => path,
        None if name.contains(' ') => return None,
        None => name,
    };
    Some(path.rsplit_once('/').map_or(String::new(), |(directory, _)| format!("{directory}/")))
}

/// The place of a directive, for notes.
fn key(directive: &Directive) -> Key {
    Key::at(directive.line, &directive.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_files_are_beside_the_first_one() {
        for (name, text, expected) in [
            ("nginx.conf", "", Some("")),
            ("/etc/nginx/nginx.conf", "", Some("/etc/nginx/")),
            ("conf/nginx.conf", "http {}", Some("conf/")),
            ("standard input", "http {}", None),
            ("standard input", "a\n# configuration file /a/b.conf:\n# configuration file /c/d:\n", Some("/a/")),
            ("x/all.conf", "# configuration file /a/b.conf:", Some("/a/")),
        ] {
            assert_eq!(directory(name, text).as_deref(), expected, "{name} {text}");
        }
        let mut draft = Draft::default();
        let text = "server { auth_basic a; auth_basic_user_file users; root /a; }";
        read("standard input", text, &mut draft).expect("it can be read");
        assert!(draft.notes.iter().any(|note| note.text.contains("not known here")), "{:?}", draft.notes);
    }
}
