//! Settings that contradict each other, or that this machine cannot have.

use super::error::SettingError;
use super::origin::Origin;

/// The options that decide which addresses are encrypted, and how.
pub(super) const ENCRYPTION: &[&str] = &[
    "listen",
    "socket",
    "host",
    "port",
    "protocol",
    "ssl",
    "ssl-cert",
    "ssl-key",
    "ssl-ocsp",
    "ssl-ca",
    "ssl-verify-client",
    "acme",
    "acme-challenge",
];

/// A mistake that is seen only when all settings are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// The setting and the reason.
    pub error: SettingError,
    /// The first name of the setting; empty if only a variable of the environment is known.
    pub name: &'static str,
    /// The origin of the value.
    pub origin: Origin,
    /// The other settings that decide about it, by their first names.
    pub with: &'static [&'static str],
}

/// The contradictions that were found so far, without their origins.
#[derive(Debug, Default)]
pub(super) struct Contradictions(pub Vec<(SettingError, &'static [&'static str])>);

impl Contradictions {
    /// Adds a setting with its value and the reason; `with` has the other settings that decide.
    pub fn add(&mut self, name: &str, value: impl Into<String>, why: impl Into<String>, with: &'static [&'static str]) {
        self.0.push((SettingError::bad(name, value, why), with));
    }
}
