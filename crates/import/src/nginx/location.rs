//! `location`: conditions about paths, in the order in which nginx chooses, and their actions.

use super::alias::{Alias, Of, Rewrite};
use super::context::Context;
use super::expressions::{Translated, translated, with_line_feed};
use super::syntax::Directive;
use super::{Nginx, key, nesting};
use crate::conditions::Match;
use crate::draft::{Action, Route};
use crate::note::Key;

/// The most locations inside of locations.
const DEPTH: usize = 8;

/// The kind of a location, in the order in which nginx looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Exact,
    /// An expression inside of a prefix.
    Inside,
    /// `^~`: no expression is looked for.
    Final,
    Expression,
    Prefix,
}

impl Kind {
    pub fn is_expression(self) -> bool {
        matches!(self, Self::Inside | Self::Expression)
    }

    fn is_prefix(self) -> bool {
        matches!(self, Self::Final | Self::Prefix)
    }
}

/// The block of some locations.
struct Outer<'o> {
    /// The kind and the path of the location, of an expression the prefix that it says; none of a server.
    location: Option<(Kind, Option<&'o str>)>,
    /// The length of the prefix by which the expressions inside are ordered; 0 for none.
    within: usize,
    /// Longer prefixes of other locations, whose requests get to none of these.
    hidden: Vec<String>,
    /// Patterns of paths of which an outer location has none.
    except: Vec<String>,
}

/// A location.
pub(super) struct Location<'n> {
    pub kind: Kind,
    /// The path, or the pattern of an expression.
    pub path: String,
    pub directive: &'n Directive,
    pub context: Context,
    /// Patterns of paths that other locations have.
    except: Vec<String>,
    /// The length of the prefix of the outer location.
    within: usize,
    /// The reason why its requests get a 403.
    pub closed: Option<&'static str>,
}

pub(super) type Routes = Vec<Route>;

fn is_on(directive: &Directive) -> bool {
    directive.word(0) == "on"
}

impl Location<'_> {
    fn of(&self) -> Of<'_> {
        match self.kind {
            Kind::Exact => Of::Exact(&self.path),
            Kind::Final | Kind::Prefix => Of::Prefix(&self.path),
            Kind::Inside | Kind::Expression => Of::Expression(&self.path),
        }
    }

    /// The directive with this name.
    pub(super) fn find(&self, name: &str) -> Option<&Directive> {
        self.directive.inside().iter().find(|directive| directive.name == name)
    }
}

/// Directives that nginx follows one after the other, before it looks at others.
pub(super) const RULES: &[&str] = &["return", "rewrite", "if", "break"];

/// Directives that pass requests on to an app.
const PASSES: &[&str] = &["fastcgi_pass", "uwsgi_pass", "scgi_pass", "grpc_pass", "memcached_pass"];

/// Whether a directive answers with an error of the client.
pub(super) fn is_refusal(directive: &Directive) -> bool {
    directive.name == "return" && directive.word(0).starts_with('4') && directive.word(0).len() == 3
}

/// Whether a location refuses requests.
fn refuses(location: &Directive, context: &Context) -> bool {
    let inside = |directive: &Directive| {
        let block = ["if", "limit_except"].contains(&&*directive.name) && directive.inside().iter().any(is_refusal);
        block || is_refusal(directive) || ["internal", "limit_except"].contains(&&*directive.name)
    };
    context.logins.iter().flatten().next().is_some() || !context.access.is_empty() || location.inside().iter().any(inside)
}

/// The kind and the path of a location inside of another one, `None` if no request gets to it.
fn placed(kind: Kind, path: String, outer: &Outer<'_>) -> Result<Option<(Kind, String)>, ()> {
    let Some((outside, prefix)) = outer.location else { return Ok(Some((kind, path))) };
    let prefix = prefix.ok_or(())?;
    match kind {
        Kind::Inside | Kind::Expression => {
            let kind = if outside.is_prefix() { Kind::Inside } else { outside };
            Ok(nesting::combined(prefix, &path)?.map(|path| (kind, path)))
        }
        _ if !outside.is_prefix() => Err(()),
        _ if outer.hidden.iter().any(|longer| path.starts_with(longer)) => Ok(None),
        Kind::Exact => Ok(Some((kind, path))),
        // Whether nginx looks for expressions of the server is up to the outer location.
        Kind::Final | Kind::Prefix => Ok(Some((outside, path))),
    }
}

