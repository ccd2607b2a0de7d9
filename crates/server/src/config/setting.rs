//! What a row of the table of settings says, and how names are compared.

use super::settings::Settings;
use super::table::TABLE;

/// The headings that `--help` and `oribi check` group the settings under, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// Where to listen.
    Listening,
    /// Processes and threads, and how long they live.
    Workers,
    /// Deadlines.
    Timeouts,
    /// Bounds of what a client may send or hold.
    Limits,
    /// What apps get of requests.
    Requests,
    /// What is added to responses.
    Responses,
    /// Files that are served without an app.
    Files,
    /// Logs and files.
    Logs,
}

impl Section {
    /// The heading.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Listening => "Listening",
            Self::Workers => "Workers and threads",
            Self::Timeouts => "Timeouts",
            Self::Limits => "Limits",
            Self::Requests => "Requests",
            Self::Responses => "Responses",
            Self::Files => "Files",
            Self::Logs => "Logs and files",
        }
    }
}

/// What is being put together while settings are applied one after the other.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub settings: Settings,
    /// CPUs that this process may use, for `auto`.
    pub processors: usize,
    pub host: Option<String>,
    pub port: Option<u16>,
}

/// Puts a text into the draft, or says what would have fitted.
pub(super) type Apply = fn(&mut Draft, &str) -> Result<(), String>;

/// One setting: everything that is known of it, so that flags, options of plackup, `oribi check` and the manual agree.
pub struct Setting {
    /// Its name, with `-` between words.
    pub name: &'static str,
    /// Other names that users of other servers know it by.
    pub aliases: &'static [&'static str],
    /// Names that mean the opposite, of a switch.
    pub opposites: &'static [&'static str],
    /// A flag of one letter.
    pub short: Option<char>,
    /// The environment variable that sets it where no flag does.
    pub environment: Option<&'static str>,
    /// The heading that it stands under.
    pub section: Section,
    /// What to write for its value in a usage text; empty: a switch, which needs no value.
    pub placeholder: &'static str,
    /// What it does, with its unit; without its default.
    pub help: &'static str,
    /// What to say for the default where it depends on the machine or on other settings.
    pub default_words: Option<&'static str>,
    pub(super) apply: Apply,
    /// The text of its value, which `apply` would read; `None` for a shorthand that only sets other settings.
    show: Option<fn(&Settings) -> String>,
    /// The same of one that may be given several times, each time adding: a text for each.
    pub(super) show_each: Option<fn(&Settings) -> Vec<String>>,
}

impl Setting {
    pub(super) const fn new(name: &'static str, section: Section, placeholder: &'static str, help: &'static str) -> Self {
        Self {
            name,
            aliases: &[],
            opposites: &[],
            short: None,
            environment: None,
            section,
            placeholder,
            help,
            default_words: None,
            apply: |_, _| Ok(()),
            show: None,
            show_each: None,
        }
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

    /// Whether it may be given several times, each time adding.
    #[must_use]
    pub const fn repeats(&self) -> bool {
        self.show_each.is_some()
    }

    /// The text of its value; `None` for a shorthand.
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
    #[must_use]
    pub const fn is_shorthand(&self) -> bool {
        self.show.is_none() && self.show_each.is_none()
    }

    /// The default in words: `32KiB`, `off`, `the CPUs that the process may use`. `None` for a shorthand.
    #[must_use]
    pub fn default_text(&self) -> Option<String> {
        match self.default_words {
            Some(words) => Some(words.to_owned()),
            None => self.show_in(&Settings::default()),
        }
    }
}

/// All settings, in the order of `--help`.
#[must_use]
pub fn table() -> &'static [Setting] {
    TABLE
}

/// A name as it is compared: `max-reqs`, `max_reqs`, `MaxReqs` and `MAX-REQS` are the same.
pub(super) fn squash(name: &str) -> String {
    name.chars().filter(|character| !matches!(character, '-' | '_')).map(|character| character.to_ascii_lowercase()).collect()
}

