//! `oribi top`: a live picture of a running server in the terminal.
//!
//! It queries the control socket, as `oribi ctl` does, and computes everything else itself, so that the server does no
//! additional work. The exit status is 0 after the user has quit. It is 1 if the server cannot be reached at the beginning, and
//! 2 if the command line is invalid or does not say which of several servers is meant.

mod asking;
mod controls;
mod distribution;
mod keys;
mod model;
mod number_format;
mod order;
mod picture;
mod resources;
mod snapshot;
mod table;
mod terminal;
mod view;

use crate::control;
use crate::trouble::{Trouble, explain};
use asking::{Asker, Findings, News, Source};
use clap::{Arg, ArgAction, ArgMatches, Command};
use controls::{Act, Controls, Reach};
use model::Model;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Signal, kill_current_process_group};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};
use signal_hook::{flag, low_level::pipe};
use std::ffi::OsString;
use std::io::{self, IsTerminal, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread;
use std::time::Duration;
use terminal::Terminal;
use view::Size;

/// The name of this command, as the first argument.
pub const TOP: &str = "top";

const USAGE: &str = "oribi top [--control PATH | --pid PID] [--interval SECONDS] [--once]";

const AFTER: &str = "\
Without --control and --pid, the server at $ORIBI_CONTROL is used, or else the only running server of this user;
for root, services of other users count as well.
The key ? lists all keys. Colours are not used if NO_COLOR is set.

Exit status:
  0  quit; 1  the server cannot be reached; 2  invalid command line, or several servers are running";

/// The width of a picture that is not for a terminal, in columns.
const PAGE: usize = 132;

/// Displays the server until the user quits.
pub fn run(arguments: Vec<OsString>) -> Result<u8, Trouble> {
    let matches = match command().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(said) => return Ok(explain(&said)),
    };
    let once = matches.get_flag("once");
    if !once && !terminal::is_there() {
        return Err(Trouble::usage(
            "there is no terminal for a live display: `oribi top --once` prints the numbers once, as text",
        ));
    }
    let interval = matches.get_one::<Duration>("interval").copied().unwrap_or(Duration::from_secs(1));
    let mut source = Source::find(choice(&matches))?;
    let mut model = Model::default();
    take(&mut model, source.ask()?);
    let controls = Controls::new(interval);
    if once {
        thread::sleep(interval);
        take(&mut model, source.ask()?);
        let width = if io::stdout().is_terminal() { terminal::room().0 } else { PAGE };
        return crate::print(&picture::text(&view::picture(&model, &controls, Size { width, height: None })));
    }
    let failed = |error: io::Error| Trouble::failure(format!("the terminal cannot be used: {error}"));
    live(source, model, controls).map_err(failed)
}

fn choice(matches: &ArgMatches) -> asking::Choice {
    let matches = matches.clone();
    Box::new(move || control::socket(&matches))
}

fn take(model: &mut Model, (snapshot, usage): Findings) {
    model.take(snapshot, usage);
}

