//! `[[route]]`: conditions and an answer.

use crate::conditions::{self, conditions};
use crate::content::{Action, Filters, Item, Match, PathKind, RouteSection, Text};
use crate::filters::{self, texts};
use crate::options::{Options, Table};
use crate::place::Place;
use crate::table::{Entry, Reader};
use oribi_config::{TypePatterns, quoted};
use oribi_route::{PathExpressions, Template, unknown_variable};
use toml::de::DeValue;

/// The keys of a route beside its filters: one of the first four is its action.
pub(crate) const KEYS: &[&str] = &["app", "files", "redirect", "respond", "name", "match", "mount", "rewrite"];

/// The keys that are actions.
pub(crate) const ACTIONS: &[&str] = &["app", "files", "redirect", "respond"];

/// The status codes of a redirect.
pub(crate) const REDIRECTS: &[u16] = &[301, 302, 303, 307, 308];

const DEFAULT_REDIRECT: u16 = 302;
const DEFAULT_RESPONSE: u16 = 200;

/// The facts about a route that other sections need, even if it has mistakes.
pub(crate) struct Outline {
    pub place: Place,
    /// The names of apps in it.
    pub apps: Vec<Text>,
    /// Whether every request meets its conditions.
    pub takes_all: bool,
}

/// Reads a `[[route]]`.
pub(crate) fn route(reader: &mut Reader<'_>, at: usize, entries: &[Entry<'_>]) -> (Outline, Option<RouteSection>) {
    let mut complete = true;
    let mut outline = Outline { place: reader.source.place(at), apps: Vec::new(), takes_all: true };
    let (mut name, mut found, mut action, mut mount, mut rewrite) = (None, Match::default(), None, None, None);
    let (mut first, mut filters): (Option<Entry<'_>>, _) = (None, Filters::default());
    for &entry in entries {
        if ACTIONS.contains(&entry.key) {
            if let Some(first) = first {
                let place = reader.source.place(first.at);
                let message = format!("a route has one action, and `{}` is already at {place}", first.key);
                reader.mistake(entry.at, message);
                complete = false;
            }
            first = first.or(Some(entry));
        }
        complete &= match entry.key {
            "app" => {
                let name = reader.text(entry, entry.value);
                outline.apps.extend(name.clone());
                keep(&mut action, name.map(|name| Action::App { name, mount: None }))
            }
            "files" => keep(&mut action, files(reader, entry, &mut outline.apps, 0)),
            "redirect" => keep(&mut action, redirect(reader, entry)),
            "respond" => keep(&mut action, respond(reader, entry)),
            "name" => keep(&mut name, line(reader, entry)),
            "mount" => keep(&mut mount, mounted(reader, entry)),
            "rewrite" => keep(&mut rewrite, rewritten(reader, entry)),
            "match" => {
                let conditions = conditions(reader, entry);
                outline.takes_all = conditions.as_ref().is_some_and(Match::is_met_by_all);
                conditions.map(|conditions| found = conditions).is_some()
            }
            _ => filters.read(reader, entry).unwrap_or_else(|| {
                unknown(reader, entry);
                false
            }),
        };
    }
    outline.apps.extend(filters.asked().cloned());
    let rewriting = entries.iter().find(|entry| entry.key == "rewrite");
    match (first, rewriting) {
        (None, None) => reader.mistake(at, "the route has no action: app, files, redirect, respond or rewrite"),
        (None, Some(entry)) => {
            complete &= leads_on(reader, *entry, entries, outline.takes_all);
            action = Some(Action::Again);
        }
        (Some(_), _) => {}
    }
    if let (Some(entry), Some(text)) = (rewriting, &rewrite) {
        complete &= has_variables(reader, *entry, text, &found);
    }
    if let Some(entry) = entries.iter().find(|entry| entry.key == "mount")
        && first.or(rewriting.copied()).is_some_and(|first| first.key != "app")
    {
        reader.mistake(entry.at, "`mount` is for a route with `app`: it becomes the app's SCRIPT_NAME");
        complete = false;
    }
    if let Some(Action::App { mount: of_app, .. }) = &mut action {
        *of_app = mount;
    }
    let action = action.filter(|_| complete);
    let place = outline.place.clone();
    (outline, action.map(|action| RouteSection { name, place, conditions: found, rewrite, action, filters }))
}

/// Reports a key that no route has. That of a part may only be at a wrong place.
fn unknown(reader: &mut Reader<'_>, entry: Entry<'_>) {
    let part = match entry.key {
        key if conditions::KEYS.contains(&key) => "match",
        "root" | "index" | "try" | "fallback" | "listing" => "files",
        "to" => "redirect",
        "content" => "respond",
        _ => return reader.unknown(entry, "[[route]]", KEYS.iter().chain(filters::KEYS).copied()),
    };
    let message = format!("`{}` belongs in `{part}`, not in [[route]] itself", entry.key);
    reader.report.suggest(reader.source, entry.at, message, || Some(format!("write {part}.{} = ...", entry.key)));
}

fn keep<Kept>(kept: &mut Option<Kept>, read: Option<Kept>) -> bool {
    let there = read.is_some();
    // A second action is a mistake, and the first one stays.
    if kept.is_none() {
        *kept = read;
    }
    there
}

fn mounted(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<Text> {
    let text = reader.text(entry, entry.value)?;
    let plain = |letter: char| !letter.is_control() && !letter.is_whitespace() && !"?#*".contains(letter);
    let named = |segment: &str| !matches!(segment, "" | "." | "..") && !segment.contains('%');
    let is_normal = text.value.strip_prefix('/').is_some_and(|names| names.split('/').all(named));
    if is_normal && text.value.chars().all(plain) {
        return Some(text);
    }
    let expected = "expected a path such as /api, which begins with `/` and does not end with it, in its normal form";
    reader.mistake(entry.value.at, format!("bad value `{}` for mount: {expected}", text.quoted()));
    None
}

/// The new path of a request.
fn rewritten(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<Text> {
    let text = reader.text(entry, entry.value)?;
    if text.value.starts_with(['/', '$']) && !text.value.contains(|letter: char| letter.is_control() || letter == '#') {
        return Some(text);
    }
    let expected = "expected a path that begins with `/`, perhaps with variables, such as /new$uri";
    reader.mistake(entry.value.at, format!("bad value `{}` for rewrite: {expected}", text.quoted()));
    None
}

/// Whether all variables of a new path exist.
fn has_variables(reader: &mut Reader<'_>, entry: Entry<'_>, text: &Text, conditions: &Match) -> bool {
    let paths: Vec<String> =
        conditions.path.iter().filter(|pattern| !pattern.negated).map(|pattern| pattern.text.value.clone()).collect();
    let parsed = Template::parse(&text.value, &PathExpressions::of(&paths).groups());
    if let Err(name) = &parsed {
        let shown = if text.from_environment { "***" } else { name };
        let message = format!("bad variable `${}` for rewrite: {}", quoted(shown), unknown_variable(name));
        reader.mistake(entry.value.at, message);
    }
    parsed.is_ok()
}

/// Checks a route that only changes the path, so that the routes decide again.
fn leads_on(reader: &mut Reader<'_>, rewrite: Entry<'_>, entries: &[Entry<'_>], takes_all: bool) -> bool {
    let mut complete = true;
    if takes_all {
        let message = "a route with `rewrite` and no action needs `match`, which the new path does not fit: otherwise the path \
             would change without end";
        reader.mistake(rewrite.at, message);
        complete = false;
    }
    for entry in entries.iter().filter(|entry| filters::KEYS.contains(&entry.key) || entry.key == "name") {
        let message = format!("`{}` is for a route with an action; this one only changes the path", entry.key);
        reader.mistake(entry.at, message);
        complete = false;
    }
    complete
}

/// A text of one line.
fn line(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<Text> {
    let text = reader.text(entry, entry.value)?;
    if !text.value.is_empty() && !text.value.contains(char::is_control) {
        return Some(text);
    }
    reader.mistake(entry.value.at, format!("`{}` is a text of one line", quoted(entry.key)));
    None
}

/// The most fallbacks of fallbacks.
const FALLBACKS: usize = 8;

/// The action in place of files that do not exist: the name of an app, or a table with an action.
fn fallback(reader: &mut Reader<'_>, entry: Entry<'_>, apps: &mut Vec<Text>, depth: usize) -> Option<Action> {
    let mut app = |reader: &mut Reader<'_>, entry: Entry<'_>| {
        let name = reader.text(entry, entry.value);
        apps.extend(name.clone());
        name.map(|name| Action::App { name, mount: None })
    };
    if !matches!(entry.value.data, DeValue::Table(_)) {
        return app(reader, entry);
    }
    let entries = reader.table(entry)?;
    let [inside] = entries.as_slice() else {
        reader.mistake(entry.at, "`fallback` has one action: app, files, redirect or respond");
        return None;
    };
    match inside.key {
        "app" => app(reader, *inside),
        "files" if depth < FALLBACKS => files(reader, *inside, apps, depth + 1),
        "files" => {
            reader.mistake(inside.at, format!("more than {FALLBACKS} fallbacks of fallbacks"));
            None
        }
        "redirect" => redirect(reader, *inside),
        "respond" => respond(reader, *inside),
        _ => {
            reader.unknown(*inside, "fallback", ACTIONS.iter().copied());
            None
        }
    }
}

fn files(reader: &mut Reader<'_>, entry: Entry<'_>, apps: &mut Vec<Text>, depth: usize) -> Option<Action> {
    const KEYS: &[&str] = &["root", "try", "fallback", "index", "listing", "types"];
    let (mut root, mut next, mut index, mut candidates, mut listing) = (None, None, None, None, None);
    let mut types = None;
    let entries = reader.table(entry)?;
    let mut complete = needs(reader, entry, &entries, "root", "root = \"DIR\"");
    for &inside in &entries {
        complete &= match inside.key {
            "root" => keep(&mut root, reader.needed(inside, "files", PathKind::Directory).map(|root| root.path)),
            "fallback" => keep(&mut next, fallback(reader, inside, apps, depth)),
            "try" => keep(&mut candidates, tries(reader, inside)),
            "index" => keep(&mut index, names_of_files(reader, inside)),
            "listing" => keep(&mut listing, reader.boolean(inside)),
            "types" => keep(&mut types, types_of_files(reader, inside)),
            _ => {
                reader.unknown_or(inside, "files", KEYS.iter().copied(), &[("autoindex", "listing")]);
                false
            }
        };
    }
    let root = root.filter(|_| complete)?;
    let (candidates, fallback) = (candidates.unwrap_or_default(), next.map(Box::new));
    Some(Action::Files { root, candidates, fallback, index, listing, types: types.unwrap_or_default() })
}

/// The files that are looked for.
fn tries(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<Vec<Text>> {
    let texts = texts(reader, entry)?;
    let mut complete = !texts.is_empty();
    for (value, text) in &texts {
        let name = text.value.replacen("$uri", "/", 1);
        let plain = |byte: u8| byte.is_ascii_graphic() && !b"$%?#\\\"<>^`{|}".contains(&byte);
        if !name.starts_with('/') || !name.bytes().all(plain) || name.split('/').any(|name| matches!(name, "." | "..")) {
            let expected = "expected the path of a file below root, such as $uri, $uri.html or /index.html";
            reader.mistake(value.at, format!("bad value `{}` for try: {expected}", text.quoted()));
            complete = false;
        }
    }
    complete.then(|| texts.into_iter().map(|(_, text)| text).collect())
}

/// The media types of files that are sent.
fn types_of_files(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<TypePatterns> {
    let texts = texts(reader, entry)?;
    if texts.is_empty() {
        reader.mistake(entry.value.at, "`types` has no pattern: no file would fit");
        return None;
    }
    let (mut complete, mut types) = (true, TypePatterns::default());
    for (value, text) in &texts {
        if let Err(expected) = types.add(&text.value) {
            reader.mistake(value.at, format!("bad value `{}` for types: {expected}", text.quoted()));
            complete = false;
        }
    }
    complete.then_some(types)
}

/// The value of `index`, as the option of that name takes it.
fn names_of_files(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<Item> {
    Options::of(Table::Server).read(reader, entry).map(|(_, item)| item)
}

fn redirect(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<Action> {
    const KEYS: &[&str] = &["to", "status"];
    let (mut to, mut status) = (None, None);
    let entries = reader.table(entry)?;
    let mut complete = needs(reader, entry, &entries, "to", "to = \"URL\"");
    for &inside in &entries {
        complete &= match inside.key {
            "to" => keep(&mut to, target(reader, inside)),
            "status" => {
                let expected = "301, 302, 303, 307 or 308";
                keep(&mut status, reader.number(inside, |number| REDIRECTS.contains(&number), expected))
            }
            _ => {
                reader.unknown(inside, "redirect", KEYS.iter().copied());
                false
            }
        };
    }
    let to = to.filter(|_| complete)?;
    Some(Action::Redirect { to, status: status.unwrap_or(DEFAULT_REDIRECT) })
}

fn target(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<Text> {
    let text = reader.text(entry, entry.value)?;
    let url = |scheme| text.value.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'));
    let path = ["$uri", "$request_uri", "${uri}", "${request_uri}"].iter().any(|name| text.value.starts_with(name));
    let known = path
        || text.value.starts_with('/') && !text.value.starts_with("//")
        || url("https://")
        || url("http://")
        || url("$scheme://");
    if known && text.value.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Some(text);
    }
    let expected = "expected a URL such as https://example.com/new, or a path that begins with `/`";
    reader.mistake(entry.value.at, format!("bad value `{}` for to: {expected}", text.quoted()));
    None
}

fn respond(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<Action> {
    const KEYS: &[&str] = &["status", "content", "type"];
    let (mut status, mut content, mut content_type) = (None, None, None);
    let mut complete = true;
    let entries = reader.table(entry)?;
    for &inside in &entries {
        complete &= match inside.key {
            "status" => {
                let fits = |number| (200..=599).contains(&number);
                keep(&mut status, reader.number(inside, fits, "a status code from 200 to 599"))
            }
            "content" => keep(&mut content, reader.text(inside, inside.value)),
            "type" => keep(&mut content_type, media_type(reader, inside)),
            _ => {
                reader.unknown(inside, "respond", KEYS.iter().copied());
                false
            }
        };
    }
    let status = status.unwrap_or(DEFAULT_RESPONSE);
    // RFC 9110, sections 15.3.5, 15.3.6 and 15.4.5.
    if [204, 205, 304].contains(&status)
        && let Some(inside) = entries.iter().find(|inside| inside.key == "content")
    {
        reader.mistake(inside.at, format!("a response with {status} has no content"));
        complete = false;
    }
    complete.then_some(Action::Respond { status, content, content_type })
}

fn media_type(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<Text> {
    let text = reader.text(entry, entry.value)?;
    let fits = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
    let typed = text.value.split_once('/').is_some_and(|(kind, rest)| !kind.is_empty() && !rest.is_empty());
    if typed && text.value.trim() == text.value && text.value.bytes().all(fits) {
        return Some(text);
    }
    let expected = "expected a media type, such as text/plain";
    reader.mistake(entry.value.at, format!("bad value `{}` for type: {expected}", text.quoted()));
    None
}

/// Reports a table without a key that it needs.
fn needs(reader: &mut Reader<'_>, entry: Entry<'_>, entries: &[Entry<'_>], key: &str, example: &str) -> bool {
    let there = entries.iter().any(|entry| entry.key == key);
    if !there {
        reader.mistake(entry.at, format!("`{}` needs {example}", entry.key));
    }
    there
}
