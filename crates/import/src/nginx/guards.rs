//! Clients that are refused, by their addresses, passwords and methods.

use super::alias::Of;
use super::context::Context;
use super::location::{Location, Routes};
use super::syntax::Directive;
use super::{Nginx, access, key};
use crate::conditions::Match;
use crate::draft::{Action, Route};
use crate::filters::Auth;
use crate::note::Key;

/// Fields that a question has in Oribi, too.
const QUESTION: &[(&str, &str)] = &[
    ("content-length", ""),
    ("content-type", ""),
    ("connection", ""),
    ("upgrade", ""),
    ("x-original-uri", "$request_uri"),
    ("x-forwarded-uri", "$request_uri"),
    ("x-original-method", "$request_method"),
    ("x-forwarded-method", "$request_method"),
    ("x-forwarded-for", "$proxy_add_x_forwarded_for"),
    ("x-forwarded-for", "$remote_addr"),
    ("x-real-ip", "$remote_addr"),
    ("x-forwarded-proto", "$scheme"),
    ("x-forwarded-host", "$host"),
    ("x-forwarded-host", "$http_host"),
    ("host", "$host"),
    ("host", "$http_host"),
];

/// Directives of the location of a question that make no difference for it. nginx does not look at its rules for clients.
const HARMLESS: &[&str] = &[
    "internal",
    "proxy_set_header",
    "proxy_pass_request_body",
    "proxy_http_version",
    "proxy_buffering",
    "proxy_buffers",
    "proxy_buffer_size",
    "proxy_busy_buffers_size",
    "proxy_connect_timeout",
    "proxy_read_timeout",
    "proxy_send_timeout",
    "proxy_cache",
    "proxy_cache_key",
    "proxy_cache_valid",
    "access_log",
    "error_log",
    "log_not_found",
    "allow",
    "deny",
    "satisfy",
    "auth_basic",
    "auth_request",
];

/// Whether a field has the value that the client has sent in it.
fn is_of_client(name: &str, value: &str) -> bool {
    value.strip_prefix("$http_").is_some_and(|field| field == name.replace('-', "_"))
}

/// Makes the route that answers the clients that are not refused.
type Act<'a, 'n> = &'a dyn Fn(&mut Nginx<'n>, &Match, &Context) -> Route;

impl<'n> Nginx<'n> {
    /// Writes the routes for clients that are refused, and with `act` those for all others.
    pub(super) fn guarded(&mut self, conditions: &Match, context: &Context, routes: &mut Routes, act: Act<'_, 'n>) {
        let proves = context.logins.iter().flatten().next();
        if let (true, Some(first), Some(_)) = (context.satisfy_any, context.access.first(), proves) {
            let key = key(first);
            match access::admitted(&context.access.iter().collect::<Vec<_>>()) {
                Ok(source) if source == ["*"] => return routes.push(act(self, conditions, &context.without_logins())),
                Ok(source) if source.is_empty() => {}
                Ok(source) => {
                    let conditions = Match { source, ..conditions.clone() };
                    routes.push(act(self, &conditions, &context.without_logins()));
                }
                Err(()) => {
                    let text = "source of a route takes patterns and their exceptions, not a longer list of allow and deny: \
                         all clients need a password here";
                    self.draft.lost(&key, text);
                }
            }
            let rest = Context { access: Vec::new(), ..context.clone() };
            if !self.refuses(conditions, &rest, routes) {
                routes.push(act(self, conditions, &rest));
            }
            return;
        }
        if !self.refuses(conditions, context, routes) {
            routes.push(act(self, conditions, context));
        }
    }

    /// Writes the routes for clients that are refused. Returns whether they answer all requests.
    fn refuses(&mut self, conditions: &Match, context: &Context, routes: &mut Routes) -> bool {
        if let Err((key, reason)) = self.login(context) {
            self.draft.lost(&key, format!("{reason}: until you write it, these requests get a 403"));
            self.push(routes, conditions.clone(), Action::status(403), key, context, true);
            return true;
        }
        let Some(first) = context.access.first() else { return false };
        let key = key(first);
        // A client that is refused is not asked for a password.
        let plain = context.without_logins();
        match access::refused(&context.access.iter().collect::<Vec<_>>()) {
            Ok(None) => {}
            Ok(Some(source)) => {
                let all = source.is_empty();
                let conditions = Match { source, ..conditions.clone() };
                self.push(routes, conditions, Action::status(403), key, &plain, true);
                return all;
            }
            Err(()) => {
                self.draft.lost(
                    &key,
                    "source of a route takes patterns and their exceptions, not a longer list of allow and \
                     deny: until you write it, these requests get a 403",
                );
                self.push(routes, conditions.clone(), Action::status(403), key, &plain, true);
                return true;
            }
        }
        false
    }

