//! The settings of the Lua host: one typed value for each, with its unit and its default.
//!
//! The flags of `oribi` (`table`) set some of the settings; a configuration file of luafcgid can set all of them
//! ([`seed_configuration`](crate::seed_configuration)).

mod table;

pub(crate) use table::function_name;
pub use table::{LuaSetting, table};

use crate::hooks::ScriptHooks;
use crate::script_path::ScriptSource;
use std::path::PathBuf;
use std::time::Duration;

/// All settings of the Lua host. The names in parentheses are the keys of luafcgid's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LuaSettings {
    /// The origin of the script of a request.
    pub source: ScriptSource,
    /// The environment's name, for the scripts' own use: `production`, `development`.
    pub environment: String,
    /// The most states of a process, for all scripts together (`states`).
    pub states: usize,
    /// The most states of a process with the same script (`clones`). This also limits resources that a script holds in each
    /// state, such as database connections.
    pub clones: usize,
    /// The interval at which the sweep checks for changed files (`sweep`). Zero turns it off.
    pub sweep: Duration,
    /// The number of looks for an idle state of the script before another one is loaded (`retries`).
    pub retries: u32,
    /// Bytes of memory that a state may use; `None` without a limit.
    pub state_memory: Option<u64>,
    /// Requests after which a state is thrown away (`maxcount`); `None` without a limit.
    pub state_requests: Option<u64>,
    /// The time that a script may run for a request (`watchdog`); `None` without a limit.
    pub time_limit: Option<Duration>,
    /// Whether handlers may wait without holding their worker: then each request has a coroutine, and many requests share a
    /// state.
    pub waits: bool,
    /// Whether clients see the details of a script's failure (`showerrors`); otherwise they get a plain 500.
    pub show_errors: bool,
    /// Whether a script's output is buffered until it is flushed (`buffering`); otherwise each piece is sent at once.
    pub buffering: bool,
    /// The global function that answers requests in scripts in the style of luafcgid (`handler`).
    pub handler: String,
    /// The default status line of replies in the style of luafcgid (`httpstatus`), without `HTTP/1.1`.
    pub status: String,
    /// The default content type of replies in the style of luafcgid (`contenttype`).
    pub content_type: String,
    /// Fields that are added to replies in the style of luafcgid (`headers`).
    pub fields: Vec<(String, String)>,
    /// Directories in which `require` looks first, before `package.path` and `package.cpath`.
    pub include: Vec<PathBuf>,
    /// The value of `package.path`, if it replaces Lua's own (or that of LUA_PATH).
    pub package_path: Option<String>,
    /// The value of `package.cpath`, if it replaces Lua's own (or that of LUA_CPATH).
    pub package_cpath: Option<String>,
    /// Functions of the operator that are called in the scripts' states.
    pub hooks: ScriptHooks,
    /// All simple values that the configuration file of luafcgid set, for `con:config(name)`.
    pub configuration: Vec<(String, ConfigValue)>,
}

/// A value that a script may read by `con:config(name)`.
#[derive(Clone, Debug, PartialEq)]
pub enum ConfigValue {
    /// A switch.
    Boolean(bool),
    /// A whole number, which some Luas distinguish from other numbers.
    Integer(i64),
    /// Any other number.
    Number(f64),
    /// A text; in Lua it need not be UTF-8.
    Text(Vec<u8>),
}

// A configuration contains no NaN, because only numbers that equal themselves are stored.
impl Eq for ConfigValue {}

impl LuaSettings {
    /// The defaults, for scripts from `source`.
    #[must_use]
    pub fn new(source: ScriptSource) -> Self {
        Self {
            source,
            environment: "production".to_owned(),
            states: 5,
            // luafcgid used the default of `workers`, which is 3, for any value of `workers`.
            clones: 3,
            sweep: Duration::from_secs(1),
            retries: 2,
            // PHP's default, for which scripts of this kind are dimensioned.
            state_memory: Some(128 << 20),
            state_requests: None,
            // The default of luafcgid, which reads this setting but does not apply it.
            time_limit: Some(Duration::from_secs(60)),
            waits: false,
            show_errors: false,
            buffering: true,
            handler: "main".to_owned(),
            status: "200 OK".to_owned(),
            content_type: "text/html".to_owned(),
            fields: Vec::new(),
            include: Vec::new(),
            package_path: None,
            package_cpath: None,
            hooks: ScriptHooks::default(),
            configuration: Vec::new(),
        }
    }

    /// Sets the environment's name. In `development`, errors are shown; a later setting may change that.
    pub fn set_environment(&mut self, name: &str) {
        name.clone_into(&mut self.environment);
        self.show_errors = name == "development";
    }

    /// Adjusts `states` and `clones` to `threads`, the number of threads of a worker, after all settings have been set. A
    /// worker with more threads than states cannot use all threads at once, so a number that was not given is raised to
    /// `threads`. A script cannot have more states than there are, so `clones` is at most `states`.
    ///
    /// `said` returns whether a value was given for a setting. Returns a warning if a script still has fewer states than the
    /// worker has threads.
    pub fn settle(&mut self, threads: usize, said: impl Fn(&str) -> bool) -> Option<String> {
        if !said("states") {
            self.states = self.states.max(threads);
        }
        if !said("clones") {
            self.clones = self.clones.max(threads);
        }
        self.clones = self.clones.min(self.states);
        let knob = if self.clones < self.states || !said("states") { "clones" } else { "states" };
        (self.clones < threads).then(|| {
            format!(
                "a worker has {threads} threads, but a script has at most {} states in it (--{knob}): no more requests for it are \
                 answered at once, and the other threads wait",
                self.clones
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_shown_in_development_only() {
        let mut settings = LuaSettings::new(ScriptSource::One(PathBuf::from("app.lua")));
        assert!(!settings.show_errors);
        settings.set_environment("development");
        assert!(settings.show_errors);
        settings.set_environment("test");
        assert!(!settings.show_errors);
    }

    #[test]
    fn no_script_has_more_states_than_there_are() {
        let mut settings = LuaSettings::new(ScriptSource::Gateway { root: None });
        settings.states = 2;
        assert_eq!(settings.settle(1, |name| name == "states"), None);
        assert_eq!((settings.states, settings.clones), (2, 2));
    }

    #[test]
    fn threads_have_states_unless_somebody_wants_fewer() {
        let settle = |threads, said: &[(&str, usize)]| {
            let mut settings = LuaSettings::new(ScriptSource::Gateway { root: None });
            for (name, number) in said {
                *(if *name == "states" { &mut settings.states } else { &mut settings.clones }) = *number;
            }
            let told = settings.settle(threads, |name| said.iter().any(|(known, _)| *known == name));
            (settings.states, settings.clones, told)
        };
        assert_eq!(settle(1, &[]), (5, 3, None));
        assert_eq!(settle(4, &[]), (5, 4, None));
        assert_eq!(settle(8, &[]), (8, 8, None));
        assert_eq!(settle(8, &[("states", 20)]), (20, 8, None));
        for (said, states, clones, knob) in [(("clones", 3), 6, 3, "(--clones)"), (("states", 2), 2, 2, "(--states)")] {
            let (found_states, found_clones, told) = settle(6, &[said]);
            assert_eq!((found_states, found_clones), (states, clones));
            let told = told.expect("threads that wait");
            assert!(told.contains("6 threads") && told.contains(&format!("{clones} states")) && told.contains(knob), "{told}");
        }
    }
}