impl Nginx<'_> {
    /// The routes of a server, without its host.
    pub(super) fn locations(&mut self, server: &Directive, context: &Context) -> Routes {
        let mut routes = Vec::new();
        let outer = Outer { location: None, within: 0, hidden: Vec::new(), except: Vec::new() };
        let mut locations = self.collect(server, context, &outer, 0).unwrap_or_default();
        // `if` and `return` of the server come before its locations.
        let whole = self.rewrites(server, None, &Match::default(), context, &mut routes);
        if whole {
            for location in &locations {
                self.draft.same(&key(location.directive), "no request gets to it: its server answers all of them");
            }
            return routes;
        }
        let prefixes: Vec<(Kind, String)> = locations
            .iter()
            .filter(|location| location.kind.is_prefix())
            .map(|location| (location.kind, location.path.clone()))
            .collect();
        // Expressions keep their order, and longer prefixes come first.
        locations.sort_by(|one, other| {
            let length =
                |location: &Location<'_>| if location.kind.is_expression() { location.within } else { location.path.len() };
            // No expression of an outer location comes before one that no route has.
            let refused = |location: &Location<'_>| location.closed.is_some() && location.kind == Kind::Final;
            let rank =
                |location: &Location<'_>| (if refused(location) { Kind::Inside } else { location.kind }, !refused(location));
            rank(one).cmp(&rank(other)).then(length(other).cmp(&length(one)))
        });
        self.note_places(&locations);
        let mut open = false;
        for location in locations {
            let path = match location.kind {
                Kind::Exact => vec![location.path.clone()],
                Kind::Inside | Kind::Expression => {
                    let except = location.except.iter().map(|pattern| format!("!{pattern}"));
                    [format!("~{}", location.path)].into_iter().chain(except).collect()
                }
                Kind::Prefix if location.path == "/" => Vec::new(),
                Kind::Prefix | Kind::Final => {
                    let mut list = vec![format!("{}*", location.path)];
                    if location.kind == Kind::Final {
                        // Below a longer prefix, expressions are looked for.
                        let longer = prefixes.iter().filter(|(kind, other)| {
                            let decides = *kind == Kind::Prefix || location.closed.is_some();
                            decides && other.starts_with(&location.path) && *other != location.path
                        });
                        list.extend(longer.map(|(_, other)| format!("!{other}*")));
                    }
                    list
                }
            };
            open |= path.is_empty();
            let conditions = Match { path, ..Match::default() };
            self.location(&location, &conditions, &mut routes);
        }
        if !open {
            self.rest(server, context, &mut routes);
        }
        routes
    }

    /// Collects the locations of a block, each behind those inside of it.
    ///
    /// # Errors
    /// Routes cannot say for which requests they are.
    fn collect<'n>(
        &mut self,
        block: &'n Directive,
        context: &Context,
        outer: &Outer<'_>,
        depth: usize,
    ) -> Result<Vec<Location<'n>>, ()> {
        let mut read = Vec::new();
        for directive in block.inside().iter().filter(|inside| inside.name == "location") {
            let (kind, path) = match (directive.word(0), directive.word(1)) {
                ("=", path) => (Kind::Exact, path.to_owned()),
                ("^~", path) => (Kind::Final, path.to_owned()),
                ("~", expression) => (Kind::Expression, expression.to_owned()),
                ("~*", expression) => (Kind::Expression, format!("(?i){expression}")),
                (path, "") if path.starts_with('=') && path.len() > 1 => (Kind::Exact, path[1..].to_owned()),
                (path, "") => (Kind::Prefix, path.to_owned()),
                _ => {
                    self.draft.lost(&key(directive), "no location that nginx has");
                    continue;
                }
            };
            read.push((kind, path, directive));
        }
        if depth > DEPTH && !read.is_empty() {
            return Err(());
        }
        let prefixes: Vec<(Kind, String)> =
            read.iter().filter(|(kind, _, _)| kind.is_prefix()).map(|(kind, path, _)| (*kind, path.clone())).collect();
        let mut locations = Vec::new();
        for (kind, path, directive) in read {
            let key = key(directive);
            let context = context.inner(directive.inside());
            // A name for other locations only.
            if path.starts_with('@') {
                self.draft.same(&key, "its name stands where try_files used it");
                directive.inside().iter().for_each(|directive| self.note(directive));
                let pass = directive.inside().iter().find(|inside| inside.name == "proxy_pass").cloned();
                self.named.push((path, pass, context));
                continue;
            }
            let refuses = refuses(directive, &context);
            let mut closed = None;
            let path = match translated(&path) {
                _ if kind != Kind::Expression => path,
                Translated::Same(path) => path,
                Translated::Wider(path) if refuses => {
                    closed =
                        Some("expressions of routes have no look-around, and it refuses requests; without it, more paths fit");
                    path
                }
                _ => {
                    let text = if refuses {
                        "left out: expressions of routes have no look-around and no backreferences: requests that it refuses \
                         ARE OPEN, they go to other routes: write a route for them"
                    } else {
                        "left out: expressions of routes have no look-around and no backreferences: its requests GO TO OTHER \
                         ROUTES"
                    };
                    self.draft.lost(&Key::at(directive.line, format!("location {}", directive.word(1))), text);
                    directive.inside().iter().for_each(|directive| self.note(directive));
                    continue;
                }
            };
            let Some((mut kind, path)) = placed(kind, path, outer)? else {
                self.draft.same(&key, "no request gets to it: its path is not that of the location that it is in");
                continue;
            };
            let mut except = outer.except.clone();
            if kind == Kind::Inside && outer.location.is_some_and(|(kind, _)| kind.is_prefix()) {
                except.extend(outer.hidden.iter().map(|path| format!("{path}*")));
                let last = prefixes.iter().filter(|(kind, _)| *kind == Kind::Final);
                except.extend(last.map(|(_, path)| format!("{path}*")));
            }
            let longer = |other: &&String| kind.is_prefix() && other.starts_with(&path) && **other != path;
            let siblings = prefixes.iter().map(|(_, path)| path);
            let hidden = outer.hidden.iter().chain(siblings).filter(longer).cloned().collect();
            let said = if kind.is_expression() { nesting::prefix_of(&path) } else { Some(path.clone()) };
            let inner = Outer {
                location: Some((kind, said.as_deref())),
                // Those in an expression keep its place among others.
                within: if kind.is_expression() { outer.within } else { path.len() },
                hidden,
                except: if kind.is_expression() { except.clone() } else { Vec::new() },
            };
            match self.collect(directive, &context, &inner, depth + 1) {
                Ok(inside) => locations.extend(inside),
                Err(()) => {
                    closed = Some("path of a route has no expression for a location together with one that is in it");
                    // No expression of the server comes before one that is in this location.
                    kind = if kind.is_prefix() { Kind::Final } else { kind };
                }
            }
            // In PCRE, `$` fits before a line feed at the end, too.
            let path = if refuses && kind.is_expression() { with_line_feed(&path) } else { path };
            locations.push(Location { kind, path, directive, context, except, within: outer.within, closed });
        }
        Ok(locations)
    }

    fn location(&mut self, location: &Location<'_>, conditions: &Match, routes: &mut Routes) {
        let name = location.directive.words.last().map_or("", String::as_str);
        let key = Key::at(location.directive.line, format!("location {name}"));
        let inside = location.directive.inside();
        if let Some(reason) = location.closed {
            self.draft.lost(&key, format!("{reason}: until you write these routes, its requests get a 403"));
            self.push(routes, conditions.clone(), Action::status(403), key, &location.context.without_logins(), true);
            inside.iter().for_each(|directive| self.note(directive));
            return;
        }
        if inside.iter().any(|directive| directive.name == "internal") {
            if location.context.questions.contains(&location.path) {
                self.draft.same(&key, "no client gets to it: auth of other routes asks its app");
            } else {
                self.draft
                    .lost(&key, "a location for the app only: accel of the app sends files that it names by X-Accel-Redirect");
            }
            self.push(routes, conditions.clone(), Action::status(404), key, &location.context, true);
            inside.iter().for_each(|directive| self.note(directive));
            return;
        }
        let answered = self.rewrites(location.directive, Some(location), conditions, &location.context, routes);
        if !answered {
            for except in inside.iter().filter(|directive| directive.name == "limit_except") {
                self.excepted(except, location, conditions, routes);
            }
            self.guarded(conditions, &location.context, routes, &|nginx, conditions, context| {
                nginx.acting(location, conditions, context, key.clone())
            });
        }
        inside.iter().for_each(|directive| self.note(directive));
    }

    /// The route with the action of a location, and the filters of a context of it.
    pub(super) fn acting(&mut self, location: &Location<'_>, conditions: &Match, context: &Context, key: Key) -> Route {
        let (action, passed, rewrite) = self.action(location, &key);
        let filters = self.filters(context, passed.as_ref(), true);
        let mut conditions = conditions.clone();
        let rewrite = rewrite.map(|(expression, path)| {
            if let Some(expression) = expression {
                conditions.path.retain(|pattern| pattern.starts_with('!'));
                conditions.path.insert(0, expression);
            }
            path
        });
        Route { rewrite, filters, ..Route::new(conditions, action, key) }
    }

    /// Writes a route for requests that are not passed on.
    pub(super) fn push(
        &mut self,
        routes: &mut Routes,
        conditions: Match,
        action: Action,
        key: Key,
        context: &Context,
        limited: bool,
    ) {
        let filters = self.filters(context, None, limited);
        routes.push(Route { filters, ..Route::new(conditions, action, key) });
    }

    /// The action of a location for requests that no rule answers, the context of those that are passed on, and the expression
    /// and the new path for files that have other paths.
    pub(super) fn action(&mut self, location: &Location<'_>, key: &Key) -> (Action, Option<Context>, Option<Rewrite>) {
        let inside = location.directive.inside();
        let find = |name: &str| inside.iter().find(|directive| directive.name == name);
        if let Some(pass) = find("proxy_pass") {
            let (action, rewrite) = self.passed(pass, Some(location.of()), &location.context);
            return (action, Some(location.context.clone()), rewrite);
        }
        for name in PASSES {
            if let Some(pass) = find(name) {
                let text = "run the app in Oribi, as [app.NAME] with its file, if it is Perl, Ruby or Lua; until then, these \
                     requests get a 502";
                self.draft.lost(&Key::at(pass.line, *name), text);
                return (Action::status(502), Some(location.context.clone()), None);
            }
        }
        if find("passenger_enabled").is_some_and(is_on) {
            return (self.passenger(&location.context, key), Some(location.context.clone()), None);
        }
        let Some(directive) = find("alias") else {
            let root = location.context.root.clone().map(|root| (root, None));
            let (action, passed) = self.files(root, (location.of(), find("try_files")), &location.context, key);
            return (action, passed, None);
        };
        let alias = match Alias::of(directive, location.of()) {
            Ok(alias) => alias,
            Err(reason) => {
                self.draft.lost(&super::key(directive), format!("{reason}: these requests get a 404"));
                return (Action::status(404), None, None);
            }
        };
        let root = Some((alias.root.clone(), Some(&alias)));
        let (action, passed) = self.files(root, (location.of(), find("try_files")), &location.context, key);
        // An app gets the path that the client has sent.
        let falls_back = matches!(&action, Action::App { .. } | Action::Files { fallback: Some(_), .. });
        if falls_back && alias.rewrite.is_some() {
            let text =
                "the app behind alias would get the new path: write a route for it; until then, these requests get a 404";
            self.draft.lost(&super::key(directive), text);
            return (Action::status(404), None, None);
        }
        (action, passed, alias.rewrite)
    }

    /// Files of a directory for the location with this path, and the context of requests that are passed on for lack of a file.
    fn files(
        &mut self,
        root: Option<(String, Option<&Alias>)>,
        (of, tried): (Of<'_>, Option<&Directive>),
        context: &Context,
        key: &Key,
    ) -> (Action, Option<Context>) {
        let path = if let Of::Exact(path) | Of::Prefix(path) = of { Some(path) } else { None };
        let (mut fallback, mut passed, mut names) = (None, None, Vec::new());
        let alias = root.as_ref().and_then(|(_, alias)| *alias);
        if let Some(tried) = tried {
            let inner = Key::at(tried.line, "try_files");
            let (last, first) = tried.words.split_last().map_or(("", &[][..]), |(last, first)| (last.as_str(), first));
            names.extend(first.iter().filter_map(|word| self.tried(word, alias, &inner)));
            if last.starts_with('@') {
                let named = self.named.iter().rev().find(|(name, _, _)| name == last).cloned();
                let action = named.and_then(|(_, pass, context)| {
                    let action = self.passed(&pass?, None, &context);
                    passed = Some(context);
                    Some(action)
                });
                match action {
                    Some((action @ Action::App { .. }, None)) => fallback = Some(Box::new(action)),
                    _ => {
                        let text = format!(
                            "the fallback of files is an app: fallback = \"NAME\" in place of {last}; until then, \
                             clients get a 404"
                        );
                        self.draft.lost(&inner, text);
                    }
                }
            } else if last.starts_with('=') {
                if last != "=404" {
                    self.draft.lost(&inner, format!("clients get a 404, not {last}, without a file"));
                }
            } else if !last.is_empty() {
                names.extend(self.tried(last, alias, &inner));
                if !last.contains('$') && context.page(last).is_some_and(|page| Some(&*page.path) != path) {
                    let text = format!("{last} is sent with the filters of this route, not those of its own location");
                    self.draft.lost(&inner, text);
                }
            }
        }
        names.dedup();
        let unfiled = names.is_empty() && tried.is_some_and(|tried| tried.words.iter().all(|word| !word.contains("$uri")));
        if names == ["$uri"] {
            names.clear();
        }
        // A redirect of a directory to its path with a slash would lead to the new path.
        if alias.is_some_and(Alias::is_directory) {
            if names.is_empty() {
                names.push("$uri".to_owned());
            }
            if let Some(place) = names.iter().position(|name| name == "$uri") {
                names.insert(place, "$uri/".to_owned());
            }
        }
        let action = match root.map(|(root, _)| root).filter(|_| !unfiled) {
            Some(root) if root.contains('$') => {
                self.draft.lost(key, "root has no variables: write a route for each value");
                Action::status(404)
            }
            Some(root) => {
                self.types_of_files.push(context.default_type.clone());
                let index = self.indexes(of, context, key);
                Action::Files { root, tried: names, index, types: Vec::new(), fallback }
            }
            None => fallback.map_or(Action::status(404), |action| *action),
        };
        (action, passed)
    }

    /// A word of `try_files` as one of `try`.
    fn tried(&mut self, word: &str, alias: Option<&Alias>, key: &Key) -> Option<String> {
        // A directory is found by its own path, too.
        let path = word.strip_suffix('/').filter(|path| *path == "$uri").unwrap_or(word);
        let rest = path.strip_prefix("$uri").unwrap_or(path);
        let name = rest.rsplit('/').next().unwrap_or_default();
        // A path without an ending is that of a location.
        let file = path == "$uri" || path.starts_with("$uri") && !rest.is_empty() || name.contains('.');
        if file && !name.ends_with(".php") && !rest.contains(['$', '?']) && path.starts_with(['/', '$']) {
            let below = alias.map_or(Some(path.to_owned()), |alias| alias.tried(path));
            if below.is_none() {
                self.draft.lost(key, format!("{path} is not below the alias of this location: write a route for it"));
            }
            return below;
        }
        self.draft.lost(key, format!("try of files takes $uri and paths of files below root, and fallback an app, not {word}"));
        None
    }

    /// The answer to requests of a server that fit none of its locations.
    fn rest(&mut self, server: &Directive, context: &Context, routes: &mut Routes) {
        let key = key(server);
        let tried = server.inside().iter().find(|directive| directive.name == "try_files");
        let mut block = server.clone();
        // Those of the server are written already.
        block.name = "location".to_owned();
        if let Some(inside) = &mut block.block {
            inside.retain(|directive| !RULES.contains(&&*directive.name));
        }
        if self.rewrites(&block, None, &Match::default(), context, routes) {
            return;
        }
        let passenger = server.inside().iter().any(|directive| directive.name == "passenger_enabled" && is_on(directive));
        self.guarded(&Match::default(), context, routes, &|nginx, conditions, context| {
            if passenger {
                let action = nginx.passenger(context, &key);
                let filters = nginx.filters(context, Some(context), true);
                return Route { filters, ..Route::new(conditions.clone(), action, key.clone()) };
            }
            let root = context.root.clone().map(|root| (root, None));
            let (action, passed) = nginx.files(root, (Of::Prefix(""), tried), context, &key);
            let filters = nginx.filters(context, passed.as_ref(), true);
            Route { filters, ..Route::new(conditions.clone(), action, key.clone()) }
        });
    }

    /// Reads the other directives of a location.
    fn note(&mut self, directive: &Directive) {
        let known = [
            "return",
            "rewrite",
            "if",
            "try_files",
            "proxy_pass",
            "fastcgi_pass",
            "uwsgi_pass",
            "scgi_pass",
            "grpc_pass",
            "alias",
            "internal",
            "limit_except",
            "location",
            "memcached_pass",
            "break",
        ];
        if known.contains(&&*directive.name) || Context::default().set(directive) {
            return;
        }
        if ["client_max_body_size", "client_body_buffer_size", "keepalive_timeout", "access_log", "error_log", "send_timeout"]
            .contains(&&*directive.name)
        {
            let text = "it holds for the whole server: in [server]";
            return self.draft.lost(&key(directive), text);
        }
        self.general(directive);
    }
}
