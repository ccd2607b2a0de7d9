//! `oribi ctl health`: reports by its exit status whether a server is ready, for health checks of containers and for scripts.

use super::asking::ask_within;
use super::{read, tables};
use crate::trouble::Trouble;
use clap::{Arg, ArgMatches, Command};
use oribi_control_api::{Answer, Health, Order};
use oribi_server::config::value::duration;
use std::path::Path;
use std::time::Duration;

/// The time for the whole check without `--timeout`. Health checks often have a limit of a few seconds.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The beginning of the reason by which a server that does not know this order refuses it.
const UNKNOWN_ORDER: &str = "unknown order";

/// Asks the server at `path`, and prints the answer. Returns the exit status.
///
/// # Errors
/// The server cannot be reached, does not answer in time, or is older than this order.
pub fn run(path: &Path, arguments: &ArgMatches) -> Result<u8, Trouble> {
    let time = arguments.get_one::<Duration>("timeout").copied().unwrap_or(TIMEOUT);
    let answer = ask_within(path, &Order::Health, time, true)?;
    let health: Health = match read(Answer::parse(&answer))? {
        Answer::Done(health) => health,
        Answer::Failed(failure) if failure.reason().starts_with(UNKNOWN_ORDER) => {
            return Err(Trouble::failure(
                "the server is older than `oribi ctl health`, and cannot answer: `oribi ctl status` shows its state",
            ));
        }
        Answer::Failed(failure) => return Err(Trouble::failure(tables::harmless_lines(failure.reason()))),
    };
    if arguments.get_flag("json") {
        crate::print(&answer)?
    } else {
        crate::print(&tables::health(&health))?
    };
    Ok(if health.ready { 0 } else { Trouble::FAILED })
}

/// Adds the options of this order.
pub fn options(command: Command) -> Command {
    let time = |text: &str| match duration(text)? {
        Duration::ZERO => Err("expected a time above zero".to_owned()),
        time => Ok(time),
    };
    command.arg(
        Arg::new("timeout")
            .long("timeout")
            .value_name("TIME")
            .value_parser(time)
            .help("The time for the whole check, such as 500ms or 5s [default: 2s]"),
    )
}
