//! Answers like ahttpd: one process, one thread, and the same twelve bytes for every request, with any I/O model.

use crate::trouble::{Trouble, explain};
use crate::verb::arguments_after;
use clap::{Arg, Command, value_parser};
use oribi_host::Native;
use oribi_server::config::{Config, IoModel, ListenAddress, Origin, SettingError, Settings};
use oribi_server::{log, process};
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::Path;

/// The name of this command, as the first argument or as the program's name.
const AHTTPD: &str = "ahttpd";

const CONTENT: &str = "Hello World!";

const USAGE: &str = "ahttpd PORT [--io NAME]";

const AFTER: &str = "\
It listens at PORT on all IPv4 interfaces, with one process and one thread, and answers every valid request with

  HTTP/1.1 200 OK
  Content-Length: 12

  Hello World!

whatever its method (HEAD has no content), its target and the I/O model. It prints once where it listens, logs no
connections, and stops on a signal.";

/// Returns the arguments after the command, with the program's name first. `None` if the command line does not have this
/// command, as the first argument or as the program's name.
pub fn arguments(all: impl IntoIterator<Item = OsString>) -> Option<Vec<OsString>> {
    let arguments: Vec<OsString> = all.into_iter().collect();
    // A link with this name does the same as the command.
    if Path::new(arguments.first()?).file_name() == Some(OsStr::new(AHTTPD)) {
        return Some(arguments);
    }
    arguments_after(AHTTPD, arguments)
}

/// Serves until a signal ends the process.
pub fn run(arguments: Vec<OsString>) -> Result<u8, Trouble> {
    let matches = match command().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(said) => {
            let status = explain(&said);
            if said.use_stderr() && !said.to_string().contains(USAGE) {
                let _ = writeln!(io::stderr(), "Usage: {USAGE}");
            }
            return Ok(status);
        }
    };
    let misunderstood = |error: SettingError| Trouble::usage(format!("{error}\n\nUsage: {USAGE}"));
    let port = matches.get_one::<u16>("PORT").copied().unwrap_or_default();
    let model = matches.get_one::<String>("io").map_or("auto", String::as_str);
    let mut config = Config::new();
    config.set("io", model, Origin::CommandLine).map_err(misunderstood)?;
    let io = config.resolve().map_err(misunderstood)?.settings.io;
    let settings = Settings {
        listen: vec![ListenAddress::tcp("0.0.0.0", port)],
        io,
        server_header: String::new(),
        date: false,
        log_level: ::log::LevelFilter::Warn,
        ..Settings::default()
    };
    log::prepare(&settings).map_err(Trouble::failure)?;
    let announce = |addresses: &[&str], io: &str| {
        // If standard output is closed, there is no reader.
        let _ = writeln!(io::stdout(), "ahttpd: listening on {} ({io})", addresses.join(", "));
    };
    process::serve_alone(&settings, &Native::bare(CONTENT), announce).map_err(Trouble::failure)?;
    Ok(0)
}

/// The grammar of this command.
pub fn command() -> Command {
    Command::new(AHTTPD)
        .about("Answers every request with twelve bytes, to compare I/O models and servers.")
        .override_usage(USAGE)
        .after_help(AFTER)
        .arg(Arg::new("PORT").required(true).value_parser(value_parser!(u16)).help("Port to listen on; 0: any free one"))
        .arg(
            Arg::new("io")
                .long("io")
                .value_name("NAME")
                .help(format!("The I/O model: {}, as in `oribi --io`\n[default: auto]", IoModel::names())),
        )
}
