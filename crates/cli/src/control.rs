//! `oribi ctl`: queries a running server and sends it orders.
//!
//! It writes one line to the server's control socket and reads one line of JSON. The exit status is 0 if the server has carried
//! out the order. It is 1 if the order has failed, the server cannot be reached or is not ready (`health`). It is 2 if the
//! command line is invalid or does not say which of several servers is meant.

mod asking;
pub mod backtraces;
mod health;
mod tables;

pub use asking::ask;

use crate::trouble::{Trouble, explain};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use oribi_control_api::{Answer, AppOrder, Done, NotJson, Order, Server, Stopped, WorkerTarget, servers_to_json};
use oribi_server::control::{Found, find};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The name of this command, as the first argument.
pub const CTL: &str = "ctl";

const USAGE: &str = "oribi ctl ORDER [--control PATH | --pid PID] [--json]";

const AFTER: &str = "\
Without --control and --pid, the server at $ORIBI_CONTROL is used, or else the only running server of this user;
for root, services of other users count as well.

Exit status:
  0  done, or ready (health); 1  failed, not ready, or the server cannot be reached;
  2  invalid command line, or several servers are running";

/// Sends the order and prints the response.
pub fn run(arguments: Vec<OsString>) -> Result<u8, Trouble> {
    let matches = match command().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(said) => return Ok(explain(&said)),
    };
    let Some((order, arguments)) = matches.subcommand() else { return list(&matches) };
    if order == "apply" || order == "purge" {
        let order = if order == "apply" { apply(arguments)? } else { purge(arguments) };
        return show(&order, &ask(&socket(arguments)?, &order)?, arguments.get_flag("json"));
    }
    let (order, arguments) = match arguments.subcommand() {
        Some((act, inner)) => {
            let name = arguments.get_one::<String>("NAME").map(String::as_str).unwrap_or_default();
            (format!("{order} {name} {act}"), inner)
        }
        None => (order.to_owned(), arguments),
    };
    let waits = !matches!(arguments.try_get_one::<bool>("no-wait"), Ok(Some(true)));
    let line = match arguments.try_get_one::<WorkerTarget>("NUMBER") {
        Ok(Some(number)) => format!("{order} {number}{}", if waits { "" } else { " no-wait" }),
        Ok(None) | Err(_) => match arguments.try_get_one::<u32>("WORKER") {
            Ok(Some(worker)) => format!("{order} {worker}"),
            Ok(None) | Err(_) => order,
        },
    };
    let order = Order::parse(line.as_bytes()).map_err(Trouble::usage)?;
    let path = socket(arguments)?;
    if order == Order::Health {
        return health::run(&path, arguments);
    }
    show(&order, &ask(&path, &order)?, arguments.get_flag("json"))
}

/// Returns the order to apply a file. The server has another directory than this command.
fn apply(arguments: &ArgMatches) -> Result<Order, Trouble> {
    let absolute = |file: &PathBuf| {
        let path = oribi_server::directory::absolute(file)
            .map_err(|error| Trouble::failure(format!("cannot find {}: {error}", file.display())))?;
        let text = path.to_str().filter(|text| !text.contains(char::is_control) && text.trim_ascii_end() == *text);
        text.map(str::to_owned).ok_or_else(|| Trouble::usage(format!("{}: such a name cannot be sent", file.display())))
    };
    let file = arguments.get_one::<PathBuf>("FILE").map(absolute).transpose()?;
    Ok(Order::Apply { file, dry_run: arguments.get_flag("dry-run") })
}

/// Returns the order to remove stored responses.
fn purge(arguments: &ArgMatches) -> Order {
    let text = |name: &str| arguments.get_one::<String>(name).cloned();
    Order::Purge { app: text("app"), target: text("TARGET") }
}

/// Lists the running servers, for a command line without an order.
fn list(matches: &ArgMatches) -> Result<u8, Trouble> {
    let found = find();
    if matches.get_flag("json") {
        let server = |found: &Found| Server::new(found.pid, &found.path);
        return crate::print(&format!("{}\n", servers_to_json(&found.iter().map(server).collect::<Vec<_>>())));
    }
    if found.is_empty() {
        return Err(no_server());
    }
    crate::print(&lines(&found))
}

fn lines(found: &[Found]) -> String {
    found.iter().map(|server| format!("pid {}  {}\n", server.pid, server.path.display())).collect()
}

