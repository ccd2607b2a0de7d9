//! What the command line says of an app: what to do with it, and how to run it.

use std::ffi::OsString;
use std::path::PathBuf;

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Serve,
    Check,
    Version,
}

/// What the command line says of how to run the app.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Directories to look for modules in.
    pub include: Vec<OsString>,
    /// Perl modules to load before the app.
    pub modules: Vec<String>,
    /// Ruby libraries to load before the app.
    pub requires: Vec<OsString>,
    /// What the app is told it runs in: `deployment`, `production`.
    pub environment: Option<String>,
    /// The configuration file to read, instead of the one that would be found; `-` for none.
    pub config: Option<PathBuf>,
    /// The perl to run.
    pub perl: Option<OsString>,
    /// The ruby to run.
    pub ruby: Option<OsString>,
    /// What concerns Lua apps only.
    pub lua: LuaOptions,
}

/// What the command line says that concerns Lua apps only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LuaOptions {
    /// What was given for flags of the Lua host, in the order of their table.
    pub given: Vec<(&'static str, String)>,
    /// Whether the paths of requests lead to scripts, and below which directory if not below the app.
    pub document_root: Option<Option<PathBuf>>,
    /// Which Lua.
    pub version: Option<String>,
    /// A file that returns hooks.
    pub hooks: Option<PathBuf>,
}

impl LuaOptions {
    /// Makes sure that an app of another language is not told what means nothing to it.
    ///
    /// # Errors
    /// Which flag it was.
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
