//! Reports a failed start to the user. If the server goes to the background, the process that stays in the foreground reports
//! it. Otherwise it is reported on the original standard error, if a log file has replaced that.

use oribi_config::{LogTarget, Settings};
use rustix::io::{Errno, fcntl_dupfd_cloexec, read, write};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The channel of the report. `None` when the server serves, or if there is no channel.
static REPORT: Mutex<Option<ReportChannel>> = Mutex::new(None);

enum ReportChannel {
    /// In the background: the pipe to the process that waits in the foreground.
    Foreground(OwnedFd),
    /// A copy of standard error from before a log file replaced it, and the line that reports a failed start.
    StandardError(OwnedFd, String),
}

/// The message to the process in the foreground when the server serves.
const SERVES: &[u8] = b"1";

/// Waits until the server serves or has failed to start; returns the exit status of the process in the foreground.
pub(super) fn wait(outcome: &OwnedFd, error_log: &LogTarget) -> i32 {
    let mut message = [0; 1];
    let size = loop {
        match read(outcome, &mut message) {
            Err(Errno::INTR) => {}
            size => break size.unwrap_or(0),
        }
    };
    if message[..size] == *SERVES {
        return 0;
    }
    // If standard error is closed, the exit status alone shows the failure.
    if !report_failed_start() {
        let _ = io::stderr().write_all(failed_start(error_log).as_bytes());
    }
    1
}

fn failed_start(error_log: &LogTarget) -> String {
    let advice = match error_log {
        LogTarget::File(path) => format!("the reason is in {}", path.display()),
        LogTarget::System(log) => format!("the reason is in {log}"),
        LogTarget::Standard => "start it without --daemonize, or with --error-log FILE, to see why".to_owned(),
    };
    format!("oribi: the server could not start; {advice}\n")
}

/// In the background: stores the pipe for the report.
pub(super) fn report_to(report: OwnedFd) {
    keep(Some(ReportChannel::Foreground(report)));
}

/// Stores standard error for [`report_failed_start`], if the error log goes elsewhere and no process waits in the foreground.
/// Must be called before the log is opened.
///
/// # Errors
/// The process has no descriptor left.
pub fn keep_standard_error(settings: &Settings) -> io::Result<()> {
    if settings.error_log == LogTarget::Standard || report().is_some() {
        return Ok(());
    }
    match fcntl_dupfd_cloexec(rustix::stdio::stderr(), 3) {
        Ok(copy) => keep(Some(ReportChannel::StandardError(copy, failed_start(&settings.error_log)))),
        // Standard error is closed.
        Err(Errno::BADF) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// Prints on the original standard error that the server could not start, and where to find the reason. Returns `false`, and
/// prints nothing, if the server has served, if a process waits in the foreground, or if [`keep_standard_error`] kept no copy.
pub fn report_failed_start() -> bool {
    let Some(ReportChannel::StandardError(standard_error, line)) = report().take() else { return false };
    // If standard error has lost its reader, the log has the reason.
    let _ = write(&standard_error, line.as_bytes());
    true
}

/// Reports to the process that waits in the foreground that the server serves, and drops the channel.
pub(super) fn report_serving() {
    if let Some(ReportChannel::Foreground(foreground)) = report().take() {
        // The write fails if the waiting process has gone.
        let _ = write(&foreground, SERVES);
    }
}

/// In a process that was forked: leaves the report to the first process.
pub(super) fn leave_report() {
    keep(None);
}

fn keep(new: Option<ReportChannel>) {
    *report() = new;
}

fn report() -> MutexGuard<'static, Option<ReportChannel>> {
    REPORT.lock().unwrap_or_else(PoisonError::into_inner)
}
