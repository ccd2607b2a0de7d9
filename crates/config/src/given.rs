//! A text for a setting, with its origin and the name that was used.

use super::error::SettingError;
use super::origin::Origin;
use super::setting::Draft;
use super::table::table;

/// One text for one setting.
#[derive(Clone, Debug)]
pub(super) struct Given {
    /// The index of the row in the table.
    pub row: usize,
    /// The name or alias in the input.
    pub name: String,
    pub text: String,
    /// Whether the text turns the switch off instead of on.
    pub inverted: bool,
    pub origin: Origin,
}

impl Given {
    pub(super) fn apply(&self, draft: &mut Draft) -> Result<(), SettingError> {
        let setting = &table()[self.row];
        let bad = |why| SettingError::bad(&self.name, &self.text, why);
        if self.inverted {
            let on = super::value::boolean(&self.text).map_err(bad)?;
            return (setting.apply)(draft, if on { "off" } else { "on" }).map_err(bad);
        }
        (setting.apply)(draft, &self.text).map_err(bad)
    }
}

/// The index of the row of a setting that is in the table (a test checks this).
pub(super) fn row(name: &str) -> usize {
    table().iter().position(|setting| setting.name == name).unwrap_or(usize::MAX)
}
