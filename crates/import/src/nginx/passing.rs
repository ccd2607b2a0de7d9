//! `upstream` and `proxy_pass`: apps that are other servers.

use super::context::Context;
use super::syntax::Directive;
use super::{Nginx, key};
use crate::draft::Action;
use crate::note::Key;

/// A block `upstream`.
pub(super) struct Upstream {
    pub name: String,
    pub urls: Vec<String>,
    pub key: Key,
    /// Whether a `proxy_pass` leads to it.
    pub used: bool,
}

const BALANCE: &str = "the upstream with the fewest open exchanges is next";

impl Nginx<'_> {
    pub(super) fn upstream(&mut self, directive: &Directive) {
        let mut urls = Vec::new();
        for inside in directive.inside() {
            let key = key(inside);
            match inside.name.as_str() {
                "server" => urls.extend(self.server_of_upstream(inside)),
                "keepalive" | "keepalive_requests" | "keepalive_timeout" | "keepalive_time" => {
                    self.draft.same(&key, "up to 64 connections to each upstream are kept");
                }
                "zone" | "least_conn" => self.draft.same(&key, BALANCE),
                _ => self.draft.lost(&key, BALANCE),
            }
        }
        self.upstreams.push(Upstream { name: directive.word(0).to_owned(), urls, key: key(directive), used: false });
    }

    fn server_of_upstream(&mut self, directive: &Directive) -> Option<String> {
        let key = key(directive);
        let address = directive.word(0);
        for word in directive.words.iter().skip(1) {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            match name {
                "down" | "backup" => {
                    self.draft.lost(&key, format!("left out, because it is marked {name}: {address}"));
                    return None;
                }
                "weight" if value == "1" => {}
                "max_fails" | "fail_timeout" => {
                    self.draft.same(&key, "an upstream that fails is left out for 1 s, then longer, up to 60 s");
                }
                "resolve" => self.draft.lost(&key, "names of upstreams are looked up when workers start, and by a reload"),
                _ => self.draft.lost(&key, format!("{name} has no counterpart: {BALANCE}")),
            }
        }
        Some(url_of(address))
    }

    /// The action for `proxy_pass`. `path` is that of the location, if it is no expression.
    pub(super) fn passed(&mut self, pass: &Directive, path: Option<&str>, context: &Context) -> Action {
        let key = key(pass);
        let target = pass.word(0);
        // The target as the client has sent it: the same as without a path.
        let target = target.strip_suffix("$request_uri").unwrap_or(target);
        let rest = match target.split_once("://") {
            Some(("http", rest)) => rest,
            _ => return self.draft.proxy("", &[target.to_owned()], &key),
        };
        let (authority, replaced) = match rest.strip_prefix("unix:") {
            Some(socket) => {
                let (socket, replaced) = socket.split_once(':').unwrap_or((socket, ""));
                (format!("unix:{socket}"), replaced)
            }
            None => {
                let (host, replaced) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                (host.to_owned(), replaced)
            }
        };
        if !replaced.is_empty() && path != Some(replaced) {
            let text = "an app gets paths as clients send them, so it needs to answer at those of this location; until then, \
                 these requests get a 502";
            self.draft.lost(&key, text);
            return Action::status(502);
        }
        let known = self.upstreams.iter_mut().find(|upstream| upstream.name == authority);
        let (name, urls) = match known {
            Some(upstream) => {
                upstream.used = true;
                (upstream.name.clone(), upstream.urls.clone())
            }
            None => {
                let socket = authority.strip_prefix("unix:").and_then(|path| path.rsplit('/').next());
                (socket.unwrap_or(&authority).to_owned(), vec![url_of(&authority)])
            }
        };
        let action = self.draft.proxy(&name, &urls, &key);
        if let Action::App { name, .. } = &action {
            self.passes_on(name, context, &key);
        }
        action
    }

    /// Reads the directives about the requests that an app passes on, but their fields.
    fn passes_on(&mut self, app: &str, context: &Context, key: &Key) {
        let is_host =
            |directive: &&Directive| directive.name == "proxy_set_header" && directive.word(0).eq_ignore_ascii_case("host");
        if !context.filters.iter().any(|directive| is_host(&directive)) {
            self.draft.lost(key, "Host is that of the client; without proxy_set_header Host $host, nginx sends its own");
        }
        for directive in context.filters.iter().filter(|directive| directive.name == "proxy_read_timeout") {
            self.used(directive);
            if let Some(app) = self.draft.apps.iter_mut().find(|known| known.name == app) {
                app.options.set("request-timeout", directive.word(0), &super::key(directive));
            }
        }
    }
}

fn url_of(address: &str) -> String {
    if address.starts_with("unix:") { format!("http+{address}") } else { format!("http://{address}") }
}
