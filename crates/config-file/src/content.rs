//! The content of a configuration file: sections in the order of the file, each with its place.

use crate::place::Place;
use oribi_cache::Rules;
use oribi_config::{Scope, TypePatterns, setting_of};
use oribi_filter::{Compression, Cors, FieldChanges, ResponseFields};
use oribi_limit::{LimitBy, LimitOf};
use std::fmt;
use std::path::PathBuf;

/// The content of `oribi.toml` and of the files that it includes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigFile {
    /// The options in `[server]`: those of the whole server, and defaults for all apps.
    pub server: Vec<Item>,
    /// The addresses, one for each `[[listen]]`. Empty: those of the command line, or its default.
    pub listens: Vec<Listen>,
    /// The apps, in the order of the files.
    pub apps: Vec<AppSection>,
    /// The routes in the order in which they are tried: those of `oribi.toml`, then those of each included file.
    pub routes: Vec<RouteSection>,
    /// The filters in `[defaults]`, which the routes have already unless they have their own.
    pub defaults: Filters,
    /// The files and directories that routes and `[defaults]` need.
    pub needed: Vec<NeededPath>,
    /// The first names of options of `[server]` and `[[listen]]` whose values are unknown, because they have mistakes.
    pub faulty: Vec<&'static str>,
}

impl ConfigFile {
    /// The options in `[server]` that belong to the whole server or to all of its addresses.
    pub fn options_of_server(&self) -> impl Iterator<Item = &Item> {
        self.server.iter().filter(|item| scope(item) != Some(Scope::App))
    }

    /// The options of an app: its own, and those in `[server]` that it does not have itself.
    pub fn options_of<'a>(&'a self, app: &'a AppSection) -> impl Iterator<Item = &'a Item> {
        let own: Vec<&str> = app.options.iter().filter_map(first_name).collect();
        let missing =
            move |item: &&Item| scope(item) == Some(Scope::App) && first_name(item).is_some_and(|name| !own.contains(&name));
        self.server.iter().filter(missing).chain(&app.options)
    }
}

fn scope(item: &Item) -> Option<Scope> {
    setting_of(&item.name).map(|(setting, _)| setting.scope)
}

fn first_name(item: &Item) -> Option<&'static str> {
    setting_of(&item.name).map(|(setting, _)| setting.name)
}

/// A text with its place. `Debug` writes `***` for a text from the environment.
#[derive(Clone, PartialEq, Eq)]
pub struct Text {
    /// The text, with variables replaced.
    pub value: String,
    /// The place of the value.
    pub place: Place,
    /// Whether a part of the text is the value of an environment variable, which no message may quote.
    pub from_environment: bool,
}

impl Text {
    /// The text for a message: quoted and masked, or `***` if it is from the environment.
    #[must_use]
    pub fn quoted(&self) -> String {
        if self.from_environment { MASK.to_owned() } else { oribi_config::quoted(&self.value) }
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} at {}", if self.from_environment { MASK } else { &self.value }, self.place)
    }
}

/// A path in the file, joined to the folder of the file that names it.
#[derive(Clone, PartialEq, Eq)]
pub struct NamedPath {
    /// The path.
    pub path: PathBuf,
    /// The place of the value.
    pub place: Place,
    /// Whether a part of the path is the value of an environment variable, which no message may quote.
    pub from_environment: bool,
}

impl NamedPath {
    /// The path for a message, as [`Text::quoted`] has it.
    #[must_use]
    pub fn quoted(&self) -> String {
        if self.from_environment { MASK.to_owned() } else { oribi_config::quoted(&self.path.to_string_lossy()) }
    }
}

impl fmt::Debug for NamedPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} at {}", self.quoted(), self.place)
    }
}

/// A path at which there must be something when the server starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeededPath {
    /// The path.
    pub path: NamedPath,
    /// The key that names it.
    pub key: &'static str,
    /// The kind of file.
    pub kind: PathKind,
}

