//! The configuration file of luafcgid: a Lua script that is run once, and whose globals are the settings.
//!
//! The script runs in a state of its own, which lives as long as the hooks that it defines. If the file is missing or broken,
//! luafcgid's built-in defaults are used, and a note reports the reason.

mod keys;

use crate::hooks::Hooks;
use crate::script_path::ScriptSource;
use crate::search_paths::operators_state;
use crate::settings::{ConfigValue, LuaSettings};
use keys::KEYS;
use mlua::{Lua, Table, Value};
use oribi_server::config::masked;
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The file that is read if none is named.
pub const DEFAULT_FILE: &str = "config.lua";

/// The content of a configuration file of luafcgid.
#[derive(Debug)]
pub struct SeedConfiguration {
    /// The path of the configuration file.
    pub file: PathBuf,
    /// The settings of the file for the Lua host, with luafcgid's built-in defaults.
    pub lua: LuaSettings,
    /// The settings of the file for the server: name and value.
    pub server: Vec<(&'static str, String)>,
    /// Whether the server runs in the background.
    pub daemonize: bool,
    /// The names that the file has given values.
    pub given: Vec<String>,
    /// Notes for the user: invalid values, unknown names, an unusable file.
    pub notes: Vec<String>,
    /// The hooks of the file, which hold the state in which the file was run; or the reason why they cannot be used.
    pub hooks: Result<Hooks, String>,
}

/// The configuration while the globals are read.
pub(crate) struct Draft {
    pub lua: LuaSettings,
    pub server: Vec<(&'static str, String)>,
    pub daemonize: bool,
}

impl SeedConfiguration {
    /// Runs a configuration file. A failure is not an error: see [`SeedConfiguration::notes`].
    #[must_use]
    pub fn read(file: &Path) -> Self {
        let state = operators_state();
        let mut notes = Vec::new();
        let mut given = Vec::new();
        let known = names(&state.globals());
        match run(&state, file) {
            Ok(()) => given = globals(&state.globals(), &known),
            Err(why) => {
                let name = file.to_string_lossy();
                notes.push(format!("{}: {why}; the built-in defaults of luafcgid are used", masked(&name)));
            }
        }
        let mut draft = defaults();
        for key in KEYS {
            let value = given.iter().find(|(name, _)| name == key.name).map_or(Value::Nil, |(_, value)| value.clone());
            apply(key, &value, &mut draft, file, &mut notes);
        }
        note_unknown(&given, file, &mut notes);
        remember(&given, &mut draft.lua);
        adopt_package(&state, &mut draft.lua);
        let value = given.iter().find(|(name, _)| name == "hooks").map_or(Value::Nil, |(_, value)| value.clone());
        let directory = file.parent().unwrap_or(Path::new(""));
        let hooks = Hooks::read(&state, &value, directory).map_err(|why| format!("{}: {why}", file.display()));
        let Draft { mut lua, server, daemonize } = draft;
        if let Ok(hooks) = &hooks {
            lua.hooks = hooks.scripts.clone();
        }
        let given = given.into_iter().map(|(name, _)| name).collect();
        Self { file: file.to_owned(), lua, server, daemonize, given, notes, hooks }
    }
}

/// luafcgid's settings without a configuration file.
fn defaults() -> Draft {
    let mut lua = LuaSettings::new(ScriptSource::Gateway { root: None });
    lua.show_errors = true;
    // One process with threads, like luafcgid.
    let server = vec![("workers", "1".to_owned())];
    Draft { lua, server, daemonize: false }
}

fn run(state: &Lua, file: &Path) -> Result<(), String> {
    let text = fs::read(file).map_err(|error| format!("cannot read it: {error}"))?;
    // As in Lua itself, a first line that begins with # is for the shell.
    let text = if text.starts_with(b"#") { [b"--", &text[..]].concat() } else { text };
    let name = format!("@{}", file.display());
    state
        .load(text)
        .set_name(name)
        .set_mode(mlua::chunk::ChunkMode::Text)
        .exec()
        .map_err(|error| in_one_line(&error.to_string()))
}

/// An error of Lua without its traceback.
fn in_one_line(message: &str) -> String {
    let message = message.split("\nstack traceback:").next().unwrap_or_default();
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn names(globals: &Table) -> HashSet<String> {
    globals.pairs::<mlua::LuaString, Value>().flatten().map(|(name, _)| name.to_string_lossy()).collect()
}

/// The globals that the file has defined, sorted by name.
fn globals(globals: &Table, known: &HashSet<String>) -> Vec<(String, Value)> {
    let pairs = globals.pairs::<mlua::LuaString, Value>().flatten().map(|(name, value)| (name.to_string_lossy(), value));
    let mut given: Vec<_> = pairs.filter(|(name, _)| !known.contains(name)).collect();
    given.sort_by(|(left, _), (right, _)| left.cmp(right));
    given
}

/// Puts the value of a key into the draft: the file's if it is valid, or else luafcgid's default.
fn apply(key: &keys::Key, value: &Value, draft: &mut Draft, file: &Path, notes: &mut Vec<String>) {
    if !value.is_nil() {
        match key.take(value, draft) {
            Ok(()) => return,
            Err(why) => {
                let shown = masked(&show(value)).into_owned();
                notes.push(format!("{}: bad value {shown} for {}: {why}; the default is used", file.display(), key.name));
            }
        }
    }
    key.take_default(draft);
}

fn show(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{:?}", text.to_string_lossy()),
        Value::Integer(number) => number.to_string(),
        Value::Number(number) => number.to_string(),
        Value::Boolean(on) => on.to_string(),
        other => format!("({})", other.type_name()),
    }
}

/// An unknown name is a typing error, or a variable without `local`. Functions are ignored.
fn note_unknown(given: &[(String, Value)], file: &Path, notes: &mut Vec<String>) {
    for (name, value) in given {
        let known = KEYS.iter().any(|key| key.name == name) || name == "hooks" || matches!(value, Value::Function(_));
        if !known {
            notes.push(format!("{}: the name {} means nothing here", file.display(), name.escape_debug()));
        }
    }
}

/// Keeps all simple values, for `con:config(name)`.
fn remember(given: &[(String, Value)], lua: &mut LuaSettings) {
    let mut configuration: Vec<(String, ConfigValue)> =
        KEYS.iter().filter_map(|key| Some((key.name.to_owned(), key.default_value()?))).collect();
    for (name, value) in given {
        let value = match value {
            Value::Boolean(on) => ConfigValue::Boolean(*on),
            Value::Integer(number) => ConfigValue::Integer(whole(*number)),
            Value::Number(number) => ConfigValue::Number(*number),
            Value::String(text) => ConfigValue::Text(text.as_bytes().to_vec()),
            _ => continue,
        };
        configuration.retain(|(known, _)| known != name);
        configuration.push((name.clone(), value));
    }
    lua.configuration = configuration;
}

#[allow(clippy::unnecessary_cast, reason = "mlua's integer has another size where Lua has no integers")]
fn whole(number: mlua::Integer) -> i64 {
    number as i64
}

/// A file's `package.path` also applies to the scripts.
fn adopt_package(state: &Lua, lua: &mut LuaSettings) {
    let text =
        |state: &Lua, name: &str| state.globals().get::<Table>("package").and_then(|package| package.get::<String>(name)).ok();
    // A state in which nothing is run, for the unchanged values.
    let pristine = operators_state();
    let changed = |name: &str| text(state, name).filter(|value| Some(value) != text(&pristine, name).as_ref());
    lua.package_path = changed("path");
    lua.package_cpath = changed("cpath");
}

#[cfg(test)]
mod tests;
