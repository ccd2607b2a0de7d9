//! The command line.

use crate::target::Target;
use clap::{Arg, Command, value_parser};
use std::time::Duration;

/// The behaviours of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// One request after the other on each connection.
    KeepAlive,
    /// A connection for each request, which says `Connection: close`; the server ends it.
    Short,
    /// Several requests at once on each connection, and again when all are answered.
    Pipelined,
}

/// The options of the user.
#[derive(Debug)]
pub struct Options {
    pub target: Target,
    pub pattern: Pattern,
    /// All connections, and how many of them ask.
    pub connections: usize,
    pub active: usize,
    /// Requests at once when pipelined, otherwise 1.
    pub depth: usize,
    pub path: String,
    /// Bytes of the expected pattern; `None` for the size of the first response.
    pub body: Option<usize>,
    /// Bytes of content in each request; `None` for GET without content.
    pub content: Option<usize>,
    /// Requests per second; `None` if each connection sends the next request at once.
    pub rate: Option<f64>,
    pub warm_up: Duration,
    pub duration: Duration,
    pub sources: u8,
    /// Bytes per second that a connection takes.
    pub reader: Option<f64>,
    /// Bytes per second that a connection sends.
    pub sender: Option<f64>,
    pub timeout: Duration,
}

impl Options {
    /// Reads the command line. Ends the program after a request for help or a mistake, whose text it prints.
    pub fn from_command_line() -> Options {
        let mut command = command();
        let matches = command.get_matches_mut();
        let number = |name: &str| matches.get_one::<u64>(name).map(|&number| number as usize);
        let seconds = |name: &str| matches.get_one::<Duration>(name).copied().unwrap_or_default();
        let per_second = |name: &str| matches.get_one::<f64>(name).copied();
        let pattern = match matches.get_one::<String>("pattern").map(String::as_str) {
            Some("short") => Pattern::Short,
            Some("pipelined") => Pattern::Pipelined,
            _ => Pattern::KeepAlive,
        };
        let connections = number("connections").unwrap_or(1);
        let target = Target::parse(matches.get_one::<String>("address").map_or("", String::as_str)).unwrap_or_else(|why| {
            command.error(clap::error::ErrorKind::InvalidValue, why).exit();
        });
        Options {
            target,
            pattern,
            connections,
            active: number("active").unwrap_or(connections).min(connections),
            depth: if pattern == Pattern::Pipelined { number("depth").unwrap_or(1) } else { 1 },
            path: matches.get_one::<String>("path").cloned().unwrap_or_default(),
            body: number("body"),
            content: number("content"),
            rate: per_second("rate"),
            warm_up: seconds("warm-up"),
            duration: seconds("seconds"),
            sources: matches.get_one::<u8>("sources").copied().unwrap_or(0),
            reader: per_second("reader"),
            sender: per_second("sender"),
            timeout: seconds("timeout"),
        }
    }

    /// Whether clients send or receive slowly, so that the end of a load does not wait for them.
    pub fn is_slow(&self) -> bool {
        self.reader.is_some() || self.sender.is_some()
    }
}

/// The command in a line on standard input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Order {
    pub duration: Duration,
    /// As [`Options::rate`].
    pub rate: Option<f64>,
}

impl Order {
    /// Parses `SECONDS RATE`, or `SECONDS` for a load as fast as possible. `go` and an empty line stand for the options.
    ///
    /// # Errors
    /// The line is none of these.
    pub fn parse(line: &str, options: &Options) -> Result<Order, String> {
        let told = |e: String| format!("standard input: {:?}: {e}", line.trim());
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [] | ["go"] => Ok(Order { duration: options.duration, rate: options.rate }),
            [seconds] => Ok(Order { duration: duration(seconds).map_err(told)?, rate: None }),
            [seconds, rate] => {
                Ok(Order { duration: duration(seconds).map_err(told)?, rate: Some(positive(rate).map_err(told)?) })
            }
            _ => Err(told("expected SECONDS and perhaps a rate".to_owned())),
        }
    }
}

fn positive(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if number.is_finite() && number > 0.0 { Ok(number) } else { Err("must be above 0".to_owned()) }
}

fn duration(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|_| "not a time in seconds".to_owned())
}

fn command() -> Command {
    let value =
        |name: &'static str, shown: &'static str, help: &'static str| Arg::new(name).long(name).value_name(shown).help(help);
    let count = |name, help| value(name, "NUMBER", help).value_parser(value_parser!(u64).range(1..));
    Command::new("oribi-load")
        .version(env!("CARGO_PKG_VERSION"))
        // Scripts add to their usual options.
        .args_override_self(true)
        .about("Puts load on a web server, checks every byte of its answers and measures how long they take")
        .after_help(
            "Opens its connections, prints `ready`, waits for a line on standard input, loads, prints a line of JSON, and keeps \
             its connections until standard input ends. Each further line has them loaded again. A line says `go`, or \
             SECONDS for as fast as it goes, or SECONDS and RATE. Errors are counted from the start of the program, the rest \
             for each load. Exits 1 if anything was wrong.",
        )
        .arg(value("address", "IP:PORT|unix:PATH", "Where the server listens").required(true))
        .arg(
            value("pattern", "NAME", "What clients do")
                .value_parser(["keep-alive", "short", "pipelined"])
                .default_value("keep-alive"),
        )
        .arg(count("connections", "Connections, those that are idle among them").default_value("64"))
        .arg(count("active", "Connections that ask; the others are idle, after one request each [default: all]"))
        .arg(count("depth", "Requests at once on a connection, with --pattern pipelined").default_value("16"))
        .arg(value("path", "PATH", "What is asked for").default_value("/"))
        .arg(
            value("body", "BYTES", "Expect so many bytes of `abc...z` over and over [default: those of the first response]")
                .value_parser(value_parser!(u64)),
        )
        .arg(
            value("content", "BYTES", "Send a POST with so many bytes of content instead of a GET")
                .value_parser(value_parser!(u64)),
        )
        .arg(
            value("rate", "PER-SECOND", "Requests are due at this rate, whatever the answers take [default: as fast as they go]")
                .value_parser(positive),
        )
        .arg(value("warm-up", "SECONDS", "Load before `ready`").value_parser(duration).default_value("0"))
        .arg(value("seconds", "SECONDS", "How long to load").value_parser(duration).default_value("3"))
        .arg(
            value("sources", "NUMBER", "Connect from so many addresses, 127.0.0.2 and on: 28,000 connections fit on each")
                .value_parser(value_parser!(u8).range(1..=250)),
        )
        .arg(value("reader", "PER-SECOND", "Connections take so many bytes a second").value_parser(positive))
        .arg(value("sender", "PER-SECOND", "Connections send so many bytes a second").value_parser(positive))
        .arg(
            value("timeout", "SECONDS", "Without any progress for so long, a request has failed")
                .value_parser(duration)
                .default_value("10"),
        )
}
