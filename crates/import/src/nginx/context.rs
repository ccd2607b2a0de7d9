//! Directives that inner blocks inherit, and those of them that are filters.

use super::syntax::Directive;
use std::rc::Rc;

/// Directives about responses.
pub(super) const RESPONSES: &[&str] = &["add_header", "more_set_headers", "more_clear_headers", "expires", "error_page"];

/// Directives about requests that an app passes on, and about its responses.
pub(super) const PASSED: &[&str] = &[
    "proxy_set_header",
    "fastcgi_param",
    "uwsgi_param",
    "scgi_param",
    "more_set_input_headers",
    "more_clear_input_headers",
    "proxy_hide_header",
    "fastcgi_hide_header",
    "uwsgi_hide_header",
    "proxy_read_timeout",
    "auth_request_set",
];

/// Switches of compression, with their codings.
pub(super) const CODINGS: &[(&str, &str)] = &[("zstd", "zstd"), ("brotli", "br"), ("gzip", "gzip")];

const COMPRESSION: &[&str] =
    &["gzip_types", "gzip_min_length", "brotli_types", "brotli_min_length", "zstd_types", "zstd_min_length"];

/// Directives that limit requests.
pub(super) const LIMITS: &[&str] = &["limit_req", "limit_conn", "limit_req_dry_run", "limit_conn_dry_run"];

/// Whether a directive is a filter. Inner blocks inherit it, unless they have one with its name.
pub(super) fn is_filter(name: &str) -> bool {
    let switch = CODINGS.iter().any(|(switch, _)| *switch == name);
    switch || [RESPONSES, PASSED, COMPRESSION, LIMITS].iter().any(|names| names.contains(&name))
}

/// Whether a directive is about apps of Passenger.
pub(super) fn is_of_passenger(name: &str) -> bool {
    name.starts_with("passenger_") || name == "rails_env" || name == "rack_env"
}

/// Directives that inner blocks inherit.
#[derive(Clone, Debug, Default)]
pub(super) struct Context {
    pub root: Option<String>,
    pub index: Option<Vec<String>>,
    pub access: Vec<Directive>,
    /// The directives by which clients prove who they are: by passwords, by another location, by others.
    pub logins: [Option<Directive>; 3],
    /// The file of passwords.
    pub users: Option<String>,
    /// Whether it is enough that a client has an admitted address, or proves who it is.
    pub satisfy_any: bool,
    /// Directives that are filters.
    pub filters: Vec<Directive>,
    /// The directive with the type of files whose names say none.
    pub default_type: Option<Directive>,
    /// Directives about apps of Passenger.
    pub passenger: Vec<Directive>,
    /// Locations of the server, the one that fits best first.
    pub pages: Rc<[Page]>,
    /// The paths that `auth_request` of the server names.
    pub questions: Rc<[String]>,
    /// Whether the server has locations with expressions, which come before those that `pages` has.
    pub has_expressions: bool,
}

impl Context {
    /// Takes a directive, if it is one of these.
    pub fn set(&mut self, directive: &Directive) -> bool {
        match directive.name.as_str() {
            "root" => self.root = Some(directive.word(0).to_owned()),
            "index" => self.index = Some(directive.words.clone()),
            "allow" | "deny" => self.access.push(directive.clone()),
            "auth_basic" | "auth_request" | "auth_jwt" | "auth_digest" => {
                let place = ["auth_basic", "auth_request"].iter().position(|name| *name == directive.name).unwrap_or(2);
                self.logins[place] = Some(directive.clone()).filter(|directive| directive.word(0) != "off");
            }
            "default_type" => self.default_type = Some(directive.clone()),
            "satisfy" => self.satisfy_any = directive.word(0) == "any",
            "auth_basic_user_file" => self.users = Some(directive.word(0).to_owned()),
            name if is_of_passenger(name) => self.passenger.push(directive.clone()),
            name if is_filter(name) => self.filters.push(directive.clone()),
            _ => return false,
        }
        true
    }

    /// The realm and the file of users, if clients need passwords that are in a file.
    pub fn passwords(&self) -> Option<(&Directive, &str)> {
        let login = self.logins[0].as_ref().filter(|login| !login.word(0).contains('$'))?;
        Some((login, self.users.as_deref().filter(|users| !users.contains('$'))?))
    }

    /// The same without the need to prove anything.
    pub fn without_logins(&self) -> Self {
        Self { logins: [None, None, None], access: Vec::new(), ..self.clone() }
    }

    /// The location of the server for a path.
    pub fn page(&self, path: &str) -> Option<&Page> {
        self.pages.iter().find(|page| if page.exact { page.path == path } else { path.starts_with(&page.path) })
    }

    /// The context of an inner block: its own access rules replace those of outer ones.
    pub fn inner(&self, directives: &[Directive]) -> Self {
        let mut inner = self.clone();
        if directives.iter().any(|directive| ["allow", "deny"].contains(&&*directive.name)) {
            inner.access.clear();
        }
        // A variable is one of several.
        let replaces = |own: &Directive, of: &Directive| own.name == of.name && of.name != "passenger_env_var";
        inner.passenger.retain(|outer| directives.iter().all(|own| !replaces(own, outer)));
        inner.filters.retain(|filter| directives.iter().all(|directive| directive.name != filter.name));
        for directive in directives {
            inner.set(directive);
        }
        inner
    }
}

/// A location in which a file of the server may be, such as an error page.
#[derive(Clone, Debug)]
pub(super) struct Page {
    pub path: String,
    pub exact: bool,
    /// The directory; none if the location has no files.
    pub root: Option<String>,
    /// The location itself; none for the server.
    pub location: Option<Rc<Directive>>,
    /// The directives about requests that it passes on.
    pub passed: Vec<Directive>,
}

/// The paths that `auth_request` names in a block.
pub(super) fn questions(block: &Directive) -> Vec<String> {
    let own = block.inside().iter().filter(|inside| inside.name == "auth_request").map(|inside| inside.word(0).to_owned());
    own.chain(block.inside().iter().flat_map(questions)).collect()
}

/// The locations in which files of a server may be.
pub(super) fn pages(server: &Directive, context: &Context) -> Rc<[Page]> {
    let mut pages =
        vec![Page { path: String::new(), exact: false, root: context.root.clone(), location: None, passed: Vec::new() }];
    for location in server.inside().iter().filter(|inside| inside.name == "location") {
        let (path, exact) = match (location.word(0), location.word(1)) {
            ("=", path) => (path, true),
            ("^~", path) | (path, "") => (path, false),
            _ => continue,
        };
        let other = |name: &str| name.ends_with("_pass") || ["return", "rewrite", "alias"].contains(&name);
        let has_files = !location.inside().iter().any(|inside| other(&inside.name));
        let inner = context.inner(location.inside());
        let root = inner.root.filter(|_| has_files);
        let own = Some(Rc::new(location.clone()));
        pages.push(Page { path: path.to_owned(), exact, root, location: own, passed: inner.filters });
    }
    pages.sort_by_key(|page| (!page.exact, std::cmp::Reverse(page.path.len())));
    pages.into()
}
