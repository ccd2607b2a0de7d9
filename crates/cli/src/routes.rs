//! Compiles the routes of a configuration file.

use oribi_config_file::{
    Action, Ask, Auth, ConfigFile, ErrorPage, Filters, Limit, Match, Passwords, Pattern, RouteSection, Text,
};
use oribi_files::media_type;
use oribi_server::config::Settings;
use oribi_server::config::value::file_names;
use oribi_server::directory::absolute;
use oribi_server::routes::Limit as RouteLimit;
use oribi_server::routes::{Action as Answer, AskRule, Candidate, ErrorPage as Page, Filters as RouteFilters};
use oribi_server::routes::{NamedPattern, PasswordRule, PathExpressions, ResponsePlan, Route, Routes, Rule, RuleError};
use oribi_server::routes::{Template, UserFile};
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The most bytes of an error page.
const PAGE_BYTES: u64 = 1 << 20;

/// The name of each route: its own, or that of the app that it leads to; empty for any other.
pub fn names(content: &ConfigFile) -> Vec<&str> {
    fn name(section: &RouteSection) -> &str {
        match (&section.name, &section.action) {
            (Some(name), _) | (None, Action::App { name, .. }) => name.value.as_str(),
            (None, Action::Files { .. } | Action::Redirect { .. } | Action::Respond { .. } | Action::Again) => "",
        }
    }
    content.routes.iter().map(name).collect()
}

/// The files beside the configuration file to which routes lead.
pub trait Disk {
    /// Reads an error page.
    ///
    /// # Errors
    /// The page cannot be used; the message says why.
    fn page(&self, path: &Path) -> Result<Vec<u8>, String>;

    /// Reads a file of users.
    ///
    /// # Errors
    /// The file cannot be used; the message says which, and why.
    fn users(&self, path: &Path) -> Result<Vec<u8>, String>;

    /// Whether there is such a directory.
    fn is_directory(&self, path: &Path) -> bool;

    /// Returns the absolute path.
    fn absolute(&self, path: &Path) -> PathBuf;
}

/// The disk itself.
#[derive(Debug)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn page(&self, path: &Path) -> Result<Vec<u8>, String> {
        // Reading from a pipe or a device could have no end.
        if !fs::metadata(path).map_err(|error| error.to_string())?.is_file() {
            return Err("not a file".to_owned());
        }
        let mut content = Vec::new();
        let read = File::open(path).and_then(|opened| opened.take(PAGE_BYTES + 1).read_to_end(&mut content));
        read.map_err(|error| error.to_string())?;
        if content.len() as u64 > PAGE_BYTES {
            return Err(format!("more than {PAGE_BYTES} bytes"));
        }
        Ok(content)
    }

    fn users(&self, path: &Path) -> Result<Vec<u8>, String> {
        UserFile::content(path)
    }

    fn is_directory(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn absolute(&self, path: &Path) -> PathBuf {
        absolute(path).unwrap_or_else(|_| path.to_owned())
    }
}

/// The routes of a file before they are compiled.
#[derive(Debug)]
pub struct RoutePlan {
    routes: Vec<Route>,
    /// The numbers of the names under which requests are counted; empty without names.
    labels: Vec<u8>,
    limits: Vec<RouteLimit>,
    of_routes: Vec<Vec<usize>>,
    /// The memory for stored responses in all edges, in bytes.
    cache_bytes: usize,
}

