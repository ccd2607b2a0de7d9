//! Puts load on a web server by many connections in one thread, and checks every answer. `--help` has the options. The text
//! below the options describes how another program can control this one by its standard input.

#![forbid(unsafe_code)]

mod connection;
mod histogram;
mod load;
mod options;
mod pace;
mod probe;
mod response;
mod tally;
mod target;

use load::Load;
use options::{Options, Order};
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    match run(&Options::from_command_line()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("oribi-load: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the load. Returns whether there were no faults.
fn run(options: &Options) -> Result<bool, String> {
    let mut load = Load::new(options)?;
    load.open()?;
    load.run(options.warm_up, options.rate)?;
    load.reset();
    say("ready")?;
    let mut loads = 0;
    while let Some(line) = load.wait_for_line()? {
        let Order { duration, rate } = Order::parse(&line, options)?;
        if loads > 0 {
            load.reset();
        }
        let seconds = load.run(duration, rate)?;
        say(&load.tally.report(seconds, load.open_connections()))?;
        loads += 1;
    }
    Ok(load.tally.faults() == 0)
}

fn say(line: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|e| format!("standard output: {e}"))
}
