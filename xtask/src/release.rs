//! What a release needs that no other tool makes: one version everywhere, and source that can be built without this repository.

mod command;
mod core;
mod manifest;
mod version;

pub use core::write as write_core;
pub use version::{check as check_version, of as version_of, set as set_version};