impl RoutePlan {
    /// Returns a number that differs if the routes do, but not if only their places in the file do.
    pub fn fingerprint(&self) -> u64 {
        let limits: Vec<_> = self.limits.iter().map(|limit| (&limit.of, &limit.by, limit.dry_run)).collect();
        let mut hasher = DefaultHasher::new();
        format!("{:?} {limits:?} {:?} {}", self.routes, self.of_routes, self.cache_bytes).hash(&mut hasher);
        // Values of fields may be secrets, so that they are in no text.
        for Route { filters, .. } in &self.routes {
            (&filters.request, &filters.response.fields).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Compiles the routes. The limits have no counts yet.
    ///
    /// # Errors
    /// The mistakes, each with its place.
    pub fn compile(self, content: &ConfigFile) -> Result<Routes, String> {
        let error = |error: &RuleError| format!("{}: {}", place_of(&content.routes, error), error.message);
        let all = |errors: Vec<RuleError>| errors.iter().map(error).collect::<Vec<_>>().join("\n");
        let routes = Routes::compile(self.routes).map_err(all)?;
        Ok(routes.with_labels(self.labels).limited_by(self.limits, self.of_routes).with_cache_bytes(self.cache_bytes))
    }
}

/// Returns a number that is the same for the same text, in this program.
pub fn fingerprint(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Makes the routes. `None` if there are none, because the only app, in the first place, answers all requests. `place` returns the
/// place of an app.
///
/// # Errors
/// The mistakes, each with its place.
pub fn plan(
    content: &ConfigFile,
    settings: &Settings,
    disk: &dyn Disk,
    place: &dyn Fn(&str) -> usize,
) -> Result<Option<RoutePlan>, String> {
    let mut maker = Maker { disk, place, users: Vec::new() };
    if let ([], [only]) = (&content.routes[..], &content.apps[..]) {
        let app = place(&only.name);
        if content.defaults == Filters::default() && app == 0 {
            return Ok(None);
        }
        let action = Answer::App { app, mount: String::new() };
        let only = Route { rule: Rule::default(), action, filters: maker.filters(&content.defaults)? };
        return Ok(Some(limited(vec![only], Vec::new(), &[&content.defaults])));
    }
    let is_missing =
        |section: &&RouteSection| matches!(&section.action, Action::Files { root, .. } if !disk.is_directory(root));
    if let Some(RouteSection { place, action: Action::Files { root, .. }, .. }) = content.routes.iter().find(is_missing) {
        return Err(format!("{place}: files: there is no such directory: {}", root.display()));
    }
    let none = Filters::default();
    let mut route = |section: &RouteSection| {
        let rule = rule(&section.conditions);
        let groups = PathExpressions::of(&rule.path).groups();
        let action = rewritten(section, maker.answer(&section.action, &groups), &groups)?;
        let filters = maker.filters(filters_of(section, &none))?;
        Ok::<_, String>(Route { rule, action, filters })
    };
    let routes = content.routes.iter().map(&mut route).collect::<Result<_, _>>()?;
    let filters: Vec<&Filters> = content.routes.iter().map(|section| filters_of(section, &none)).collect();
    let known = settings.route_names();
    let number = |name: &str| known.iter().position(|known| *known == name).and_then(|number| u8::try_from(number).ok());
    let labels = names(content).into_iter().map(|name| number(name).unwrap_or_default()).collect();
    Ok(Some(limited(routes, labels, &filters)))
}

/// Adds the limits of routes, and the memory of their cache. Limits at the same place of the file are one, and share their counts.
fn limited<'f>(routes: Vec<Route>, labels: Vec<u8>, filters: &[&'f Filters]) -> RoutePlan {
    let mut limits: Vec<&Limit> = Vec::new();
    let mut index = |limit: &'f Limit| {
        limits.iter().position(|known: &&Limit| known.place == limit.place).unwrap_or_else(|| {
            limits.push(limit);
            limits.len() - 1
        })
    };
    let of_routes = filters.iter().map(|filters| filters.limits.iter().flatten().map(&mut index).collect()).collect();
    RoutePlan { routes, labels, limits: limits.into_iter().map(limit).collect(), of_routes, cache_bytes: cache_bytes(filters) }
}

fn limit(limit: &Limit) -> RouteLimit {
    RouteLimit { label: limit.place.to_string(), of: limit.of, by: limit.by.clone(), dry_run: limit.dry_run }
}

/// The filters of a route. One that only changes the path has none, also not those of `[defaults]`.
fn filters_of<'f>(section: &'f RouteSection, none: &'f Filters) -> &'f Filters {
    if section.action == Action::Again { none } else { &section.filters }
}

/// The action with the change of the path before it.
fn rewritten(section: &RouteSection, action: Option<Answer>, groups: &[String]) -> Result<Answer, String> {
    let Some(rewrite) = &section.rewrite else {
        return action.ok_or_else(|| format!("{}: the route has no action", section.place));
    };
    let to = Template::parse(&rewrite.value, groups)
        .map_err(|name| format!("{}: {}", rewrite.place, oribi_server::routes::unknown_variable(&name)))?;
    Ok(Answer::Rewrite { to, then: action.map(Box::new) })
}

/// Makes the parts of routes.
struct Maker<'d> {
    disk: &'d dyn Disk,
    /// Returns the place of an app.
    place: &'d dyn Fn(&str) -> usize,
    /// The files of users that have been read.
    users: Vec<Arc<UserFile>>,
}