fn no_server() -> Trouble {
    Trouble::failure("no server of this user with a control socket is running; --control PATH names one elsewhere")
}

/// The socket of the server that the options determine: see [`server_options`].
pub fn socket(matches: &ArgMatches) -> Result<PathBuf, Trouble> {
    if let Some(path) = matches.get_one::<OsString>("control") {
        return Ok(path.into());
    }
    let named = std::env::var_os("ORIBI_CONTROL").filter(|path| Path::new(path).is_absolute());
    if let (None, Some(path)) = (matches.get_one::<u32>("pid"), named) {
        return Ok(path.into());
    }
    let mut found = find();
    if let Some(pid) = matches.get_one::<u32>("pid") {
        found.retain(|server| server.pid == *pid);
        if found.is_empty() {
            return Err(Trouble::failure(format!("no server of this user with a control socket has the process id {pid}")));
        }
    }
    match found.as_slice() {
        [] => Err(no_server()),
        [server] => Ok(server.path.clone()),
        several => {
            let several = lines(several);
            Err(Trouble::usage(format!(
                "several servers are running; choose one with --pid or --control:\n{}",
                several.trim_end()
            )))
        }
    }
}

/// Prints the response to an order.
fn show(order: &Order, answer: &str, as_json: bool) -> Result<u8, Trouble> {
    if as_json {
        let status = match read(Answer::<Done>::parse(answer))? {
            Answer::Done(Done {}) => 0,
            Answer::Failed(_) => Trouble::FAILED,
        };
        crate::print(&answer)?;
        return Ok(status);
    }
    let mut status = 0;
    let text = match order {
        Order::Status => tables::status(&done(Answer::parse(answer))?),
        Order::Health => tables::health(&done(Answer::parse(answer))?),
        Order::Workers => tables::processes(&done(Answer::parse(answer))?),
        Order::Requests => tables::requests(&done(Answer::parse(answer))?),
        Order::Backtrace { .. } => backtraces::of(&done(Answer::parse(answer))?),
        Order::Reload | Order::Apply { .. } | Order::Upgrade => tables::changed(&done(Answer::parse(answer))?),
        Order::Purge { .. } => tables::purged(done(Answer::parse(answer))?),
        Order::App { act: AppOrder::Scale { .. }, .. } | Order::Scale { .. } => tables::scaled(done(Answer::parse(answer))?),
        Order::Stop => {
            let stopped: Stopped = done(Answer::parse(answer))?;
            // A server that had to cut off requests has nevertheless stopped.
            status = u8::from(stopped.status != 0);
            tables::stopped(stopped)
        }
        Order::App { .. } => tables::changed(&done(Answer::parse(answer))?),
        Order::ReopenLogs => {
            let Done {} = done(Answer::parse(answer))?;
            "done\n".to_owned()
        }
    };
    crate::print(&text)?;
    Ok(status)
}

/// Turns a response that is not JSON into an error for the user.
pub fn read<T>(answer: Result<Answer<T>, NotJson>) -> Result<Answer<T>, Trouble> {
    answer.map_err(|error| Trouble::failure(error.to_string()))
}

/// Returns the contents of a response; reports an order that has failed.
fn done<T>(answer: Result<Answer<T>, NotJson>) -> Result<T, Trouble> {
    match read(answer)? {
        Answer::Done(contents) => Ok(contents),
        Answer::Failed(failure) => Err(Trouble::failure(tables::harmless_lines(failure.reason()))),
    }
}

