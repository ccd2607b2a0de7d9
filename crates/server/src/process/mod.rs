//! The life of the processes.
//!
//! [`supervise`] opens the listeners, forks workers, replaces and stops them; it runs in the process that has loaded the app.
//! [`master::run`] is a process above it with no language in it: it keeps the listeners, starts that process (then called the
//! mold) and starts it again should it die. A worker runs one lane, or several in threads, and is told what to do through its
//! slot of the scoreboard.

mod contexts;
mod inheritance;
mod listener;
pub mod master;
mod pace;
mod pid_file;
mod scoreboard;
mod signals;
mod supervisor;
mod worker;

pub use listener::{Listener, open};
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
    if let Some(number) = status.terminating_signal() {
        let name = Signal::from_named_raw(number).map_or_else(|| format!("signal {number}"), |signal| format!("{signal:?}"));
        return format!("was killed by {name}");
    }
    status.exit_status().map_or_else(|| "ended".to_owned(), |code| format!("ended with exit status {code}"))
}
