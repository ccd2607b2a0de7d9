//! Compiles the routes of a configuration file.

use oribi_config_file::{
    Action, AppSection, Ask, Auth, ConfigFile, ErrorPage, Filters, Limit, Match, Passwords, Pattern, RouteSection, Text,
};
use oribi_files::media_type;
use oribi_server::config::Settings;
use oribi_server::directory::absolute;
use oribi_server::routes::Limit as RouteLimit;
use oribi_server::routes::{Action as Answer, AskRule, Candidate, ErrorPage as Page, Filters as RouteFilters};
use oribi_server::routes::{NamedPattern, PasswordRule, PathExpressions, ResponsePlan, Route, Routes, Rule, RuleError};
use oribi_server::routes::{Template, UserFile};
use std::fs::{self, File};
use std::io::Read;
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

/// Compiles the routes. `None` if there are none, because the only app answers all requests.
///
/// # Errors
/// The mistakes, each with its place.
pub fn compile(content: &ConfigFile, settings: &Settings) -> Result<Option<Routes>, String> {
    let (edges, mut users) = (settings.edges_wanted(), Vec::new());
    if content.routes.is_empty() && content.apps.len() == 1 {
        if content.defaults == Filters::default() {
            return Ok(None);
        }
        let action = Answer::App { app: 0, mount: String::new() };
        let only = Route { rule: Rule::default(), action, filters: filters(&content.defaults, &content.apps, &mut users)? };
        let routes = Routes::compile(vec![only]).map_err(|errors| format!("{errors:?}"))?;
        return limited(routes, &[&content.defaults], edges).map(Some);
    }
    let is_missing = |section: &&RouteSection| matches!(&section.action, Action::Files { root, .. } if !root.is_dir());
    if let Some(RouteSection { place, action: Action::Files { root, .. }, .. }) = content.routes.iter().find(is_missing) {
        return Err(format!("{place}: files: there is no such directory: {}", root.display()));
    }
    let none = Filters::default();
    let mut route = |section: &RouteSection| {
        let rule = rule(&section.conditions);
        let groups = PathExpressions::of(&rule.path).groups();
        let action = rewritten(section, answer(content, &section.action, &groups), &groups)?;
        let filters = filters(filters_of(section, &none), &content.apps, &mut users)?;
        Ok::<_, String>(Route { rule, action, filters })
    };
    let routes = content.routes.iter().map(&mut route).collect::<Result<_, _>>()?;
    let error = |error: &RuleError| format!("{}: {}", place_of(&content.routes, error), error.message);
    let routes = Routes::compile(routes).map_err(|errors| errors.iter().map(error).collect::<Vec<_>>().join("\n"))?;
    let filters: Vec<&Filters> = content.routes.iter().map(|section| filters_of(section, &none)).collect();
    let known = settings.route_names();
    let number = |name: &str| known.iter().position(|known| *known == name).and_then(|number| u8::try_from(number).ok());
    let labels = names(content).into_iter().map(|name| number(name).unwrap_or_default()).collect();
    limited(routes.with_labels(labels), &filters, edges).map(Some)
}

/// Adds the limits of routes. Those at the same place of the file are one, and share their counts.
fn limited<'f>(routes: Routes, filters: &[&'f Filters], edges: usize) -> Result<Routes, String> {
    let mut limits: Vec<&Limit> = Vec::new();
    let mut index = |limit: &'f Limit| {
        limits.iter().position(|known: &&Limit| known.place == limit.place).unwrap_or_else(|| {
            limits.push(limit);
            limits.len() - 1
        })
    };
    let of_routes = filters.iter().map(|filters| filters.limits.iter().flatten().map(&mut index).collect()).collect();
    let limits = limits.into_iter().map(limit).collect();
    routes.with_limits(limits, of_routes, edges).map_err(|error| format!("no memory for the limits of routes: {error}"))
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

