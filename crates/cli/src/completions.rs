//! `oribi completions SHELL`: prints a script by which a shell completes commands, options, orders and files of `oribi`.

mod bash;
mod fish;
mod zsh;

use crate::shipped::completions;
use crate::trouble::{Trouble, explain};
use std::ffi::OsString;

/// The name of this command, as the first argument.
pub const COMPLETIONS: &str = "completions";

/// Prints the script.
pub fn run(arguments: Vec<OsString>) -> Result<u8, Trouble> {
    let matches = match completions().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(said) => return Ok(explain(&said)),
    };
    let script = match matches.get_one::<String>("SHELL").map(String::as_str) {
        Some("zsh") => zsh::script(),
        Some("fish") => fish::script(),
        _ => bash::script(),
    };
    crate::print(&script)
}
