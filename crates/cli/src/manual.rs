//! `oribi manual PAGE`: prints a manual page, made from the same grammars and tables of settings as `--help`.

mod pages;
mod roff;

use crate::shipped::manual;
use crate::trouble::{Trouble, explain};
use std::ffi::OsString;

/// The name of this command, as the first argument.
const MANUAL: &str = "manual";

/// Returns the arguments after the command, with the program's name first; `None` if the command line does not have this
/// command.
pub fn arguments(all: impl IntoIterator<Item = OsString>) -> Option<Vec<OsString>> {
    let mut arguments: Vec<OsString> = all.into_iter().collect();
    (arguments.get(1)? == MANUAL).then(|| {
        arguments.remove(1);
        arguments
    })
}

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
