//! The draft of an `oribi.toml`, which each reader of a format fills.

use crate::conditions::Match;
use crate::filters::{Filters, NAMES};
use crate::found::Found;
use crate::note::{Key, Kind, Note};
use oribi_config::setting_of;
use std::collections::BTreeMap;

/// The value of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    Number(u64),
    On(bool),
    List(Vec<String>),
}

impl Value {
    /// The value without quotes.
    pub fn plain(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
            Self::On(on) => on.to_string(),
            Self::List(list) => list.join(", "),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<bool> for Value {
    fn from(on: bool) -> Self {
        Self::On(on)
    }
}

/// An option with the thing of the source that it comes from.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub name: &'static str,
    pub value: Value,
    pub key: Key,
}

/// The options of one table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub list: Vec<Setting>,
    /// Things of the source that a later one has replaced.
    pub replaced: Vec<Key>,
}

impl Settings {
    /// Sets an option: an option that may be given several times, or is a list, gets one more value; another one is replaced.
    pub fn set(&mut self, name: &'static str, value: impl Into<Value>, key: &Key) {
        let value = value.into();
        let Some(earlier) = self.list.iter_mut().find(|setting| setting.name == name) else {
            return self.list.push(Setting { name, value, key: key.clone() });
        };
        let setting = setting_of(name).map(|(setting, _)| setting);
        let repeats = setting.is_some_and(oribi_config::Setting::repeats);
        let separator = setting.and_then(|setting| setting.separator);
        earlier.value = match (earlier.value.clone(), value, separator) {
            (Value::List(mut list), Value::Text(text), _) if repeats => {
                list.push(text);
                Value::List(list)
            }
            (Value::Text(first), Value::Text(text), _) if repeats => Value::List(vec![first, text]),
            (Value::Text(first), Value::Text(text), Some(separator)) => Value::Text(format!("{first}{separator}{text}")),
            (before, value, _) => {
                if before != value {
                    self.replaced.push(earlier.key.clone());
                }
                value
            }
        };
        earlier.key = key.clone();
    }

    /// Sets an option that has no value yet: a default of the other server.
    pub fn otherwise(&mut self, name: &'static str, value: impl Into<Value>, server: &str) {
        if !self.has(name) {
            self.set(name, value, &Key::new(format!("default of {server}")));
        }
    }

    pub fn has(&self, name: &str) -> bool {
        self.list.iter().any(|setting| setting.name == name)
    }
}

/// A `[[listen]]`.
#[derive(Clone, Debug)]
pub(crate) struct Listen {
    pub address: String,
    pub options: Settings,
    pub key: Key,
}

/// An `[app.NAME]`.
#[derive(Clone, Debug, Default)]
pub(crate) struct App {
    pub name: String,
    pub file: String,
    /// The URLs of the servers that answer, in place of a file.
    pub proxy: Vec<String>,
    pub language: Option<&'static str>,
    pub directory: Option<String>,
    pub environment: Vec<(String, String)>,
    pub options: Settings,
    /// The lowest number of workers, if their number follows the load; `workers` is the highest one.
    pub least_workers: Option<(u64, Key)>,
    pub key: Key,
    /// The name of the file to which it belongs, if the source is several files.
    pub part: Option<String>,
}

impl App {
    /// Puts the lowest and the highest number of workers together. Returns the key of the lowest one if it has no effect, because
    /// it is not below the other one.
    pub fn join_workers(&mut self) -> Option<Key> {
        let (least, key) = self.least_workers.take()?;
        let workers = self.options.list.iter_mut().find(|setting| setting.name == "workers");
        let number = |value: &Value| match value {
            Value::Number(number) => Some(*number),
            Value::Text(text) => text.parse().ok(),
            Value::On(_) | Value::List(_) => None,
        };
        match workers.map(|setting| (number(&setting.value), setting)) {
            Some((Some(most), setting)) if least < most => {
                setting.value = Value::Text(format!("{least}:{most}"));
                None
            }
            _ => Some(key),
        }
    }
}