impl Maker<'_> {
    /// The answer of an action; `None` if other routes answer. `groups` are those of the path conditions.
    fn answer(&self, action: &Action, groups: &[String]) -> Option<Answer> {
        let app = |name: &Text| (self.place)(&name.value);
        let text = |text: &Option<Text>| text.as_ref().map(|text| text.value.clone());
        Some(match action {
            Action::Again => return None,
            Action::App { name, mount } => Answer::App { app: app(name), mount: text(mount).unwrap_or_default() },
            Action::Files { root, candidates, fallback, index, listing, types } => Answer::Files {
                root: self.disk.absolute(root),
                // The reader has checked them.
                index: index
                    .as_ref()
                    .map(|index| index.values.iter().filter_map(|names| file_names(names).ok()).flatten().collect()),
                listing: *listing,
                types: types.clone(),
                candidates: candidates.iter().map(candidate).collect(),
                fallback: fallback.as_ref().and_then(|fallback| self.answer(fallback, groups)).map(Box::new),
            },
            Action::Redirect { to, status } => {
                Answer::Redirect { to: Template::parse_lenient(&to.value, groups), status: *status }
            }
            Action::Respond { status, content, content_type } => Answer::Respond {
                status: *status,
                content: text(content).unwrap_or_default().into_bytes(),
                content_type: text(content_type),
            },
        })
    }

    fn filters(&mut self, filters: &Filters) -> Result<RouteFilters, String> {
        let Filters { request_fields, response_fields, cors, compression, error_pages, auth, limits: _, cache } = filters;
        let (passwords, ask) = match auth.as_ref().and_then(Option::as_ref) {
            Some(Auth::Passwords(rule)) => (Some(self.passwords(rule)?), None),
            Some(Auth::Ask(Ask { app, path, fields })) => {
                let app = (self.place)(&app.value);
                (None, Some(AskRule { app, path: path.clone(), fields: fields.clone() }))
            }
            None => (None, None),
        };
        let page = |error_page| page(error_page, self.disk);
        let error_pages = error_pages.iter().flatten().map(page).collect::<Result<_, _>>()?;
        Ok(RouteFilters {
            request: request_fields.clone().unwrap_or_default(),
            response: ResponsePlan {
                fields: response_fields.clone().unwrap_or_default(),
                cors: cors.clone().flatten(),
                compression: compression.clone().flatten(),
                error_pages,
            },
            passwords,
            ask,
            cache: cache.flatten().map(|cache| cache.rules),
        })
    }

    /// Returns the rule for users and passwords. Routes with the same file share it.
    fn passwords(&mut self, rule: &Passwords) -> Result<PasswordRule, String> {
        let Passwords { htpasswd, realm, weak, keep, field, place } = rule;
        // The process that reads it again may be in another directory.
        let path = self.disk.absolute(htpasswd);
        let known = self.users.iter().find(|file| file.path() == path && file.accepts_weak() == *weak);
        let file = match known {
            Some(file) => Arc::clone(file),
            None => {
                let read = self.disk.users(&path).and_then(|content| UserFile::new(&path, &content, *weak));
                let file = Arc::new(read.map_err(|why| format!("{place}: htpasswd: {why}"))?);
                self.users.push(Arc::clone(&file));
                file
            }
        };
        Ok(PasswordRule { file, realm: realm.clone(), keep: *keep, field: field.clone() })
    }
}

fn candidate(text: &Text) -> Candidate {
    let parts = text.value.split_once("$uri");
    let (before, behind) = parts.unwrap_or((&text.value, ""));
    Candidate { before: before.to_owned(), path: parts.is_some(), behind: behind.to_owned() }
}

/// Returns the memory for stored responses in all edges, in bytes.
fn cache_bytes(filters: &[&Filters]) -> usize {
    let largest = filters.iter().filter_map(|filters| filters.cache.flatten()).map(|cache| cache.size).max();
    usize::try_from(largest.unwrap_or_default()).unwrap_or(usize::MAX)
}

/// Reads the content of an error page.
fn page(ErrorPage { status, file, place }: &ErrorPage, disk: &dyn Disk) -> Result<Page, String> {
    let content = disk.page(file).map_err(|why| format!("{place}: error-pages: {}: {why}", file.display()))?;
    Ok(Page { status: *status, media_type: media_type::of(file.as_os_str().as_encoded_bytes()), content: content.into() })
}

/// Returns the place of an error in a route: that of the pattern, or of the route.
fn place_of(routes: &[RouteSection], error: &RuleError) -> String {
    let Some(RouteSection { conditions, place, .. }) = routes.get(error.rule) else { return error.to_string() };
    let Match { host, path, method, source, destination, scheme, field, query } = conditions;
    let named = |lists: &[(String, Vec<Pattern>)]| {
        let mut patterns = lists.iter().flat_map(|(_, patterns)| patterns);
        patterns.nth(error.pattern).map(|pattern| pattern.text.place.clone())
    };
    let plain = |patterns: &[Pattern]| patterns.get(error.pattern).map(|pattern| pattern.text.place.clone());
    let found = match error.list {
        "host" => plain(host),
        "path" => plain(path),
        "method" => plain(method),
        "source" => plain(source),
        "destination" => plain(destination),
        "scheme" => plain(scheme),
        "field" => named(field),
        "query" => named(query),
        _ => None,
    };
    found.unwrap_or_else(|| place.clone()).to_string()
}

fn rule(conditions: &Match) -> Rule {
    let all = |patterns: &[Pattern]| patterns.iter().map(pattern).collect::<Vec<_>>();
    let named = |lists: &[(String, Vec<Pattern>)]| {
        let one = |name: &str, value: String| NamedPattern { name: name.to_owned(), value: Some(value) };
        lists.iter().flat_map(|(name, patterns)| all(patterns).into_iter().map(move |value| one(name, value))).collect()
    };
    let Match { host, path, method, source, destination, scheme, field, query } = conditions;
    Rule {
        host: all(host),
        path: all(path),
        method: all(method),
        field: named(field),
        query: named(query),
        source: all(source),
        destination: all(destination),
        scheme: all(scheme),
    }
}

fn pattern(pattern: &Pattern) -> String {
    format!("{}{}", if pattern.negated { "!" } else { "" }, pattern.text.value)
}
