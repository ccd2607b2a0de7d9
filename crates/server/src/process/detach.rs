//! Runs the server in the background.

use crate::config::{LogTarget, Settings, SocketAddress};
use oribi_io::process::{Fork, exit_now, fork};
use std::fs::OpenOptions;
use std::io;

/// Detaches from the terminal and from the parent process, as daemon(3) does: the caller continues in a new process, in the
/// root directory, with its standard streams at /dev/null. If a log file has replaced standard error, it stays. The original
/// process ends with status 0 before the server listens; later errors are in the log.
///
/// Paths of sockets become absolute here; paths of files are absolute already.
///
/// # Errors
/// An error of the system; then nothing or little has changed.
pub fn detach(settings: &mut Settings) -> io::Result<()> {
    for address in &mut settings.listen {
        if let SocketAddress::Unix { path, .. } = &mut address.socket {
            *path = std::path::absolute(&*path)?;
        }
    }
    let nothing = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    end_parent(fork()?);
    rustix::process::setsid()?;
    // The leader of a session would get a terminal by opening one; its child does not.
    end_parent(fork()?);
    std::env::set_current_dir("/")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    if settings.error_log == LogTarget::Standard {
        rustix::stdio::dup2_stderr(&nothing)?;
    }
    Ok(())
}

fn end_parent(fork: Fork) {
    if matches!(fork, Fork::Parent(_)) {
        exit_now(0);
    }
}