/// The answer of an action; `None` if other routes answer. `groups` are those of the path conditions.
fn answer(content: &ConfigFile, action: &Action, groups: &[String]) -> Option<Answer> {
    let app = |name: &Text| content.apps.iter().position(|app| app.name == name.value).unwrap_or_default();
    let text = |text: &Option<Text>| text.as_ref().map(|text| text.value.clone());
    Some(match action {
        Action::Again => return None,
        Action::App { name, mount } => Answer::App { app: app(name), mount: text(mount).unwrap_or_default() },
        Action::Files { root, candidates, fallback, index, listing } => Answer::Files {
            root: absolute(root).unwrap_or_else(|_| root.clone()),
            index: index.as_ref().map(|index| index.values.clone()),
            listing: *listing,
            candidates: candidates.iter().map(candidate).collect(),
            fallback: fallback.as_ref().and_then(|fallback| answer(content, fallback, groups)).map(Box::new),
        },
        Action::Redirect { to, status } => Answer::Redirect { to: Template::parse_lenient(&to.value, groups), status: *status },
        Action::Respond { status, content, content_type } => Answer::Respond {
            status: *status,
            content: text(content).unwrap_or_default().into_bytes(),
            content_type: text(content_type),
        },
    })
}

fn candidate(text: &Text) -> Candidate {
    let parts = text.value.split_once("$uri");
    let (before, behind) = parts.unwrap_or((&text.value, ""));
    Candidate { before: before.to_owned(), path: parts.is_some(), behind: behind.to_owned() }
}

/// `users` are the files of users that have been read.
fn filters(filters: &Filters, apps: &[AppSection], users: &mut Vec<Arc<UserFile>>) -> Result<RouteFilters, String> {
    let Filters { request_fields, response_fields, cors, compression, error_pages, auth, limits: _ } = filters;
    let (passwords, ask) = match auth.as_ref().and_then(Option::as_ref) {
        Some(Auth::Passwords(rule)) => (Some(passwords(rule, users)?), None),
        Some(Auth::Ask(Ask { app, path, fields })) => {
            let app = apps.iter().position(|known| known.name == app.value).unwrap_or_default();
            (None, Some(AskRule { app, path: path.clone(), fields: fields.clone() }))
        }
        None => (None, None),
    };
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
    })
}

/// Returns the rule for users and passwords. Routes with the same file share it.
fn passwords(rule: &Passwords, users: &mut Vec<Arc<UserFile>>) -> Result<PasswordRule, String> {
    let Passwords { htpasswd, realm, weak, keep, field, place } = rule;
    // The process that reads it again may be in another directory.
    let path = absolute(htpasswd).unwrap_or_else(|_| htpasswd.clone());
    let known = users.iter().find(|file| file.path() == path && file.accepts_weak() == *weak);
    let file = match known {
        Some(file) => Arc::clone(file),
        None => {
            let read = UserFile::read(&path, *weak).map_err(|why| format!("{place}: htpasswd: {why}"))?;
            users.push(Arc::new(read));
            Arc::clone(&users[users.len() - 1])
        }
    };
    Ok(PasswordRule { file, realm: realm.clone(), keep: *keep, field: field.clone() })
}

/// Reads the content of an error page.
fn page(ErrorPage { status, file, place }: &ErrorPage) -> Result<Page, String> {
    let failed = |why: String| format!("{place}: error-pages: {}: {why}", file.display());
    // Reading from a pipe or a device could have no end.
    if !fs::metadata(file).map_err(|error| failed(error.to_string()))?.is_file() {
        return Err(failed("not a file".to_owned()));
    }
    let mut content = Vec::new();
    let read = File::open(file).and_then(|opened| opened.take(PAGE_BYTES + 1).read_to_end(&mut content));
    read.map_err(|error| failed(error.to_string()))?;
    if content.len() as u64 > PAGE_BYTES {
        return Err(failed(format!("more than {PAGE_BYTES} bytes")));
    }
    Ok(Page { status: *status, media_type: media_type::of(file.as_os_str().as_encoded_bytes()), content: content.into() })
}

/// Returns the place of an error in a route: that of the pattern, or of the route.
fn place_of(routes: &[RouteSection], error: &RuleError) -> String {
    let Some(RouteSection { conditions, place, .. }) = routes.get(error.rule) else { return error.to_string() };
    let Match { host, path, method, source, scheme, field, query } = conditions;
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
    let Match { host, path, method, source, scheme, field, query } = conditions;
    Rule {
        host: all(host),
        path: all(path),
        method: all(method),
        field: named(field),
        query: named(query),
        source: all(source),
        scheme: all(scheme),
    }
}

fn pattern(pattern: &Pattern) -> String {
    format!("{}{}", if pattern.negated { "!" } else { "" }, pattern.text.value)
}
