//! The command that loads an app, as the master executes it.

use super::privileges::Privileges;
use super::{inheritance, notify};
use oribi_config::Settings;
use std::process::Command;

/// Gives the process that loads an app the rights of its user, and none of the variables of this process.
///
/// # Errors
/// There is no such user.
pub(super) fn prepare_mold(settings: &Settings, mold: &mut Command) -> Result<(), String> {
    Privileges::of_workers(settings)?.drop_in(mold);
    inheritance::OWN.iter().chain(&notify::VARIABLES).for_each(|variable| _ = mold.env_remove(variable));
    Ok(())
}