impl App {
    /// Whether the number of workers follows the load.
    pub fn follows_load(&self) -> bool {
        let joined = |value: &Value| matches!(value, Value::Text(text) if text.contains(':'));
        self.options.list.iter().any(|setting| setting.name == "workers" && joined(&setting.value))
    }
}

/// The action of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    App {
        name: String,
        mount: Option<String>,
    },
    Files {
        root: String,
        tried: Vec<String>,
        /// The files for a directory; none for the default.
        index: Vec<String>,
        /// Patterns for the media types of files that are sent.
        types: Vec<String>,
        fallback: Option<Box<Self>>,
    },
    Redirect {
        to: String,
        status: u16,
    },
    Respond {
        status: u16,
        content: Option<String>,
        content_type: Option<String>,
    },
    /// None: the routes decide again, about the rewritten path.
    Again,
}

impl Action {
    /// An app at its own path.
    pub fn app(name: impl Into<String>) -> Self {
        Self::App { name: name.into(), mount: None }
    }

    /// The files of a directory, in front of another action.
    pub fn files(root: impl Into<String>, fallback: Option<Self>) -> Self {
        let fallback = fallback.map(Box::new);
        Self::Files { root: root.into(), tried: Vec::new(), index: Vec::new(), types: Vec::new(), fallback }
    }

    /// Gives apps other names: pairs of the old and the new one.
    pub fn rename(&mut self, names: &[(String, String)]) {
        match self {
            Self::App { name, .. } => {
                if let Some((_, new)) = names.iter().find(|(old, _)| old == name) {
                    name.clone_from(new);
                }
            }
            Self::Files { fallback: Some(fallback), .. } => fallback.rename(names),
            _ => {}
        }
    }

    /// A response without content.
    pub fn status(status: u16) -> Self {
        Self::Respond { status, content: None, content_type: None }
    }
}

/// A `[[route]]`.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub conditions: Match,
    /// The new path of the requests.
    pub rewrite: Option<String>,
    pub action: Action,
    pub filters: Filters,
    pub key: Key,
    /// The name of the file to which it belongs, if the source is several files.
    pub part: Option<String>,
}

impl Route {
    /// A route without filters.
    pub fn new(conditions: Match, action: Action, key: Key) -> Self {
        Self { conditions, rewrite: None, action, filters: Filters::default(), key, part: None }
    }
}

/// The whole draft.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draft {
    /// The title of the source: the first line of the file.
    pub title: String,
    pub server: Settings,
    pub listens: Vec<Listen>,
    pub apps: Vec<App>,
    /// Filters of the routes that have none of the same name.
    pub defaults: Filters,
    pub routes: Vec<Route>,
    pub notes: Vec<Note>,
    /// The patterns of further files that belong to the source.
    pub wanted: Vec<String>,
    /// These files; `None` if they are not known yet.
    pub found: Option<Vec<Found>>,
}

impl Draft {
    /// Notes a thing that was not carried over.
    pub fn lost(&mut self, key: &Key, text: impl Into<String>) {
        self.note(Kind::Lost, key, text.into());
    }

    /// Notes a thing that needs no option.
    pub fn same(&mut self, key: &Key, text: impl Into<String>) {
        self.note(Kind::Same, key, text.into());
    }

