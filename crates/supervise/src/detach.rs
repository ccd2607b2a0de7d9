//! Runs the server in the background.

use super::foreground;
use oribi_config::directory::Directory as WorkingDirectory;
use oribi_config::{LogTarget, Settings, SocketAddress};
use oribi_io::process::{Fork, exit_now, fork};
use rustix::pipe::{PipeFlags, pipe_with};
use std::fs::OpenOptions;
use std::io;
use std::sync::OnceLock;

/// The original directory of this process, if it has detached.
static STARTED_IN: OnceLock<WorkingDirectory> = OnceLock::new();

/// The working directory of a process that has detached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directory {
    /// The root directory, as after daemon(3).
    Root,
    /// The original directory of the server.
    Same,
}

/// Returns the original directory of this process.
pub(super) fn started_in() -> WorkingDirectory {
    STARTED_IN.get().cloned().unwrap_or_else(WorkingDirectory::current)
}

/// Detaches from the terminal and from the parent process: the caller continues in a new process with its standard streams at
/// /dev/null. Standard error stays open if the error log is a file: that file has replaced standard error, or will. Does
/// nothing in a process that was started for an upgrade.
///
/// The original process waits until the server serves, and ends with status 0. If the server ends earlier, the original process
/// prints where to find the reason, and ends with status 1.
///
/// Paths of sockets become absolute here; paths of files are absolute already.
///
/// # Errors
/// The system refuses. Then the process is unchanged, or only partly detached.
pub fn detach(settings: &mut Settings, directory: Directory) -> io::Result<()> {
    // The paths of the app and of the program are later looked up in this directory, even if this process then works in the
    // root directory.
    STARTED_IN.get_or_init(WorkingDirectory::current);
    for address in &mut settings.listen {
        if let SocketAddress::Unix { path, .. } = &mut address.socket {
            *path = oribi_config::directory::absolute(path)?;
        }
    }
    if super::inheritance::is_upgrade() {
        // The previous process has detached, and waits for this one.
        return Ok(());
    }
    let nothing = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    let (outcome, report) = pipe_with(PipeFlags::CLOEXEC)?;
    if let Fork::Parent(_) = fork()? {
        drop(report);
        exit_now(foreground::wait(&outcome, &settings.error_log));
    }
    drop(outcome);
    rustix::process::setsid()?;
    // The leader of a session would get a terminal by opening one; its child does not.
    if let Fork::Parent(_) = fork()? {
        exit_now(0);
    }
    if directory == Directory::Root {
        std::env::set_current_dir("/")?;
    }
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    if !matches!(settings.error_log, LogTarget::File(_)) {
        rustix::stdio::dup2_stderr(&nothing)?;
    }
    foreground::report_to(report);
    Ok(())
}
