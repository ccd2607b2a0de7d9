//! The study's own flags.

use crate::rounds::Plan;
use clap::{Arg, ArgAction, Command, value_parser};
use std::path::PathBuf;

/// The default method of measurement.
pub const USUAL: Plan = Plan { rounds: 5, seconds: 0.3 };
/// With `--quick`.
const QUICK: Plan = Plan { rounds: 2, seconds: 0.1 };

/// The options of the user.
pub enum Job {
    /// To measure.
    Measure(Options),
    /// To make the report from raw results: where they are, and the directory of `io-models.md`.
    Report(PathBuf, Option<PathBuf>),
    /// To list the cells and the rows.
    List,
}

/// The method of measurement.
#[derive(Debug)]
pub struct Options {
    /// Only cells and rows whose name holds one of these; none means all.
    pub only: Vec<String>,
    /// Rounds and their length.
    pub plan: Plan,
    /// One cell of each kind.
    pub quick: bool,
    /// Whether to continue from raw results that are there.
    pub resume: bool,
    /// The directory of the raw results; none means `bench/study/results/DATE-MACHINE`.
    pub out: Option<PathBuf>,
    /// The directory of the programs; none means that of `make study`.
    pub programs: Option<PathBuf>,
    /// Whether to continue without the rows that are not there.
    pub allow_missing: bool,
    /// Whether to make the report at the end.
    pub report: bool,
}

impl Job {
    /// Reads the command line. Ends the program after a request for help or a mistake, whose text it prints.
    pub fn from_command_line() -> Job {
        let matches = command().get_matches();
        let path = |matches: &clap::ArgMatches, name: &str| matches.get_one::<PathBuf>(name).cloned();
        if let Some(report) = matches.subcommand_matches("report") {
            return Job::Report(path(report, "DIRECTORY").unwrap_or_default(), path(report, "docs"));
        }
        if matches.subcommand_matches("list").is_some() {
            return Job::List;
        }
        let quick = matches.get_flag("quick");
        let usual = if quick { QUICK } else { USUAL };
        let rounds = matches.get_one::<u64>("rounds").map(|rounds| usize::try_from(*rounds).unwrap_or(usize::MAX));
        Job::Measure(Options {
            only: matches.get_many::<String>("only").map(|values| values.cloned().collect()).unwrap_or_default(),
            plan: Plan {
                rounds: rounds.unwrap_or(usual.rounds),
                seconds: matches.get_one::<f64>("seconds").copied().unwrap_or(usual.seconds),
            },
            quick,
            resume: matches.get_flag("resume"),
            out: path(&matches, "out"),
            programs: path(&matches, "programs"),
            allow_missing: matches.get_flag("allow-missing"),
            report: matches.get_flag("report"),
        })
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.05..=60.0).contains(&seconds) { Ok(seconds) } else { Err("expected 0.05 to 60".to_owned()) }
}

fn command() -> Command {
    let value = |name: &'static str, shown: &'static str| Arg::new(name).long(name).value_name(shown);
    let directory = |arg: Arg| arg.value_parser(value_parser!(PathBuf));
    let flag = |name: &'static str, help: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    Command::new("oribi-study")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Compares I/O and network models inside Oribi, beside bare loops and other servers")
        .args_conflicts_with_subcommands(true)
        .arg(value("only", "PATTERN,...").value_delimiter(',').help(
            "Only cells whose name holds one of these, as in keep-alive-256 or -unix; several parts with + between them must all \
             be there [default: all]",
        ))
        .arg(
            value("rounds", "NUMBER")
                .value_parser(value_parser!(u64).range(1..=100))
                .help("How often each server is loaded in each cell; eight times as often where targets are stated [default: 5]"),
        )
        .arg(value("seconds", "NUMBER").value_parser(seconds).help("For how long each time [default: 0.3]"))
        .arg(flag("quick", "2 rounds of 0.1 seconds in one cell of each kind: to see that all works, not a result"))
        .arg(flag("resume", "Go on where an interrupted study stopped: cells that are whole are kept"))
        .arg(directory(value("out", "DIRECTORY")).help("Where the raw results go [default: bench/study/results/DATE-MACHINE]"))
        .arg(directory(value("programs", "DIRECTORY")).help("Where the built programs are [default: target/study/release]"))
        .arg(flag("allow-missing", "Leave out rows whose program is not there, instead of failing"))
        .arg(flag("report", "Make docs/io-models.md from the results at the end"))
        .subcommand(
            Command::new("report")
                .about("Makes io-models.md and its pictures from raw results, without measuring")
                .arg(directory(Arg::new("DIRECTORY")).required(true).help("The raw results"))
                .arg(directory(value("docs", "DIRECTORY")).help("Where io-models.md goes [default: docs]")),
        )
        .subcommand(Command::new("list").about("Lists the cells, those that are left out with the reason, and the rows"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_fit_together() {
        command().debug_assert();
        assert!(command().try_get_matches_from(["oribi-study", "--seconds", "0"]).is_err());
        assert!(command().try_get_matches_from(["oribi-study", "report"]).is_err());
        assert!(command().try_get_matches_from(["oribi-study", "--quick", "--only", "short,unix"]).is_ok());
    }
}
