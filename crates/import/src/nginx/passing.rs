//! `upstream` and `proxy_pass`: apps that are other servers.

use super::alias::{Of, Rewrite, literal};
use super::context::Context;
use super::syntax::Directive;
use super::{Nginx, key};
use crate::draft::Action;
use crate::note::Key;
use crate::redirect::{groups, with_variables};

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

    /// The action for `proxy_pass`, and the path by which it replaces that of the location `of`.
    pub(super) fn passed(&mut self, pass: &Directive, of: Option<Of<'_>>, context: &Context) -> (Action, Option<Rewrite>) {
        let key = key(pass);
        let (name, urls, path) = match self.target(pass) {
            Ok(target) => target,
            Err(url) => return (self.draft.proxy("", &[url], &key), None),
        };
        let rewrite = match replaced(&path, of) {
            Ok(rewrite) => rewrite,
            Err(reason) => {
                self.draft.lost(&key, format!("{reason}; until then, these requests get a 502"));
                return (Action::status(502), None);
            }
        };
        let action = self.draft.proxy(&name, &urls, &key);
        if let Action::App { name, .. } = &action {
            self.passes_on(name, context, &key);
        }
        (action, rewrite)
    }

    /// The name and the URLs of the servers of `proxy_pass`, and the path behind them.
    ///
    /// # Errors
    /// It is no URL for HTTP: returns the target.
    pub(super) fn target(&mut self, pass: &Directive) -> Result<(String, Vec<String>, String), String> {
        let target = pass.word(0);
        // The target as the client has sent it: the same as without a path.
        let target = target.strip_suffix("$request_uri").unwrap_or(target);
        let rest = match target.split_once("://") {
            Some(("http", rest)) => rest,
            _ => return Err(target.to_owned()),
        };
        let (authority, path) = match rest.strip_prefix("unix:") {
            Some(socket) => {
                let (socket, path) = socket.split_once(':').unwrap_or((socket, ""));
                (format!("unix:{socket}"), path)
            }
            None => {
                let (host, path) = rest.split_at(rest.find(['/', '$']).unwrap_or(rest.len()));
                (host.to_owned(), path)
            }
        };
        // A host in a variable.
        if authority.is_empty() || path.starts_with('$') && !path.starts_with("$uri") {
            return Err(target.to_owned());
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
        Ok((name, urls, path.to_owned()))
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

/// The path that replaces that of a location. `None` if the path stays.
///
/// # Errors
/// The reason why a route has no such path.
fn replaced(path: &str, of: Option<Of<'_>>) -> Result<Option<Rewrite>, String> {
    if path.is_empty() {
        return Ok(None);
    }
    if path.contains(['#', '%', ';']) || path.split('/').any(|name| matches!(name, "." | "..")) {
        return Err("rewrite of a route has a path in its normal form".to_owned());
    }
    if path.contains('$') {
        let expression = match of {
            Some(Of::Expression(expression)) => groups(&[format!("~{expression}")]),
            _ => 0,
        };
        // nginx sends such a target as it is, so that it has no other query than its own.
        let (path, query) = match path.strip_suffix("$is_args$args").or_else(|| path.strip_suffix("?$args")) {
            Some(path) => (path, ""),
            None => (path, if path.contains('?') { "" } else { "?" }),
        };
        let path = with_variables(path, expression)?;
        return Ok(Some((None, format!("{path}{query}"))));
    }
    if path.contains('?') {
        return Err("the app gets the query of the client: write rewrite for another one".to_owned());
    }
    match of {
        Some(Of::Exact(own) | Of::Prefix(own)) if own == path => Ok(None),
        Some(Of::Exact(_)) => Ok(Some((None, path.to_owned()))),
        Some(Of::Prefix("/")) if path.ends_with('/') => Ok(Some((None, format!("{}$uri", path.trim_end_matches('/'))))),
        Some(Of::Prefix(own)) => Ok(Some((Some(format!("~^{}(.*)$", literal(own))), format!("{path}$1")))),
        Some(Of::Expression(_)) | None => Err("nginx has no such path here".to_owned()),
    }
}

fn url_of(address: &str) -> String {
    if address.starts_with("unix:") { format!("http+{address}") } else { format!("http://{address}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_target_replaces_that_of_its_location() {
        let rewritten = |expression: Option<&str>, path: &str| Ok(Some((expression.map(str::to_owned), path.to_owned())));
        for (path, of, expected) in [
            ("", Some(Of::Prefix("/a/")), Ok(None)),
            ("/a/", Some(Of::Prefix("/a/")), Ok(None)),
            ("/", Some(Of::Prefix("/a/")), rewritten(Some("~^/a/(.*)$"), "/$1")),
            ("/v1/", Some(Of::Prefix("/a.b")), rewritten(Some("~^/a\\.b(.*)$"), "/v1/$1")),
            ("/v1/", Some(Of::Prefix("/")), rewritten(None, "/v1$uri")),
            ("/v1", Some(Of::Prefix("/")), rewritten(Some("~^/(.*)$"), "/v1$1")),
            ("/x", Some(Of::Exact("/a")), rewritten(None, "/x")),
            ("/v1/$1$is_args$args", Some(Of::Expression("^/a/(.*)$")), rewritten(None, "/v1/$1")),
            ("/v1/$1", Some(Of::Expression("^/a/(.*)$")), rewritten(None, "/v1/$1?")),
            ("/v1/$1", Some(Of::Prefix("/a/")), Err(())),
            ("/v1/", Some(Of::Expression("^/a")), Err(())),
            ("/v1/", None, Err(())),
            ("/v1/?a=b", Some(Of::Prefix("/a/")), Err(())),
            ("/../", Some(Of::Prefix("/a/")), Err(())),
        ] {
            assert_eq!(replaced(path, of).map_err(drop), expected, "{path} of {of:?}");
        }
    }
}
