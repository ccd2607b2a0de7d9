//! The bench's own flags.

use crate::cell;
use crate::rounds::Plan;
use clap::{Arg, ArgAction, Command, value_parser};
use std::path::PathBuf;

/// The cells of `--quick`: one of each kind.
const QUICK: [&str; 6] = ["keep-alive-64", "short", "body-64k", "upload-1m", "stream", cell::SYSTEM_CALLS];

/// The options of the user.
#[derive(Debug)]
pub struct Options {
    /// The cells and counts to do, in any order.
    pub cells: Vec<String>,
    /// The set-ups to measure; none means all.
    pub servers: Option<Vec<String>>,
    /// Rounds and their length.
    pub plan: Plan,
    /// The directory of the results; none means `bench/results/DATE-MACHINE`.
    pub out: Option<PathBuf>,
    /// The program under test; none means that of `make build`.
    pub oribi: Option<PathBuf>,
    /// Whether to continue without the servers that are not installed.
    pub allow_missing: bool,
}

impl Options {
    /// Reads the command line. Ends the program after a request for help or a mistake, whose text it prints.
    pub fn from_command_line() -> Options {
        let matches = command().get_matches();
        let quick = matches.get_flag("quick");
        let list = |name: &str| matches.get_many::<String>(name).map(|values| values.cloned().collect::<Vec<_>>());
        let all = if quick { QUICK.to_vec() } else { cell::names() };
        let seconds = matches.get_one::<u64>("seconds").copied();
        let rounds = matches.get_one::<u64>("rounds").copied();
        Options {
            cells: list("cells").unwrap_or_else(|| all.iter().map(|name| (*name).to_owned()).collect()),
            servers: list("servers"),
            plan: Plan {
                rounds: usize::try_from(rounds.unwrap_or(if quick { 2 } else { 5 })).unwrap_or(usize::MAX),
                seconds: seconds.unwrap_or(if quick { 1 } else { 3 }),
            },
            out: matches.get_one::<PathBuf>("out").cloned(),
            oribi: matches.get_one::<PathBuf>("oribi").cloned(),
            allow_missing: matches.get_flag("allow-missing"),
        }
    }
}

fn command() -> Command {
    let value = |name: &'static str, shown: &'static str| Arg::new(name).long(name).value_name(shown);
    Command::new("oribi-bench")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Measures Oribi beside nginx and the servers of Perl and Ruby: CPU time per request, and its ratio to nginx")
        .after_help(format!("Cells and counts: {}.\nServers: one for each file in bench/servers.", cell::names().join(", ")))
        .arg(
            value("cells", "NAME,...")
                .value_delimiter(',')
                .value_parser(cell::names())
                .hide_possible_values(true)
                .help("Only these cells and counts [default: all]"),
        )
        .arg(
            value("servers", "NAME,...")
                .value_delimiter(',')
                .help("Only these servers; nginx always takes part, the ratios are against it [default: all]"),
        )
        .arg(
            value("rounds", "NUMBER")
                .value_parser(value_parser!(u64).range(1..=100))
                .help("How often each server is loaded in each cell [default: 5]"),
        )
        .arg(
            value("seconds", "NUMBER")
                .value_parser(value_parser!(u64).range(1..=60))
                .help("For how long each time [default: 3]"),
        )
        .arg(
            Arg::new("quick")
                .long("quick")
                .action(ArgAction::SetTrue)
                .help("2 rounds of 1 second, one cell of each kind, no instruction counts: a look, not a result"),
        )
        .arg(
            value("out", "DIRECTORY")
                .value_parser(value_parser!(PathBuf))
                .help("Where the results go [default: bench/results/DATE-MACHINE]"),
        )
        .arg(
            value("oribi", "PROGRAM")
                .value_parser(value_parser!(PathBuf))
                .help("The program under test [default: target/release/oribi]"),
        )
        .arg(
            Arg::new("allow-missing")
                .long("allow-missing")
                .action(ArgAction::SetTrue)
                .help("Leave out servers that are not installed, instead of failing"),
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_fit_together() {
        command().debug_assert();
        assert!(QUICK.iter().all(|name| cell::is_known(name)));
    }

    #[test]
    fn an_unknown_cell_is_a_mistake() {
        assert!(command().try_get_matches_from(["bench", "--cells", "short,stream"]).is_ok());
        assert!(command().try_get_matches_from(["bench", "--cells", "no-such-cell"]).is_err());
        assert!(command().try_get_matches_from(["bench", "--rounds", "0"]).is_err());
    }
}