/// The kind of a needed file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    /// A directory.
    Directory,
    /// The content of an error.
    Page,
    /// A file of users and hashes of their passwords.
    Users {
        /// Whether hashes that can be guessed quickly are accepted.
        weak: bool,
    },
}

/// The placeholder for a text that no message may quote.
const MASK: &str = "***";

/// An option, or a variable of an app's environment, with its value. `Debug` writes `***` for a value from the environment.
#[derive(Clone, PartialEq, Eq)]
pub struct Item {
    /// The name, as in the file. `Config::set` takes it.
    pub name: String,
    /// The texts that the parser of the option takes, one after the other; several only if the option collects values.
    pub values: Vec<String>,
    /// The place of the name.
    pub place: Place,
    /// The places of the values.
    pub places: Vec<Place>,
    /// Whether a part of a value is from an environment variable, so that no message may quote the values.
    pub from_environment: bool,
}

impl fmt::Debug for Item {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} = ", self.name)?;
        if self.from_environment { formatter.write_str(MASK) } else { self.values.fmt(formatter) }?;
        write!(formatter, " at {}", self.place)
    }
}

/// A `[[listen]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The whole address as a value of the option `listen`: the options of the section are its scheme and its query.
    pub address: Item,
    /// The options of the section.
    pub options: Vec<Item>,
    /// The place of the section.
    pub place: Place,
}

/// An `[app.NAME]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppSection {
    /// The name: letters, digits, `-`, `_`, `.`; at most 64 bytes.
    pub name: String,
    /// The place of the section.
    pub place: Place,
    /// The URLs of the upstreams that answer in place of an app; empty for an app.
    pub proxy: Vec<String>,
    /// The file of the app; `None` for a proxy.
    pub file: Option<NamedPath>,
    /// The language, if the file gives one.
    pub language: Option<Text>,
    /// The working directory, if the file gives one.
    pub directory: Option<NamedPath>,
    /// Variables of the environment that the app gets.
    pub environment: Vec<Item>,
    /// The options of the app alone; see [`ConfigFile::options_of`].
    pub options: Vec<Item>,
    /// The [options of its language](crate::LANGUAGE_OPTIONS), by their names there.
    pub language_options: Vec<Item>,
    /// Whether the section has no mistake.
    pub is_sound: bool,
    /// The first names of its options whose values are unknown, because they have mistakes.
    pub faulty: Vec<&'static str>,
}

/// A `[[route]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteSection {
    /// The name, if the file gives one.
    pub name: Option<Text>,
    /// The place of the section.
    pub place: Place,
    /// The conditions. A request must meet all of them.
    pub conditions: Match,
    /// The new path of these requests, which they get before the action.
    pub rewrite: Option<Text>,
    /// The answer to these requests.
    pub action: Action,
    /// The changes of requests and responses, and those of `[defaults]`.
    pub filters: Filters,
}

/// The filters of a route. `None`: not in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filters {
    /// The changes of request fields, for apps.
    pub request_fields: Option<FieldChanges>,
    /// The changes of response fields.
    pub response_fields: Option<ResponseFields>,
    /// The rule for requests of other origins; `Some(None)`: switched off.
    pub cors: Option<Option<Cors>>,
    /// The rule for compression; `Some(None)`: switched off.
    pub compression: Option<Option<Compression>>,
    /// The contents of the server's own errors.
    pub error_pages: Option<Vec<ErrorPage>>,
    /// The rule by which requests need a user and a password, or the consent of an app; `Some(None)`: switched off.
    pub auth: Option<Option<Auth>>,
    /// The limits. Routes that have the same one, from `[defaults]`, share its counts.
    pub limits: Option<Vec<Limit>>,
    /// The rules of the cache; `Some(None)`: switched off.
    pub cache: Option<Option<Cache>>,
}

/// The rules by which responses of apps are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// The rules of the route.
    pub rules: Rules,
    /// The memory for stored responses of the server, in bytes. The largest number of all routes counts.
    pub size: u64,
}

