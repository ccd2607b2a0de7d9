//! What the server says: errors for its operator, a line for each request.
//!
//! Both logs share two rules: whatever comes from outside is escaped, so that nobody can forge a line or play with a terminal,
//! and a line is written whole, by one system call, so that the lines of several processes do not mix.

mod access;
mod error;
mod escape;
mod sink;
mod stamp;

pub use access::{AccessEntry, AccessLog};

use crate::config::{LogTarget, Settings};
use std::io;

/// Sets both logs up as told: the messages of the `log` facade go where the error log is wanted, and the access log, which each
/// lane opens for itself later, is opened once to see whether it can be.
///
/// # Errors
/// Which file cannot be opened, and why.
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

/// Opens the error log again, by its name: whoever rotates logs has moved the old one away. Nothing to do without a file.
///
/// # Errors
/// The file cannot be opened; then the old one stays.
pub fn reopen_error_log(settings: &Settings) -> io::Result<()> {
    error::reopen(&settings.error_log)
}