/// The grammar of this command.
pub fn command() -> Command {
    let order = |name: &'static str, about: &'static str| options(Command::new(name).about(about));
    options(
        Command::new("oribi ctl")
            .bin_name("oribi ctl")
            .about("Shows what a running Oribi server does, and controls it.")
            .override_usage(USAGE)
            .after_help(AFTER)
            .disable_help_subcommand(true)
            .subcommand(order("status", "The state of the server"))
            .subcommand(health::options(order("health", "Whether the server is ready to serve: exit status 0, otherwise 1")))
            .subcommand(order("workers", "The state of each worker and each edge"))
            .subcommand(order("requests", "The requests in the server, the oldest first"))
            .subcommand(
                order("backtrace", "Backtraces of the apps of the workers").arg(
                    Arg::new("WORKER")
                        .value_parser(value_parser!(u32).range(1..))
                        .help("The number or process id of a worker [default: all]"),
                ),
            )
            .subcommand(order(
                "reload",
                "Load the app again; waits until the new generation has taken over, or reports why it cannot",
            ))
            .subcommand(
                order(
                    "apply",
                    "Read the file with the apps again and apply the differences; waits until all of them are applied",
                )
                .arg(
                    Arg::new("FILE")
                        .value_parser(value_parser!(PathBuf))
                        .help("Read this file instead, and keep it as the file of the server"),
                )
                .arg(Arg::new("dry-run").long("dry-run").action(ArgAction::SetTrue).help("Only print the differences")),
            )
            .subcommand(
                order("purge", "Remove stored responses of routes with a cache, in all edges; prints their number")
                    .arg(
                        Arg::new("TARGET")
                            .value_parser(word)
                            .help("HOST/PATH, or /PATH for all hosts; with * at the end: all that begin so [default: all]"),
                    )
                    .arg(
                        Arg::new("app")
                            .long("app")
                            .value_name("NAME")
                            .value_parser(app_name)
                            .help("Only responses of this app"),
                    ),
            )
            .subcommand(order(
                "upgrade",
                "Replace the program of the server itself; waits until the new one has taken over, or reports why it cannot",
            ))
            .subcommand(order("stop", "Finish running requests and stop; waits for the end"))
            .subcommand(scale(order(
                "scale",
                "Set the number of workers; waits until new ones serve, or until surplus ones have finished",
            )))
            .subcommand(
                Command::new("app")
                    .about("Orders for one of several apps")
                    .override_usage("oribi ctl app NAME ORDER [--control PATH | --pid PID] [--json]")
                    .disable_help_subcommand(true)
                    .subcommand_required(true)
                    .arg(Arg::new("NAME").required(true).value_parser(app_name).help("The name of the app"))
                    .subcommand(order("reload", "Load the app again; the present workers serve until the new ones do"))
                    .subcommand(order("restart", "Load the app again; the present workers finish at once, and requests wait"))
                    .subcommand(order("stop", "Finish the app's requests, and answer further ones with 503"))
                    .subcommand(order("start", "Serve the app again after it was stopped"))
                    .subcommand(scale(order("scale", "Set the number of the app's workers"))),
            )
            .subcommand(order("reopen-logs", "Open the log files again, after they have been rotated")),
    )
}

fn scale(command: Command) -> Command {
    let no_wait = Arg::new("no-wait").long("no-wait").action(ArgAction::SetTrue);
    command
        .arg(
            Arg::new("NUMBER")
                .required(true)
                .value_parser(worker_target)
                .help("The number of workers; MIN:MAX: it follows the load; auto: as in the settings"),
        )
        .arg(no_wait.help("Return as soon as the change has begun"))
}

/// Parses a number of workers, or its limits.
fn worker_target(text: &str) -> Result<WorkerTarget, String> {
    WorkerTarget::parse(text).ok_or_else(|| "expected a number of workers from 1 on, MIN:MAX, or auto".to_owned())
}

/// Parses a target: one word of a line.
fn word(text: &str) -> Result<String, String> {
    app_name(text).map_err(|_| "a target has no spaces".to_owned())
}

/// Parses the name of an app: one word of a line.
fn app_name(text: &str) -> Result<String, String> {
    let is_word = !text.is_empty() && !text.contains(|character: char| character.is_whitespace() || character.is_control());
    if is_word { Ok(text.to_owned()) } else { Err("a name of an app has no spaces".to_owned()) }
}

fn options(command: Command) -> Command {
    server_options(command).arg(
        Arg::new("json")
            .long("json")
            .action(ArgAction::SetTrue)
            .help("Print the answer of the server unchanged: one line of JSON"),
    )
}

/// Adds the options that determine the server.
pub fn server_options(command: Command) -> Command {
    command
        .arg(
            Arg::new("control")
                .long("control")
                .value_name("PATH")
                .value_parser(clap::builder::OsStringValueParser::new())
                .conflicts_with("pid")
                // Before the order, too: an order must never go to another server than the one that is named.
                .global(true)
                .help("The control socket of the server"),
        )
        .arg(
            Arg::new("pid")
                .long("pid")
                .value_name("PID")
                .value_parser(value_parser!(u32).range(1..))
                .global(true)
                .help("The process id of the server's first process"),
        )
}
