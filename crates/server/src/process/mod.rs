//! The life of the processes.
//!
//! [`supervise`] opens the listeners, forks workers, replaces and stops them; it runs in the process that has loaded the app.
//! [`master::run`] is a process above it with no language in it: it keeps the listeners, starts that process (then called the
//! mold) and starts it again should it die. A worker runs one lane, or several in threads, and is told what to do through its
//! slot of the scoreboard.

mod adoption;
mod contexts;
mod crew;
mod detach;
mod door;
mod inheritance;
mod io_model;
mod listener;
pub mod master;
mod member;
mod pace;
mod pid_file;
mod running;
mod scoreboard;
mod signals;
mod supervisor;
mod worker;

pub use detach::detach;
pub use door::{Door, Seat, doors};
pub use listener::{Listener, open};
pub(crate) use running::RunningApps;
pub use scoreboard::{WorkerCommand, WorkerSlot, WorkerState};
pub use supervisor::supervise;

use crate::config::Settings;
use rustix::process::{Resource, Signal, WaitStatus, getrlimit, setrlimit};

/// Tells people where the server can be reached.
fn announce(listeners: &[Listener], settings: &Settings) {
    let (workers, threads, pid) = (settings.workers, settings.threads, std::process::id());
    for listener in listeners {
        log::info!("Oribi listening on {} (workers: {workers}, threads: {threads}, pid {pid})", listener.display);
    }
}

/// Opens the error log of this process again.
fn reopen_error_log(settings: &Settings) {
    match crate::log::reopen_error_log(settings) {
        Ok(()) => log::info!("the log files are opened again"),
        Err(error) => log::error!("cannot open the error log again: {error}"),
    }
}

/// Lets this process and its children have as many descriptors as the system allows: each connection is one.
fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            log::warn!("cannot raise the limit of open files: {}", std::io::Error::from(error));
        }
    }
}

/// How a process ended, in words that follow its name.
fn describe_end(status: WaitStatus) -> String {
    match (status.terminating_signal(), status.exit_status()) {
        (Some(signal), _) => format!("was killed by signal {signal}{}", meaning(signal)),
        (None, Some(code)) => format!("ended with exit status {code}"),
        (None, None) => "ended".to_owned(),
    }
}

/// What the signals mean that end processes by surprise.
fn meaning(signal: i32) -> &'static str {
    match Signal::from_named_raw(signal) {
        Some(Signal::KILL) => " (KILL: by hand, or by the system when memory ran out)",
        Some(Signal::SEGV) => " (SEGV: it broke its memory; a module written in C is the usual cause)",
        Some(Signal::BUS) => " (BUS: it read beyond the end of a mapped file)",
        Some(Signal::ABORT) => " (ABRT: it found itself broken)",
        Some(Signal::TERM) => " (TERM)",
        _ => "",
    }
}
