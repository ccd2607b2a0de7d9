//! The plan of `oribi check` for a Lua app: the server's plan, and the settings of the Lua host.

use crate::options::LuaOptions;
use crate::planned_setting::PlannedSetting;
use oribi_lua::script_path::ScriptSource;
use oribi_lua::{LuaSetting, LuaSettings, Style, built_in, table};
use oribi_server::config::{Plan, Resolved};
use std::path::Path;

/// The plan for Lua scripts.
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

impl LuaPlan<'_> {
    /// The server's plan.
    pub fn of_server(&self) -> Plan<'_> {
        let app = match &self.settings.source {
            ScriptSource::One(_) => self.app.display().to_string(),
            ScriptSource::DocumentRoot { .. } => format!("the scripts below {}", self.app.display()),
            ScriptSource::Gateway { .. } => "the scripts that the web server names by SCRIPT_FILENAME".to_owned(),
        };
        let style = self.style.map_or_else(String::new, |style| format!(", in the style of {}", spelled(style)));
        Plan::new(app, format!("Lua: {}{style}", built_in()), self.resolved)
    }

    /// The settings of the Lua host.
    pub fn settings(&self) -> Vec<PlannedSetting> {
        let defaults = LuaSettings::new(self.settings.source.clone());
        let grown = self.settings.states > self.before_threads.states || self.settings.clones > self.before_threads.clones;
        let planned = |setting: &LuaSetting| {
            let (name, value) = (setting.name, setting.show(self.settings));
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
            let is_changed = origin != "default" && (setting.default_words.is_some() || value != setting.show(&defaults));
            let (value, default) = (Some(value), Some(setting.default_text()));
            PlannedSetting { section: "Lua", name, value, origin, default, is_changed }
        };
        table().iter().map(planned).collect()
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