/// The rule by which requests may go on to the action of their route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Auth {
    /// They need a user and a password.
    Passwords(Passwords),
    /// An app is asked.
    Ask(Ask),
}

/// The rule by which an app is asked whether requests may go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The name of an app in the file.
    pub app: Text,
    /// The path of the question; begins with `/`, and may have a query.
    pub path: String,
    /// The fields of the answer that the action gets.
    pub fields: Vec<String>,
}

/// The rule by which requests need a user and a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passwords {
    /// The file of users; joined like a [`NamedPath`].
    pub htpasswd: PathBuf,
    /// The name of the protected part.
    pub realm: String,
    /// Whether hashes that can be guessed quickly are accepted.
    pub weak: bool,
    /// Whether the app also gets the field Authorization.
    pub keep: bool,
    /// A field in which the app gets the user beside REMOTE_USER.
    pub field: Option<String>,
    /// The place of the file.
    pub place: Place,
}

/// A limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The place of the table.
    pub place: Place,
    /// The limited number.
    pub of: LimitOf,
    /// The requests that count together.
    pub by: LimitBy,
    /// Whether requests over the limit are only logged.
    pub dry_run: bool,
}

/// The file with the content of the server's own errors of a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorPage {
    /// From 400 to 599.
    pub status: u16,
    /// The file; joined like a [`NamedPath`].
    pub file: PathBuf,
    /// The place of the status.
    pub place: Place,
}

/// The conditions of a route. An empty list of patterns is met by every request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Match {
    /// Host names, without a port: `example.com`, `*.example.com`.
    pub host: Vec<Pattern>,
    /// Paths, in which `*` is any text: `/api/*`.
    pub path: Vec<Pattern>,
    /// Methods: `GET`.
    pub method: Vec<Pattern>,
    /// IP addresses and networks of clients: `10.0.0.0/8`.
    pub source: Vec<Pattern>,
    /// Addresses at which requests arrive, with ports: `10.0.0.1:443`, `*:8080`, `unix`.
    pub destination: Vec<Pattern>,
    /// `http` or `https`.
    pub scheme: Vec<Pattern>,
    /// Fields of the request by their names, with patterns for their values.
    pub field: Vec<(String, Vec<Pattern>)>,
    /// Parameters of the query by their names, with patterns for their values.
    pub query: Vec<(String, Vec<Pattern>)>,
}

/// A pattern of a condition. A value meets a condition if it fits one of the patterns without `!` (or if there are none), and
/// none of those with `!`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Whether `!` stood before the text.
    pub negated: bool,
    /// The text without `!`.
    pub text: Text,
}

/// The answer of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// `app`: the app answers.
    App {
        /// The name of an app in the file.
        name: Text,
        /// The prefix of the path that becomes the app's `SCRIPT_NAME`; begins with `/` and does not end with it.
        mount: Option<Text>,
    },
    /// `files`: files of a directory.
    Files {
        /// The directory; joined like a [`NamedPath`].
        root: PathBuf,
        /// The files that are looked for, one after the other, with `$uri` for the path of the request; empty: the one at that
        /// path.
        candidates: Vec<Text>,
        /// The action if there is no such file.
        fallback: Option<Box<Self>>,
        /// The files for a directory, as `--index` takes them; `None`: its default.
        index: Option<Item>,
        /// Whether a directory without these is listed; `None`: the option `listing` says it.
        listing: Option<bool>,
        /// The media types of files that are sent; empty: all.
        types: TypePatterns,
    },
    /// `redirect`: another URL.
    Redirect {
        /// The URL, or a path that begins with `/`.
        to: Text,
        /// 301, 302, 303, 307 or 308; 302 if the file gives none.
        status: u16,
    },
    /// None, but `rewrite`: the routes decide again, about the changed path.
    Again,
    /// `respond`: a fixed response.
    Respond {
        /// From 200 to 599; 200 if the file gives none.
        status: u16,
        /// The content; empty if the file gives none.
        content: Option<Text>,
        /// The `Content-Type`, if the file gives one.
        content_type: Option<Text>,
    },
}
