//! Logs: errors for the operator, and one line for each request.
//!
//! Both logs follow two rules: untrusted text is escaped, so that nobody can forge a line or send control codes to a terminal;
//! and a line is written whole, by one system call, so that the lines of several processes do not mix.

mod access;
mod error;
mod escape;
mod sink;
mod stamp;

pub use access::{AccessEntry, AccessLog};

use crate::config::{LogTarget, Settings};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Sets up both logs: directs the messages of the `log` facade to the error log, and opens the access log once to check that it
/// can be opened. Each lane opens it for itself later.
///
/// # Errors
/// Says which file cannot be opened, and why. Which file cannot be opened, and why.
pub fn prepare(settings: &Settings) -> Result<(), String> {
    let failed = |what: &str, target: &LogTarget, error: &io::Error| match target {
        LogTarget::Standard => format!("cannot use the {what} log: {error}"),
        LogTarget::File(path) => format!("cannot open the {what} log {}: {error}", path.display()),
    };
    error::install(&settings.error_log, settings.log_level).map_err(|error| failed("error", &settings.error_log, &error))?;
    if let Some(target) = &settings.access_log {
        AccessLog::open(target, settings.access_log_format).map_err(|error| failed("access", target, &error))?;
    }
    Ok(())
}

/// Opens the error log again by its name, after log rotation has moved the old one away. Does nothing without a file.
///
/// # Errors
/// The file cannot be opened; then the old one stays.
pub fn reopen_error_log(settings: &Settings) -> io::Result<()> {
    error::reopen(&settings.error_log)
}

/// Makes `user` and `group` the owners of the log files, so that workers that run as this user can open them by name. Missing
/// files are created first.
///
/// # Errors
/// Says which file cannot be given away, and why. Which file cannot be given away, and why.
pub fn give_to(settings: &Settings, user: u32, group: u32) -> Result<(), String> {
    let targets = [Some(&settings.error_log), settings.access_log.as_ref()];
    for path in targets.into_iter().flatten().filter_map(|target| match target {
        LogTarget::Standard => None,
        LogTarget::File(path) => Some(path),
    }) {
        give_file_to(path, user, group).map_err(|error| format!("cannot give {} to user {user}: {error}", path.display()))?;
    }
    Ok(())
}

/// Does not follow a link: otherwise anyone who may write to the folder of a log could have root give away any file. Anything
/// but a file, such as a device or a named pipe, keeps its owner.
fn give_file_to(path: &Path, user: u32, group: u32) -> io::Result<()> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = match OpenOptions::new().append(true).create(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        // A link, or a named pipe without a reader.
        Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::LOOP | Errno::NXIO)) => return Ok(()),
        Err(error) => return Err(error),
    };
    if file.metadata()?.is_file() {
        std::os::unix::fs::fchown(&file, Some(user), Some(group))?;
    }
    Ok(())
}
