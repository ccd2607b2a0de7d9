//! Logs: the error log for the operator, and the access log with one line for each request.
//!
//! Both logs follow two rules: untrusted text is escaped, so that clients and apps can neither forge a line nor send control
//! codes to a terminal; and a line is written whole, by one system call, so that the lines of several processes do not mix.
#![forbid(unsafe_code)]

mod access;
mod date_cache;
mod entry;
mod error;
mod escape;
mod messenger;
mod output;
mod pattern;
mod sink;
mod slow;

pub use access::AccessLog;
pub use entry::{AccessEntry, Ending, Noted, PartDurations, TraceIds};
pub use escape::{append_json, append_quoted};
pub use oribi_message::is_plain;
pub use slow::SlowLog;

use oribi_config::{LogTarget, Settings};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs::Permissions;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Sets up both logs: directs the messages of the `log` facade to the error log, and without edges opens the access log once as
/// a check. Each lane opens the access log for itself later.
///
/// # Errors
/// A log cannot be opened; the message contains the log and the reason.
pub fn prepare(settings: &Settings) -> Result<(), String> {
    error::install(&settings.error_log, settings.log_level).map_err(|error| failed("error", &settings.error_log, &error))?;
    settings.notes.iter().for_each(|(level, note)| log::log!(*level, "{note}"));
    // With edges, only these write the access log, and a process that loads the app may lack the permission.
    if settings.edges_wanted() == 0 { check_access_log(settings) } else { Ok(()) }
}

/// Opens the access log once to check that it can be opened.
///
/// # Errors
/// It cannot be opened; the message contains the log and the reason.
pub fn check_access_log(settings: &Settings) -> Result<(), String> {
    let Some(target) = &settings.access_log else { return Ok(()) };
    AccessLog::open(target, &settings.access_log_format).map(drop).map_err(|error| failed("access", target, &error))
}

fn failed(what: &str, target: &LogTarget, error: &io::Error) -> String {
    match target {
        LogTarget::Standard => format!("cannot use the {what} log: {error}"),
        LogTarget::File(path) => format!("cannot open the {what} log {}: {error}", path.display()),
        LogTarget::System(log) => format!("cannot use the {what} log {log}: {error}"),
    }
}

/// Opens the error log again by its name, after a log rotation has renamed the old file. Opens nothing if the log is not a
/// file.
///
/// # Errors
/// The file cannot be opened; then the old file stays in use.
pub fn reopen_error_log(settings: &Settings) -> io::Result<()> {
    error::reopen(&settings.error_log)
}

/// Uses `file`, which another process has opened by the name of the error log, as the error log from now on.
///
/// # Errors
/// The operating system refused a call; then the old file stays in use.
pub fn use_error_log(file: File) -> io::Result<()> {
    error::replace(file)
}

/// Opens the access log by its name, for another process that may not open it. `None` if the access log is not a file.
///
/// # Errors
/// The file cannot be opened; the message contains the file and the reason.
pub fn open_access_log(settings: &Settings) -> Result<Option<File>, String> {
    match &settings.access_log {
        Some(target @ LogTarget::File(path)) => output::open(path).map(Some).map_err(|error| failed("access", target, &error)),
        Some(LogTarget::Standard | LogTarget::System(_)) | None => Ok(None),
    }
}

/// The user and the group that may open a log file by its name, to write to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writers {
    /// The user id of the owner.
    pub user: u32,
    /// The group id of the file.
    pub group: u32,
    /// Whether the group may write.
    pub with_group: bool,
}

/// Gives the error log to `writers`. A missing file is created first.
///
/// # Errors
/// The owner of the file cannot be changed; the message contains the file and the reason.
pub fn give_error_log_to(settings: &Settings, writers: Writers) -> Result<(), String> {
    give_log_to(&settings.error_log, writers)
}

/// Gives the access log to `writers`. A missing file is created first.
///
/// # Errors
/// The owner of the file cannot be changed; the message contains the file and the reason.
pub fn give_access_log_to(settings: &Settings, writers: Writers) -> Result<(), String> {
    settings.access_log.as_ref().map_or(Ok(()), |target| give_log_to(target, writers))
}

fn give_log_to(target: &LogTarget, writers: Writers) -> Result<(), String> {
    let LogTarget::File(path) = target else { return Ok(()) };
    give_file_to(path, writers).map_err(|error| format!("cannot give {} to user {}: {error}", path.display(), writers.user))
}

/// Changes the owner of a regular file; a device or a named pipe, for example, keeps its owner. Does not follow a symbolic
/// link: otherwise any user who may write to the folder of a log could make root change the owner of any file.
fn give_file_to(path: &Path, writers: Writers) -> io::Result<()> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = match OpenOptions::new().append(true).create(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        // The path is a link, or a named pipe without a reader.
        Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::LOOP | Errno::NXIO)) => return Ok(()),
        Err(error) => return Err(error),
    };
    let found = file.metadata()?;
    if found.is_file() {
        std::os::unix::fs::fchown(&file, Some(writers.user), Some(writers.group))?;
        if writers.with_group {
            file.set_permissions(Permissions::from_mode(found.permissions().mode() | 0o060))?;
        }
    }
    Ok(())
}
