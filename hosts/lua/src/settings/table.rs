//! The table of the Lua host's flags, from which `--help`, `oribi check` and docs/options.md are made.

use super::LuaSettings;
use crate::script_path::ScriptSource;
use oribi_server::config::value::{
    boolean, count, duration_or_off, limit, show_duration, show_limit, show_size, show_switch, size,
};
use oribi_server::config::{masked, quoted};
use std::time::Duration;

/// The most states of a process that a user may set: more is a typing error.
const STATES: u64 = 65536;
/// More would not be retries but a wait, which has a limit of its own.
const RETRIES: u64 = 1000;
/// The least memory of a state: with Lua's own libraries it has used 100 KiB before its script is loaded, 64-bit, either Lua.
const LEAST_MEMORY: u64 = 256 << 10;

/// One flag of the Lua host.
pub struct LuaSetting {
    /// The name of the flag, with `-` between words.
    pub name: &'static str,
    /// The placeholder for the flag's value in a usage text; empty for a switch, which needs no value.
    pub placeholder: &'static str,
    /// The description of the flag, with the unit of its value, and without its default.
    pub help: &'static str,
    /// The description of a default that depends on another setting.
    pub default_words: Option<&'static str>,
    apply: fn(&mut LuaSettings, &str) -> Result<(), String>,
    show: fn(&LuaSettings) -> String,
}

impl LuaSetting {
    /// Parses `text` and puts the value into the settings.
    ///
    /// # Errors
    /// A message that says which values are valid.
    pub fn set(&self, settings: &mut LuaSettings, text: &str) -> Result<(), String> {
        (self.apply)(settings, text).map_err(|why| format!("bad value `{}` for {}: {}", quoted(text), self.name, masked(&why)))
    }

    /// Formats the value in the settings so that [`LuaSetting::set`] can parse it.
    #[must_use]
    pub fn show(&self, settings: &LuaSettings) -> String {
        (self.show)(settings)
    }

    /// The default in words: `1s`, `off`.
    #[must_use]
    pub fn default_text(&self) -> String {
        self.default_words.map_or_else(|| self.show(&LuaSettings::new(ScriptSource::Gateway { root: None })), str::to_owned)
    }

    /// Whether the flag is a switch, which needs no value.
    #[must_use]
    pub const fn is_switch(&self) -> bool {
        self.placeholder.is_empty()
    }
}

/// All flags, in the order of `--help`.
#[must_use]
pub fn table() -> &'static [LuaSetting] {
    TABLE
}

