//! A line of a plan.

use serde::Serialize;

/// A setting of the server or of a host.
#[derive(Clone, Debug, Serialize)]
pub struct PlannedSetting {
    /// The heading of its group.
    pub section: &'static str,
    pub name: &'static str,
    /// The value in a form that can be set again; `None` if there is none.
    pub value: Option<String>,
    /// The origin of the value, in words.
    pub origin: String,
    /// The default in words; `None` if it is no value.
    pub default: Option<String>,
    /// Whether it was set to a value other than the default.
    #[serde(skip)]
    pub is_changed: bool,
}