    pub fn note(&mut self, kind: Kind, key: &Key, text: String) {
        let note = Note { kind, line: key.line, key: key.name.clone(), text };
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    pub fn listen(&mut self, address: impl Into<String>, key: &Key) -> &mut Listen {
        let address = address.into();
        let same = self.listens.iter().position(|listen| listen.address == address);
        let index = same.unwrap_or_else(|| {
            self.listens.push(Listen { address, options: Settings::default(), key: key.clone() });
            self.listens.len() - 1
        });
        &mut self.listens[index]
    }

    pub fn route(&mut self, conditions: Match, action: Action, key: &Key) {
        self.routes.push(Route::new(conditions, action, key.clone()));
    }

    /// A name for an app that no other app has: letters of the name that are not allowed become `-`.
    pub fn free_name(&self, wanted: &str) -> String {
        let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        let plain: String = wanted.chars().take(50).map(|letter| if fits(letter) { letter } else { '-' }).collect();
        let plain = if plain.is_empty() { "app".to_owned() } else { plain };
        let taken = |name: &str| self.apps.iter().any(|app| app.name == name);
        if !taken(&plain) {
            return plain;
        }
        (2..).map(|number| format!("{plain}-{number}")).find(|name| !taken(name)).unwrap_or(plain)
    }

    /// The name of a file for a part of the source, which no other part has.
    pub fn free_part(&self, wanted: &str) -> String {
        let free = |name: &String| self.apps.iter().all(|app| app.part.as_ref() != Some(name));
        let plain = Self::default().free_name(wanted);
        let numbered = (2..).map(|number| format!("{plain}-{number}"));
        std::iter::once(plain.clone()).chain(numbered).find(free).unwrap_or_default()
    }

    /// The action that passes requests on to other servers, as an app with the first free name like `name`. Servers with the
    /// same URLs are one app.
    pub fn proxy(&mut self, name: &str, urls: &[String], key: &Key) -> Action {
        let reason = match urls {
            [] => Some("there is no server"),
            urls => urls.iter().find_map(|url| unsuitable(url)),
        };
        if let Some(reason) = reason {
            self.lost(key, format!("{reason}: until there is an app for them, these requests get a 502"));
            return Action::status(502);
        }
        let known = self.apps.iter().find(|app| app.proxy == urls).map(|app| app.name.clone());
        let name = known.unwrap_or_else(|| {
            let name = name.strip_suffix(".sock").or_else(|| name.strip_suffix(".socket")).unwrap_or(name);
            let name = self.free_name(&name.replace('.', "-"));
            self.apps.push(App { name: name.clone(), proxy: urls.to_vec(), key: key.clone(), ..App::default() });
            name
        });
        Action::app(name)
    }

    /// Moves the most common filter of a kind that all routes have to `[defaults]`, and notes limits that several routes have.
    pub fn gather(&mut self) {
        for &name in NAMES {
            // A route that only changes the path has no filters, and gets none from [defaults].
            let answers = |route: &&mut Route| route.action != Action::Again;
            let all: Option<Vec<String>> =
                self.routes.iter_mut().filter(answers).map(|route| route.filters.text(name)).collect();
            let Some(all) = all else { continue };
            let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
            all.iter().for_each(|text| *counts.entry(text).or_default() += 1);
            let most = counts.iter().max_by_key(|(_, count)| **count).filter(|(_, count)| **count > 1);
            let Some((most, _)) = most else { continue };
            for (route, _) in self.routes.iter_mut().filter(answers).zip(&all).filter(|(_, text)| text == most) {
                self.defaults.put(name, route.filters.take(name));
            }
        }
        let limits: Vec<String> = self.routes.iter().filter_map(|route| route.filters.text("limit")).collect();
        let shared = limits.iter().enumerate().any(|(index, limit)| limits[..index].contains(limit));
        if shared {
            self.lost(&Key::new("limit"), "each route counts for itself: only those of [defaults] count together");
        }
    }
}

/// The reason why an app cannot pass requests on to a URL.
fn unsuitable(url: &str) -> Option<&'static str> {
    let known = url.starts_with("http://") || url.starts_with("http+unix:");
    let path = url.strip_prefix("http://").is_some_and(|rest| rest.trim_end_matches('/').contains('/'));
    if url.contains(['@', '?', '$']) {
        Some("proxy of an app takes http://HOST:PORT, without a user, a query and variables")
    } else if url.starts_with("https://") {
        Some("an app passes requests on without TLS, to http://HOST:PORT")
    } else if !known || path {
        Some("proxy of an app takes http://HOST:PORT or http+unix:/PATH")
    } else {
        None
    }
}