/// Draws the live picture, and handles keys, signals and news until the user quits.
fn live(source: Source, mut model: Model, mut controls: Controls) -> io::Result<u8> {
    let signals = Signals::new()?;
    let (doorbell, rung) = UnixStream::pair()?;
    let asker = Asker::begin(source, controls.interval, rung)?;
    // An empty NO_COLOR counts as unset (no-color.org).
    let coloured = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut terminal = Terminal::take(coloured)?;
    let mut typed = Vec::new();
    // While the picture is paused, the model is still updated.
    let mut paused: Option<Model> = None;
    loop {
        let (width, height) = terminal::room();
        let size = Size { width, height: Some(height) };
        let shown = paused.as_ref().unwrap_or(&model);
        terminal.draw(view::picture(shown, &controls, size))?;

        let stdin = io::stdin();
        let mut waited =
            [stdin.as_fd(), signals.doorbell.as_fd(), doorbell.as_fd()].map(|one| PollFd::from_borrowed_fd(one, PollFlags::IN));
        match poll(&mut waited, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let [keys, signal, news] = waited.map(|one| !one.revents().is_empty());
        if news {
            silence(&doorbell)?;
            while let Ok(news) = asker.news.try_recv() {
                match news {
                    News::Findings(Ok(findings)) => take(&mut model, *findings),
                    News::Findings(Err(trouble)) => model.trouble = Some(snapshot::harmless(&trouble.message)),
                    News::Backtrace { pid, told, by_key } => {
                        // A paused picture changes only if a key has requested it.
                        if let Some(paused) = paused.as_mut().filter(|_| by_key) {
                            paused.take_backtrace(pid, told.clone());
                        }
                        model.take_backtrace(pid, told);
                    }
                }
            }
        }
        if signal {
            silence(&signals.doorbell)?;
            if let Some(number) = signals.end() {
                return Ok(128_u8.saturating_add(number.try_into().unwrap_or_default()));
            }
            if signals.continued.swap(false, Relaxed) {
                // The shell used the terminal meanwhile.
                terminal.enter()?;
            }
            terminal.forget();
        }
        if keys {
            if !terminal::read_keys(&mut typed) {
                return Ok(0);
            }
            let (pressed, taken) = keys::decode(&typed);
            typed.drain(..taken);
            for key in pressed {
                let shown = paused.as_ref().unwrap_or(&model);
                let pids = view::pids(shown, &controls);
                let reach = Reach {
                    pids: &pids,
                    requests: view::requests(shown, &controls),
                    worker: view::worker(shown, &controls),
                    lines: view::backtrace::lines(shown, &controls, width).len(),
                    page: size.page(),
                };
                match controls.press(key, reach) {
                    Act::Draw => {}
                    Act::Leave => return Ok(0),
                    Act::Interval => asker.ask_every(controls.interval),
                    Act::Backtrace => asker.ask_for_backtrace(controls.backtrace),
                    Act::Stop => stop(&mut terminal)?,
                }
            }
            if controls.paused != paused.is_some() {
                paused = controls.paused.then(|| model.clone());
            }
        }
    }
}

/// Stops this program and its process group, as the terminal would do on Ctrl-Z without raw mode. The call returns when the
/// program is continued.
fn stop(terminal: &mut Terminal) -> io::Result<()> {
    terminal.leave();
    kill_current_process_group(Signal::TSTP)?;
    terminal.enter()
}

/// Discards the bytes that have arrived at a doorbell. They only mean that there is something to do.
fn silence(mut doorbell: &UnixStream) -> io::Result<()> {
    // A byte has arrived, so this does not block.
    doorbell.read(&mut [0; 64]).map(drop)
}

/// The signals that this program handles.
struct Signals {
    /// The end of a socket pair at which a byte arrives for each signal.
    doorbell: UnixStream,
    /// The number of the signal that ends the program; 0 if none has arrived.
    end: Arc<AtomicUsize>,
    continued: Arc<AtomicBool>,
}

impl Signals {
    fn new() -> io::Result<Self> {
        let (doorbell, rung) = UnixStream::pair()?;
        let signals = Self { doorbell, end: Arc::default(), continued: Arc::default() };
        // The meaning of a signal is recorded before the bell rings.
        for number in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
            flag::register_usize(number, Arc::clone(&signals.end), number.try_into().unwrap_or_default())?;
        }
        flag::register(SIGCONT, Arc::clone(&signals.continued))?;
        for number in [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGCONT, SIGWINCH] {
            pipe::register(number, rung.try_clone()?)?;
        }
        Ok(signals)
    }

    fn end(&self) -> Option<usize> {
        Some(self.end.load(Relaxed)).filter(|number| *number > 0)
    }
}

/// The grammar of this command.
pub fn command() -> Command {
    let interval = |text: &str| {
        let seconds = text.trim_end_matches('s').parse::<f64>().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
        seconds.map(Duration::from_secs_f64).ok_or("expected seconds between 0.1 and 3600")
    };
    let command = Command::new("oribi top")
        .bin_name("oribi top")
        .about("Shows live what an Oribi server does: rates, the queue, its processes, the requests in it.")
        .override_usage(USAGE)
        .after_help(AFTER);
    control::server_options(command)
        .arg(
            Arg::new("interval")
                .short('i')
                .long("interval")
                .value_name("SECONDS")
                .value_parser(interval)
                .help("The interval between two updates [default: 1]"),
        )
        .arg(
            Arg::new("once")
                .short('1')
                .long("once")
                .visible_alias("batch")
                .action(ArgAction::SetTrue)
                .help("Print the numbers once, as text, with the rates of one interval, and exit"),
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sensible_intervals_are_taken() {
        let interval = |text: &str| {
            let matches = command().try_get_matches_from(["oribi top", "--interval", text]).ok()?;
            matches.get_one::<Duration>("interval").map(Duration::as_millis)
        };
        let expected = [
            ("1", Some(1000)),
            ("0.5", Some(500)),
            ("2s", Some(2000)),
            ("0", None),
            ("-1", None),
            ("NaN", None),
            ("1e9", None),
        ];
        for (text, milliseconds) in expected {
            assert_eq!(interval(text), milliseconds, "{text}");
        }
    }

    #[test]
    fn the_grammar_is_sound() {
        command().debug_assert();
    }
}
