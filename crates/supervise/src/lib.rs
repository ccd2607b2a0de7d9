//! The life of the server's processes.
//!
//! [`supervise`] opens the listeners, and forks, replaces and stops workers; it runs in the process that has loaded the app.
//! [`master::run`] runs in a process above that one, without a language. That master keeps the listeners, starts the process
//! that loads the app (which is then called the mold), and starts another mold if the mold dies. A worker runs one lane, or
//! several in threads, and gets its commands through its slot of the scoreboard. The first process of a server runs the loop in
//! `first_process`, with `apps` (molds) or `workers` as its workforce. [`serve_alone`] works without all of these.
#![forbid(unsafe_code)]

mod adaptive;
mod adoption;
mod allowance;
mod alone;
mod app;
mod applied;
mod apps;
mod certifier;
mod closing;
mod contexts;
mod described;
mod detach;
mod drain_period;
mod edge_pools;
mod edges;
mod environment;
mod exporter;
mod failure_pipe;
mod first_process;
mod foreground;
mod helper_process;
mod inheritable;
mod inheritance;
mod io_model;
mod load_error;
pub mod master;
mod member;
mod memory_use;
mod mold;
mod mold_command;
mod molds;
mod notify;
mod outbox;
mod pace;
mod pid_file;
mod privileges;
mod process_state;
mod relay;
mod reloads;
mod requests;
mod restart_file;
mod scaled;
mod scaling;
mod server;
mod server_totals;
mod shared_lane;
mod signals;
mod supervisor;
mod title;
mod upgrade;
mod wait;
mod wake_pipe;
mod watch;
mod watched_files;
mod worker;
mod workers;
mod workforce;

pub use alone::serve_alone;
pub use app::{App, FilePlan, PlannedApp, Plans, ServerPlan, Sources};
pub use applied::applied_file;
pub use detach::{Directory, detach};
pub use environment::claim_environment;
pub use foreground::{keep_standard_error, report_failed_start};
pub use inheritance::{claim_inheritance, has_master, report_load_failure};
pub use oribi_io::process::{
    end_when_told_while_loading, reset_signals, survive_failing_writes_while_loading, survive_own_signals,
};
pub use privileges::start_as_worker;
pub use supervisor::{supervise, supervise_program};

use oribi_config::Settings;
use oribi_engine::shortage::explain;
use oribi_listen::Listener;
use privileges::Privileges;
use rustix::fs::{Access, access};
use rustix::process::{Resource, Signal, WaitStatus, getrlimit, setrlimit};
use std::path::Path;
use std::time::Duration;

/// Returns the message about a system call that failed at the start.
fn failed_to(act: &str, error: &std::io::Error) -> String {
    format!("cannot {act}: {}", explain(error))
}

/// Reports that the server serves: to the process in the foreground, and with its addresses in the log.
fn announce(listeners: &[Listener], settings: &Settings, workers: usize) {
    foreground::report_serving();
    let (threads, pid) = (settings.threads, std::process::id());
    for listener in listeners {
        log::info!("Oribi listening on {} (workers: {workers}, threads: {threads}, pid {pid})", listener.display);
    }
}

/// Reopens the error log of this process. Also makes the workers' user the owner of log files that log rotation has created.
fn reopen_error_log(settings: &Settings, privileges: &Privileges) {
    if let Err(message) = privileges.hand_over_logs(settings) {
        log::error!("{message}");
    }
    match oribi_log::reopen_error_log(settings) {
        Ok(()) => log::info!("the log files are opened again"),
        Err(error) => log::error!("cannot open the error log again: {error}"),
    }
}

/// The interval of checks for ended processes on systems without pidfds (Linux before 5.3).
const LOOK_FOR_ENDED: Duration = Duration::from_millis(250);

/// The interval at which a stopping process without workers, or without edges, checks whether clients have completed their
/// handshakes. No event reports that.
const LOOK_FOR_HANDSHAKES: Duration = Duration::from_millis(5);

/// The number of descriptors that a worker needs besides its connections: listeners, pipes, logs, its I/O model, and some for
/// the app.
const OTHER_DESCRIPTORS: u64 = 64;

/// Raises the limit of open descriptors of this process and its children to the maximum, because each connection needs a
/// descriptor. Returns the limit that is then in force. `None` without a limit.
fn raise_descriptor_limit() -> Option<u64> {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            log::warn!("cannot raise the limit of open files: {}", std::io::Error::from(error));
        }
    }
    getrlimit(Resource::Nofile).current
}

/// Returns a warning if `limit`, the number of files that a worker may have open, is too low for its `connections`.
fn descriptor_shortage(limit: Option<u64>, connections: usize) -> Option<String> {
    let limit = limit.filter(|&limit| limit < connections as u64 + OTHER_DESCRIPTORS)?;
    Some(format!(
        "a worker may have {connections} connections (--max-connections), but the hard limit of open files is {limit} (raise it by \
         ulimit -Hn in a shell, or LimitNOFILE= in systemd): at that limit, the oldest idle connection makes room for a new one"
    ))
}

/// Returns a warning if this process cannot create files in `directory`, that of temporary files. The server serves without
/// them, until a request or a response needs one.
fn unusable_directory(directory: &Path) -> Option<String> {
    let error = access(directory, Access::WRITE_OK | Access::EXEC_OK).err()?;
    Some(format!(
        "cannot write to {} (--temporary-directory): {}: large request contents get 507, slow clients hold up workers",
        directory.display(),
        std::io::Error::from(error)
    ))
}

/// Describes how a process ended, in words that follow its name.
fn describe_end(status: WaitStatus) -> String {
    match (status.terminating_signal(), status.exit_status()) {
        (Some(signal), _) => format!("was killed by signal {signal}{}", meaning(signal)),
        (None, Some(code)) => format!("ended with exit status {code}"),
        (None, None) => "ended".to_owned(),
    }
}

/// Returns the usual reason for a signal that ends a process unexpectedly.
fn meaning(signal: i32) -> &'static str {
    match Signal::from_named_raw(signal) {
        Some(Signal::KILL) => " (KILL: by hand, or by the system when memory ran out)",
        Some(Signal::SEGV) => " (SEGV: it broke its memory; a module written in C is the usual cause)",
        Some(Signal::BUS) => " (BUS: it read beyond the end of a mapped file)",
        Some(Signal::ABORT) => " (ABRT: it noticed an error of its own)",
        Some(Signal::SYS) => " (SYS: it made a system call that a filter forbids: see --edge-sandbox, or that of a container)",
        Some(Signal::TERM) => " (TERM)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::{descriptor_shortage, unusable_directory};
    use std::path::Path;

    #[test]
    fn a_shortage_of_descriptors_is_told() {
        assert_eq!(descriptor_shortage(None, 1 << 20), None);
        assert_eq!(descriptor_shortage(Some(20_000), 16_384), None);
        assert_eq!(descriptor_shortage(Some(1064), 1000), None);
        let told = descriptor_shortage(Some(1063), 1000).unwrap_or_default();
        assert!(told.contains("1000 connections") && told.contains("is 1063"), "{told}");
    }

    #[test]
    fn a_directory_for_temporary_files_that_cannot_be_written_to_is_reported() {
        let directory = tempfile::tempdir().expect("a directory");
        assert_eq!(unusable_directory(directory.path()), None);
        let warning = unusable_directory(Path::new("/nonexistent/oribi")).unwrap_or_default();
        assert!(warning.starts_with("cannot write to /nonexistent/oribi (--temporary-directory): No such file"), "{warning}");
    }
}
