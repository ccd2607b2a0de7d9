//! `oribi schema`: prints the JSON schema of `oribi.toml`, by which editors complete and check the file.

use crate::shipped::schema;
use crate::trouble::{Trouble, explain};
use std::ffi::OsString;

/// The name of this command, as the first argument.
pub const SCHEMA: &str = "schema";

/// Prints the schema.
pub fn run(arguments: Vec<OsString>) -> Result<u8, Trouble> {
    match schema().try_get_matches_from(arguments) {
        Ok(_) => crate::print(&oribi_config_file::schema()),
        Err(said) => Ok(explain(&said)),
    }
}
