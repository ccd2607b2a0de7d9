//! `oribi manual PAGE`: prints a manual page, made from the same grammars and tables of settings as `--help`.

mod pages;
mod roff;

use crate::shipped::manual;
use crate::trouble::{Trouble, explain};
use std::ffi::OsString;

/// The name of this command, as the first argument.
pub const MANUAL: &str = "manual";

/// Prints the page.
pub fn run(arguments: Vec<OsString>) -> Result<u8, Trouble> {
    let matches = match manual().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(said) => return Ok(explain(&said)),
    };
    let page = match matches.get_one::<String>("PAGE").map(String::as_str) {
        Some("oribi-ctl") => pages::ctl(),
        Some("oribi-top") => pages::top(),
        _ => pages::oribi(),
    };
    crate::print(&page)
}