/// The row that a name belongs to, and whether the name means its opposite.
pub(super) fn find(name: &str) -> Option<(usize, bool)> {
    let name = squash(name);
    TABLE.iter().enumerate().find_map(|(index, setting)| {
        let opposite = || setting.opposites.iter().any(|candidate| squash(candidate) == name);
        if names(setting).any(|candidate| squash(candidate) == name) {
            return Some((index, false));
        }
        opposite().then_some((index, true))
    })
}

/// The known name that is closest to an unknown one, if one is close enough to be meant.
pub(super) fn suggest(name: &str) -> Option<&'static str> {
    let wanted = squash(name);
    let tolerated = (wanted.chars().count() / 3).min(3);
    TABLE
        .iter()
        .flat_map(|setting| names(setting).chain(setting.opposites.iter().copied()))
        .map(|candidate| (distance(&wanted, &squash(candidate)), candidate))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, _)| *distance <= tolerated)
        .map(|(_, candidate)| candidate)
}

/// The name of a setting and its other names.
fn names(setting: &Setting) -> impl Iterator<Item = &'static str> {
    std::iter::once(setting.name).chain(setting.aliases.iter().copied())
}

/// How many letters must be put in, left out or changed to make one word from the other (Levenshtein).
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, letter) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, other) in right.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn every_name_belongs_to_one_setting() {
        let mut seen = HashMap::new();
        for setting in table() {
            for (name, inverted) in
                names(setting).map(|name| (name, false)).chain(setting.opposites.iter().map(|&name| (name, true)))
            {
                let other = seen.insert(squash(name), setting.name).unwrap_or(setting.name);
                assert_eq!(other, setting.name, "{name} is there twice");
                assert_eq!(name, name.to_ascii_lowercase(), "{name}");
                assert!(!name.contains('_'), "{name} needs no `_`: both are the same");
                assert_eq!(find(name).map(|(index, inverted)| (table()[index].name, inverted)), Some((setting.name, inverted)));
            }
            assert!(setting.is_switch() || setting.opposites.is_empty(), "{} has no opposite", setting.name);
        }
        let mut letters: Vec<char> = table().iter().filter_map(|setting| setting.short).collect();
        let count = letters.len();
        letters.sort_unstable();
        letters.dedup();
        assert_eq!(letters.len(), count, "a letter is there twice");
    }

    #[test]
    fn names_are_compared_without_regard_to_dashes_and_case() {
        for (name, canonical, inverted) in [
            ("max_reqs_per_child", "max-requests", false),
            ("MaxRequestPerChild", "max-requests", false),
            ("max-workers", "workers", false),
            ("nproc", "workers", false),
            ("BackLog", "backlog", false),
            ("disable_keepalive", "disable-keepalive", false),
            ("no-keepalive", "disable-keepalive", false),
            ("keepalive", "disable-keepalive", true),
            ("enable_keepalive", "disable-keepalive", true),
        ] {
            let found = find(name).map(|(index, inverted)| (table()[index].name, inverted));
            assert_eq!(found, Some((canonical, inverted)), "{name}");
        }
        for name in ["", "-", "disable-workers", "worker s", "no"] {
            assert_eq!(find(name), None, "{name}");
        }
    }

    #[test]
    fn suggestions_are_close() {
        assert_eq!(suggest("worker"), Some("workers"));
        assert_eq!(suggest("max_reqs_per_chld"), Some("max-reqs-per-child"));
        assert_eq!(suggest("acces-log"), Some("access-log"));
        assert_eq!(suggest("zzzzzz"), None);
        assert_eq!(suggest("x"), None);
    }

    #[test]
    fn sections_stand_together() {
        let sections: Vec<Section> = table().iter().map(|setting| setting.section).collect();
        assert!(sections.is_sorted(), "{sections:?}");
    }
}
