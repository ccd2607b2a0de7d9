//! The options that concern the app: the mode, and the way to run it.

use crate::plan::PlanForm;
use std::ffi::OsString;
use std::path::PathBuf;

/// The mode of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Serve,
    /// Run the server in the background.
    Daemonize,
    /// Print the plan, and serve nothing.
    Check(PlanForm),
    Version,
}

/// The options that determine how to run the app.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Directories to search for modules.
    pub include: Vec<OsString>,
    /// Perl modules to load before the app.
    pub modules: Vec<String>,
    /// Ruby libraries to load before the app.
    pub requires: Vec<OsString>,
    /// The name of the environment that the app runs in: `deployment`, `production`.
    pub environment: Option<String>,
    /// The configuration file to read instead of the default one; `-` for none.
    pub config: Option<PathBuf>,
    /// The perl to run.
    pub perl: Option<OsString>,
    /// The ruby to run.
    pub ruby: Option<OsString>,
    /// Flags for Lua apps only.
    pub lua: LuaOptions,
}

/// Flags for Lua apps only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LuaOptions {
    /// The flags of the Lua host that were given, with their values, in the order of the table of these flags.
    pub given: Vec<(&'static str, String)>,
    /// The directory with the scripts, if the path of a request chooses its script. `Some(None)` stands for the path of the
    /// app, or for the current directory if there is none. `None` if one script answers all requests.
    pub document_root: Option<Option<PathBuf>>,
    /// The Lua to use; `None` for the one that is built into this program.
    pub version: Option<String>,
    /// A file that returns hooks, if any.
    pub hooks: Option<PathBuf>,
}

impl LuaOptions {
    /// Refuses flags that have no meaning for the app's language, whose name is `title`.
    ///
    /// # Errors
    /// The first such flag.
    pub fn refuse(&self, title: &str) -> Result<(), String> {
        let root = self.document_root.as_ref().map(|_| "document-root");
        let version = self.version.as_ref().map(|_| "lua");
        let hooks = self.hooks.as_ref().map(|_| "hooks");
        match self.given.first().map(|(name, _)| *name).or(root).or(version).or(hooks) {
            Some(name) => Err(format!("--{name} is for Lua apps, and this is a {title} app")),
            None => Ok(()),
        }
    }
}
