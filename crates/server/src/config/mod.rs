//! What the server is told to do, and where each word of it came from.
//!
//! One table (`table`) says everything that is known of a setting: its names, its environment variable, its help and how its
//! text is read. A [`Config`] collects texts with their [`Origin`]; [`Config::finish`] makes [`Settings`] of them.

mod address;
mod counted;
pub(crate) mod cpus;
mod error;
mod given;
mod names;
mod origin;
mod plan;
mod protective;
mod resolve;
mod setting;
mod settings;
mod table;
pub mod value;

pub(crate) use counted::counted;
pub use error::SettingError;
pub use origin::Origin;
pub use plan::Plan;
pub use resolve::{Explained, Resolved};
pub use setting::{Section, Setting};
pub use settings::{AcceptModel, AccessFormat, IoModel, Limits, ListenAddress, LogTarget, Place, Protocol, Settings, Timeouts};
pub use table::table;

use given::Given;
use names::{find, squash, suggest};
use setting::Draft;

/// What the server was told, and by whom: settings are collected here, then [finished](Config::finish).
///
/// The order of calls does not matter between origins: the command line wins over the environment, and that over the default.
#[derive(Clone, Debug)]
pub struct Config {
    given: Vec<Given>,
    processors: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self::new()
    }
}

impl Config {
    /// What the environment says (`PORT`, `HOST`, `WEB_CONCURRENCY`, `TMPDIR`), and nothing else yet.
    #[must_use]
    pub fn new() -> Self {
        let variable = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
        Self::with(variable, cpus::allowed())
    }

    /// As [`Config::new`], with another environment and another number of CPUs.
    #[must_use]
    pub fn with(environment: impl Fn(&str) -> Option<String>, processors: usize) -> Self {
        let mut given = Vec::new();
        for (row, setting) in table().iter().enumerate() {
            let Some(variable) = setting.environment else { continue };
            // An empty variable is how many tools say that there is none.
            if let Some(text) = environment(variable).filter(|text| !text.trim().is_empty()) {
                let origin = Origin::Environment(variable);
                given.push(Given { row, name: variable.to_owned(), text, inverted: false, origin });
            }
        }
        Self { given, processors }
    }

    /// Takes one setting by any of its names, with `_` or `-` between words. One that may be given several times adds.
    ///
    /// # Errors
    /// The name is unknown, or the value does not fit; then nothing has changed.
    pub fn set(&mut self, name: &str, value: &str, origin: Origin) -> Result<(), SettingError> {
        let Some((row, inverted)) = find(name) else {
            if let Some(instead) = protective::instead_of(&squash(name), value) {
                return Err(SettingError::Protective { name: name.to_owned(), instead });
            }
            return Err(SettingError::Unknown { name: name.to_owned(), suggestion: suggest(name) });
        };
        let given = Given { row, name: name.to_owned(), text: value.to_owned(), inverted, origin };
        given.apply(&mut Draft::new(self.processors))?;
        self.given.push(given);
        Ok(())
    }

    /// The settings that follow from all that was given.
    ///
    /// # Errors
    /// A value of the environment does not fit, or two settings contradict each other.
    pub fn finish(&self) -> Result<Settings, SettingError> {
        self.resolve().map(|resolved| resolved.settings)
    }

    /// As [`Config::finish`], with where each value came from.
    ///
    /// # Errors
    /// As [`Config::finish`].
    pub fn resolve(&self) -> Result<Resolved, SettingError> {
        Resolved::new(&self.given, Draft::new(self.processors))
    }
}
