//! A row of the table of settings.

use super::settings::Settings;

/// The headings under which `--help` and `oribi check` group the settings, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// The addresses of the listeners.
    Listening,
    /// Processes and threads, and their lives.
    Workers,
    /// Processes that own the connections and run no app.
    Edges,
    /// WebSockets and event streams that edges own.
    WebSockets,
    /// Deadlines for clients, apps and workers.
    Timeouts,
    /// Limits for the requests of clients.
    Limits,
    /// Parts of requests that apps get.
    Requests,
    /// Additions of the server to responses.
    Responses,
    /// Files that are served without an app.
    Files,
    /// Logs, and the files of the server itself.
    Logs,
}

impl Section {
    /// The text of the heading.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Listening => "Listening",
            Self::Workers => "Workers and threads",
            Self::Edges => "Edges",
            Self::WebSockets => "WebSockets and event streams",
            Self::Timeouts => "Timeouts",
            Self::Limits => "Limits",
            Self::Requests => "Requests",
            Self::Responses => "Responses",
            Self::Files => "Files",
            Self::Logs => "Logs and files",
        }
    }
}

/// Where a setting may stand in `oribi.toml`: a setting belongs to the server if the first process, edges or all listeners
/// together use it, and to an app if its mold or its workers use it, or if edges use it for each app by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In `[server]` only.
    Server,
    /// In `[[listen]]` as a part of one address, or in `[server]` for all addresses.
    Listener,
    /// In `[app.NAME]`, or in `[server]` as the default of all apps.
    App,
}

impl Scope {
    /// The tables in which such a setting may stand.
    #[must_use]
    pub const fn tables(self) -> &'static str {
        match self {
            Self::Server => "[server]",
            Self::Listener => "[[listen]] or [server]",
            Self::App => "[app.NAME] or [server]",
        }
    }
}

/// The settings while texts are applied one after the other.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(crate) settings: Settings,
    /// CPUs that this process may use, for `auto`.
    pub(crate) processors: usize,
    pub(crate) host: Option<String>,
    pub(crate) port: Option<u16>,
}

impl Draft {
    /// The defaults, for a process that may use this many CPUs.
    pub(super) fn new(processors: usize) -> Self {
        let settings = Settings { workers: processors.into(), ..Settings::default() };
        Self { settings, processors, host: None, port: None }
    }
}

/// Applies a text to the draft, or returns the expected form.
pub(super) type Apply = fn(&mut Draft, &str) -> Result<(), String>;

/// A setting, with all of its properties in one place, so that flags, options of plackup, `oribi check` and the manual agree.
pub struct Setting {
    /// Its name, with `-` between words.
    pub name: &'static str,
    /// Its names in other servers.
    pub aliases: &'static [&'static str],
    /// Names with the opposite meaning, for a switch.
    pub opposites: &'static [&'static str],
    /// A flag of one letter.
    pub short: Option<char>,
    /// The environment variable that sets it if no flag does.
    pub environment: Option<&'static str>,
    /// The heading of its group.
    pub section: Section,
    /// Where it may stand in `oribi.toml`.
    pub scope: Scope,
    /// The placeholder for its value in a usage text; empty for a switch, which needs no value.
    pub placeholder: &'static str,
    /// The description with its unit, without its default.
    pub help: &'static str,
    /// A description of the default if it depends on the machine or on other settings.
    pub(crate) default_words: Option<&'static str>,
    /// The character between values in one text; `None` if a text is one value.
    pub separator: Option<char>,
    pub(super) apply: Apply,
    /// The value as text, in a form that `apply` accepts; `None` for a shorthand that only sets other settings.
    show: Option<fn(&Settings) -> String>,
    /// The same for a setting that collects values: a text for each value.
    pub(super) show_each: Option<fn(&Settings) -> Vec<String>>,
}

impl Setting {
    /// A setting of the scope [`Scope::Server`].
    pub(super) const fn server(name: &'static str, section: Section, placeholder: &'static str, help: &'static str) -> Self {
        Self::new(Scope::Server, name, section, placeholder, help)
    }