static TABLE: &[LuaSetting] = &[
    LuaSetting {
        name: "states",
        placeholder: "NUMBER",
        help: "The most states of a worker, for all scripts and threads together",
        default_words: Some("5, or as many as there are threads"),
        apply: |settings, text| count(text, 1..=STATES).map(|number| settings.states = number as usize),
        show: |settings| settings.states.to_string(),
    },
    LuaSetting {
        name: "clones",
        placeholder: "NUMBER",
        help: "The most states of a worker that hold the same script; at most --states",
        default_words: Some("3, or as many as there are threads"),
        apply: |settings, text| count(text, 1..=STATES).map(|number| settings.clones = number as usize),
        show: |settings| settings.clones.to_string(),
    },
    LuaSetting {
        name: "sweep",
        placeholder: "TIME",
        help: "Interval at which a worker looks for changed files and unused states; 0 is never",
        default_words: None,
        apply: |settings, text| duration_or_off(text).map(|time| settings.sweep = time),
        show: |settings| show_duration(settings.sweep),
    },
    LuaSetting {
        name: "retries",
        placeholder: "NUMBER",
        help: "How often, a millisecond apart, a request looks for an idle state of its script before it loads another one",
        default_words: None,
        apply: |settings, text| count(text, 0..=RETRIES).map(|number| settings.retries = number as u32),
        show: |settings| settings.retries.to_string(),
    },
    LuaSetting {
        name: "state-memory",
        placeholder: "SIZE",
        help: "The most memory of a state; a script that needs more fails; 0 is no limit",
        default_words: None,
        apply: |settings, text| {
            settings.state_memory = match text.trim() {
                "0" | "off" => None,
                _ => Some(size(text, LEAST_MEMORY..=u64::from(u32::MAX) << 10)?),
            };
            Ok(())
        },
        show: |settings| settings.state_memory.map_or_else(|| "off".to_owned(), show_size),
    },
    LuaSetting {
        name: "state-requests",
        placeholder: "NUMBER",
        help: "Replace a state after this many requests; 0 is never",
        default_words: None,
        apply: |settings, text| limit(text).map(|number| settings.state_requests = number),
        show: |settings| show_limit(settings.state_requests),
    },
    LuaSetting {
        name: "time-limit",
        placeholder: "TIME",
        help: "Time for a script to answer a request before it is interrupted and the client gets a 504; 0 is no limit",
        default_words: None,
        apply: |settings, text| {
            let time = duration_or_off(text)?;
            settings.time_limit = (time > Duration::ZERO).then_some(time);
            Ok(())
        },
        show: |settings| settings.time_limit.map_or_else(|| "off".to_owned(), show_duration),
    },
    LuaSetting {
        name: "handler",
        placeholder: "NAME",
        help: "The global function that answers requests in scripts in the style of luafcgid",
        default_words: None,
        apply: |settings, text| function_name(text).map(|name| settings.handler = name),
        show: |settings| settings.handler.clone(),
    },
    LuaSetting {
        name: "show-errors",
        placeholder: "",
        help: "Show clients what went wrong in a script, instead of a plain 500",
        default_words: Some("off; on with -E development"),
        apply: |settings, text| boolean(text).map(|on| settings.show_errors = on),
        show: |settings| show_switch(settings.show_errors),
    },
];

/// The name of a global: any text is a valid key of Lua's table of globals, but only an identifier is a name in Lua's syntax.
pub(crate) fn function_name(text: &str) -> Result<String, String> {
    let first = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let fits = text.bytes().next().is_some_and(first) && text.bytes().all(|byte| first(byte) || byte.is_ascii_digit());
    if fits { Ok(text.to_owned()) } else { Err("expected the name of a global function".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaults() -> LuaSettings {
        LuaSettings::new(ScriptSource::Gateway { root: None })
    }

    fn setting(name: &str) -> &'static LuaSetting {
        TABLE.iter().find(|setting| setting.name == name).expect("a row")
    }

    #[test]
    fn what_is_shown_can_be_set_again() {
        for setting in TABLE {
            let mut settings = defaults();
            setting.set(&mut settings, &setting.show(&defaults())).expect(setting.name);
            assert_eq!(settings, defaults(), "{}", setting.name);
        }
    }

    #[test]
    fn values() {
        for (name, text, shown) in [
            ("states", "40", "40"),
            ("clones", "1", "1"),
            ("sweep", "500ms", "500ms"),
            ("sweep", "0", "0"),
            ("retries", "0", "0"),
            ("state-memory", "16m", "16MiB"),
            ("state-memory", "0", "off"),
            ("state-requests", "1000", "1000"),
            ("state-requests", "0", "off"),
            ("time-limit", "1.5", "1500ms"),
            ("time-limit", "0", "off"),
            ("handler", "answer_2", "answer_2"),
            ("show-errors", "on", "on"),
        ] {
            let mut settings = defaults();
            setting(name).set(&mut settings, text).expect(name);
            assert_eq!(setting(name).show(&settings), shown, "{name}");
        }
    }

    #[test]
    fn what_does_not_fit() {
        for (name, text) in [
            ("states", "0"),
            ("states", "many"),
            ("sweep", "-1"),
            ("retries", "1001"),
            ("state-memory", "1k"),
            ("time-limit", "soon"),
            ("handler", ""),
            ("handler", "2nd"),
            ("handler", "a.b"),
            ("show-errors", "perhaps"),
        ] {
            let mut settings = defaults();
            let why = setting(name).set(&mut settings, text).expect_err(name);
            assert!(why.starts_with(&format!("bad value `{text}` for {name}: expected")), "{why}");
            assert_eq!(settings, defaults());
        }
    }
}
