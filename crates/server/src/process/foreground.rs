//! The process that stays in the foreground while a server goes to the background: it waits until the server serves, or has failed.

use crate::config::LogTarget;
use rustix::io::{Errno, read, write};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

/// In the background, until the server serves: the pipe to the process in the foreground, which waits for that.
static FOREGROUND: Mutex<Option<OwnedFd>> = Mutex::new(None);

/// What the process in the foreground is told.
const SERVES: &[u8] = b"1";

/// The exit status of the process in the foreground.
pub(super) fn wait(outcome: &OwnedFd, error_log: &LogTarget) -> i32 {
    let mut told = [0; 1];
    let size = loop {
        match read(outcome, &mut told) {
            Err(Errno::INTR) => {}
            size => break size.unwrap_or(0),
        }
    };
    if told[..size] == *SERVES {
        return 0;
    }
    let place = match error_log {
        LogTarget::File(path) => format!("the reason is in {}", path.display()),
        LogTarget::System(log) => format!("the reason is in {log}"),
        LogTarget::Standard => "start it without --daemonize, or with --error-log FILE, to see why".to_owned(),
    };
    // If standard error is closed, only the exit status is left.
    let _ = writeln!(io::stderr(), "oribi: the server could not start; {place}");
    1
}

/// In the background: keeps the pipe on which to report.
pub(super) fn report_to(report: OwnedFd) {
    *FOREGROUND.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
}

/// Tells the process in the foreground, if there is one, that the server serves.
pub(super) fn report_serving() {
    if let Some(foreground) = FOREGROUND.lock().unwrap_or_else(PoisonError::into_inner).take() {
        // If nobody waits any more, nobody wants to know.
        let _ = write(&foreground, SERVES);
    }
}

/// In a process that was forked: leaves it to the first process to report.
pub(super) fn leave_report() {
    drop(FOREGROUND.lock().unwrap_or_else(PoisonError::into_inner).take());
}
