//! The output of `oribi check` for a Lua app: the server's plan, and below it a table of the Lua host's settings.

use crate::options::LuaOptions;
use oribi_lua::script_path::ScriptSource;
use oribi_lua::{LuaSettings, Style, built_in, table};
use oribi_server::config::{Plan, Resolved};
use std::fmt;
use std::path::Path;

/// The plan for Lua scripts. Its `Display` is a text of several lines for users.
pub struct LuaPlan<'a> {
    pub app: &'a Path,
    /// The style of the script, if there is only one.
    pub style: Option<Style>,
    pub settings: &'a LuaSettings,
    /// The settings before `--env` and the other flags are applied.
    pub before: &'a LuaSettings,
    /// The settings after `--env` is applied.
    pub in_environment: &'a LuaSettings,
    /// The settings after all flags are applied. Differences between these and `settings` follow from other settings.
    pub before_threads: &'a LuaSettings,
    pub options: &'a LuaOptions,
    /// The configuration file, if there is one.
    pub file: Option<&'a Path>,
    pub resolved: &'a Resolved,
}

impl fmt::Display for LuaPlan<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let app = match &self.settings.source {
            ScriptSource::One(_) => self.app.display().to_string(),
            ScriptSource::DocumentRoot { .. } => format!("the scripts below {}", self.app.display()),
            ScriptSource::Gateway { .. } => "the scripts that the web server names by SCRIPT_FILENAME".to_owned(),
        };
        let style = self.style.map_or_else(String::new, |style| format!(", in the style of {}", spelled(style)));
        Plan { app, language: format!("Lua: {}{style}", built_in()), resolved: self.resolved }.fmt(formatter)?;
        writeln!(formatter, "\nLua:")?;
        let defaults = LuaSettings::new(self.settings.source.clone());
        let width = table().iter().map(|setting| setting.name.len()).max().unwrap_or(0);
        let values: Vec<String> = table().iter().map(|setting| setting.show(self.settings)).collect();
        let width_of_values = values.iter().map(|value| value.chars().count()).max().unwrap_or(0);
        for (setting, value) in table().iter().zip(values) {
            let name = setting.name;
            let grown = self.settings.states > self.before_threads.states || self.settings.clones > self.before_threads.clones;
            let origin = if self.options.given.iter().any(|(given, _)| *given == name) {
                "command line".to_owned()
            } else if value != setting.show(self.before_threads) {
                // The number of clones is limited by the number of states, and that depends on the threads.
                (if grown { "--threads" } else { "--states" }).to_owned()
            } else if value != setting.show(self.in_environment) {
                "command line".to_owned()
            } else if value != setting.show(self.before) {
                "--env".to_owned()
            } else {
                match self.file {
                    Some(file) if value != setting.show(&defaults) => file.display().to_string(),
                    _ => "default".to_owned(),
                }
            };
            writeln!(formatter, "  {name:<width$}  {value:<width_of_values$}  {origin}")?;
        }
        Ok(())
    }
}

fn spelled(style: Style) -> &'static str {
    match style {
        Style::Oribi => "Oribi: a function of the request",
        Style::Wsapi => "WSAPI: run(env)",
        Style::Luafcgid => "luafcgid: main(env, con)",
        Style::LuafcgidFirst => "luafcgid: handler()",
    }
}