    /// The proof that clients need; `None` if they need none.
    ///
    /// # Errors
    /// The place of the directive for which a route has no counterpart, and the reason.
    pub(super) fn login(&mut self, context: &Context) -> Result<Option<Auth>, (Key, String)> {
        let place = |login: &Directive| Key::at(login.line, &login.name);
        let mut logins = context.logins.iter().flatten();
        let Some(login) = logins.next() else { return Ok(None) };
        if let Some(other) = logins.next() {
            return Err((place(other), format!("a route has one auth, and {} is another", login.name)));
        }
        match login.name.as_str() {
            "auth_basic" => {
                let Some((login, users)) = context.passwords() else {
                    return Err((place(login), "auth of a route takes a file of users".to_owned()));
                };
                let (htpasswd, realm) = (self.beside(users, &key(login)), login.word(0).to_owned());
                if !std::mem::replace(&mut self.told_of_passwords, true) {
                    let text = "`oribi check` says which hashes are weak: make new ones with `htpasswd -B`, or accept them \
                         with weak = true";
                    self.draft.lost(&key(login), text);
                }
                Ok(Some(Auth::Passwords { htpasswd, realm, keep: false, field: None }))
            }
            "auth_request" => self.question(login, context).map(Some).map_err(|reason| (place(login), reason)),
            _ => Err((place(login), "auth of a route takes a file of users, or asks an app".to_owned())),
        }
    }

    /// The question that `auth_request` asks: that of the location to which it leads.
    fn question(&mut self, login: &Directive, context: &Context) -> Result<Auth, String> {
        let write = |reason: &str| format!("auth = {{ app, path, fields }} of a route asks an app; {reason}");
        let target = login.word(0);
        if !target.starts_with('/') || target.contains(['$', '?', '#', '%']) {
            return Err(write("its path has no variables here"));
        }
        let page = context.page(target).cloned();
        let Some((page, location)) = page.and_then(|page| Some((page.clone(), page.location?))) else {
            return Err(write("no location is for the path of the question"));
        };
        // A location with an expression could come first.
        if !page.exact && context.has_expressions {
            return Err(write("a location = PATH decides what is asked"));
        }
        let mut pass = None;
        for inside in location.inside() {
            match inside.name.as_str() {
                "proxy_pass" => pass = Some(inside),
                name if HARMLESS.contains(&name) => {}
                other => return Err(write(&format!("the location of the question has {other}"))),
            }
        }
        let mut keeps_host = false;
        for field in page.passed.iter().filter(|directive| directive.name == "proxy_set_header") {
            let (name, value) = (field.word(0).to_ascii_lowercase(), field.word(1));
            self.used(field);
            keeps_host |= name == "host";
            if !QUESTION.contains(&(&*name, value)) && !is_of_client(&name, value) {
                return Err(write(&format!("the question has no field {} like this", field.word(0))));
            }
        }
        if !keeps_host {
            let text =
                "the Host of the question is that of the client; without proxy_set_header Host $host, nginx sends its own";
            self.draft.lost(&Key::at(login.line, &login.name), text);
        }
        let Some(pass) = pass else { return Err(write("the location of the question passes it to no app")) };
        let of = if page.exact { Of::Exact(&page.path) } else { Of::Prefix(&page.path) };
        let (name, urls, replaced) = self.target(pass).map_err(|_| write("the app of the question speaks HTTP without TLS"))?;
        let path = match (of, replaced.as_str()) {
            (_, "") => target.to_owned(),
            (Of::Prefix(prefix), replaced) => format!("{replaced}{}", &target[prefix.len()..]),
            (_, replaced) => replaced.to_owned(),
        };
        if path.contains(['$', '#', '%']) {
            return Err(write("its path has no variables here"));
        }
        match self.draft.proxy(&name, &urls, &key(pass)) {
            Action::App { name, .. } => {
                let text = "a client that the app refuses gets its answer, also a redirect, not a page of nginx";
                self.draft.same(&Key::at(login.line, &login.name), text);
                Ok(Auth::Ask { app: name, path, fields: Vec::new() })
            }
            _ => Err(write("the app of the question cannot be reached")),
        }
    }

    /// `limit_except`: the rules for the methods that it does not name.
    pub(super) fn excepted(&mut self, except: &Directive, location: &Location<'_>, conditions: &Match, routes: &mut Routes) {
        let mut method: Vec<String> = except.words.iter().map(|name| format!("!{}", name.to_ascii_uppercase())).collect();
        if method.iter().any(|name| name == "!GET") && method.iter().all(|name| name != "!HEAD") {
            method.push("!HEAD".to_owned());
        }
        let conditions = Match { method, ..conditions.clone() };
        let context = location.context.inner(except.inside());
        for directive in except.inside().iter().filter(|directive| !Context::default().set(directive)) {
            self.draft.lost(&key(directive), "left out: routes for these methods have allow, deny and auth_basic");
        }
        self.guarded(&conditions, &context, routes, &|nginx, conditions, context| {
            nginx.acting(location, conditions, context, key(except))
        });
    }
}