    /// A setting of the scope [`Scope::Listener`].
    pub(super) const fn listener(name: &'static str, section: Section, placeholder: &'static str, help: &'static str) -> Self {
        Self::new(Scope::Listener, name, section, placeholder, help)
    }

    /// A setting of the scope [`Scope::App`].
    pub(super) const fn app(name: &'static str, section: Section, placeholder: &'static str, help: &'static str) -> Self {
        Self::new(Scope::App, name, section, placeholder, help)
    }

    const fn new(scope: Scope, name: &'static str, section: Section, placeholder: &'static str, help: &'static str) -> Self {
        Self {
            name,
            aliases: &[],
            opposites: &[],
            short: None,
            environment: None,
            section,
            scope,
            placeholder,
            help,
            default_words: None,
            separator: None,
            apply: |_, _| Ok(()),
            show: None,
            show_each: None,
        }
    }

    /// The character between the values of a list in one text.
    pub(super) const fn separator(mut self, separator: char) -> Self {
        self.separator = Some(separator);
        self
    }

    pub(super) const fn aliases(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    pub(super) const fn opposites(mut self, opposites: &'static [&'static str]) -> Self {
        self.opposites = opposites;
        self
    }

    pub(super) const fn short(mut self, short: char) -> Self {
        self.short = Some(short);
        self
    }

    pub(super) const fn environment(mut self, variable: &'static str) -> Self {
        self.environment = Some(variable);
        self
    }

    pub(super) const fn default_words(mut self, words: &'static str) -> Self {
        self.default_words = Some(words);
        self
    }

    pub(super) const fn apply(mut self, apply: Apply) -> Self {
        self.apply = apply;
        self
    }

    pub(super) const fn show(mut self, show: fn(&Settings) -> String) -> Self {
        self.show = Some(show);
        self
    }

    pub(super) const fn shows_each(mut self, show: fn(&Settings) -> Vec<String>) -> Self {
        self.show_each = Some(show);
        self
    }

    /// Whether it may be given several times and collects its values.
    #[must_use]
    pub const fn repeats(&self) -> bool {
        self.show_each.is_some()
    }

    /// The environment variable of this setting alone, beside the one that other programs know. `None` for host and port, which are
    /// only a part of an address: `ORIBI_LISTEN` is for all of it.
    #[must_use]
    pub fn own_variable(&self) -> Option<String> {
        let variable = format!("ORIBI_{}", self.name.to_uppercase().replace('-', "_"));
        let is_known = self.environment == Some(variable.as_str()) || matches!(self.name, "host" | "port");
        (!is_known).then_some(variable)
    }

    /// The values as texts that can be set again: several only for a setting that collects them; none for a shorthand.
    #[must_use]
    pub fn values_in(&self, settings: &Settings) -> Vec<String> {
        match (self.show, self.show_each) {
            (_, Some(show_each)) => show_each(settings),
            (Some(show), None) => vec![show(settings)],
            (None, None) => Vec::new(),
        }
    }

    /// The value as text; `None` for a shorthand.
    pub(super) fn show_in(&self, settings: &Settings) -> Option<String> {
        match (self.show, self.show_each) {
            (Some(show), _) => Some(show(settings)),
            (None, Some(show_each)) => Some(show_each(settings).join(" ")),
            (None, None) => None,
        }
    }

    /// Whether it is on or off, and needs no value.
    #[must_use]
    pub const fn is_switch(&self) -> bool {
        self.placeholder.is_empty()
    }

    /// Whether it only sets other settings and has no value of its own.
    #[cfg(test)]
    pub(crate) const fn is_shorthand(&self) -> bool {
        self.show.is_none() && self.show_each.is_none()
    }

    /// The default in words: `32KiB`, `off`, `the CPUs that the process may use`. `None` for a shorthand.
    #[must_use]
    pub fn default_text(&self) -> Option<String> {
        match self.default_words {
            Some(words) => Some(words.to_owned()),
            None => self.show_in(Settings::defaults()),
        }
    }
}
