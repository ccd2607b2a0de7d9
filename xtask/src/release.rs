//! The parts of a release that no other tool makes: one version everywhere, and source that can be built without this repository.

mod command;
mod core;
mod manifest;
mod version;

use std::fs;
use std::path::Path;
use std::process::Command;

pub use core::write as write_core;
pub use version::{check as check_version, of as version_of, set as set_version};

/// Sets the version everywhere, and builds all that a release consists of into `dist/`.
///
/// # Errors
/// CHANGELOG.md has no section for the version, or a step fails.
pub fn release(root: &Path, version: &str) -> Result<(), String> {
    let changes = fs::read_to_string(root.join("CHANGELOG.md")).map_err(|error| format!("CHANGELOG.md: {error}"))?;
    if !changes.lines().any(|line| line.starts_with(&format!("## [{version}]"))) {
        return Err(format!("CHANGELOG.md has no section \"## [{version}]\": rename \"## [Unreleased]\" and date it"));
    }
    set_version(root, version)?;
    let status = Command::new("make").arg("dist").current_dir(root).status().map_err(|error| format!("make: {error}"))?;
    if status.success() { Ok(()) } else { Err("make dist failed".to_owned()) }
}
