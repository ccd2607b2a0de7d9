//! Going to the background.

use crate::config::{LogTarget, Place, Settings};
use oribi_io::process::{Fork, exit_now, fork};
use std::fs::OpenOptions;
use std::io;

/// Leaves the terminal and the process that started this one, as daemon(3) does: the caller goes on in a process that nobody
/// waits for, in the root directory, with its standard streams at /dev/null; standard error stays where a log file stands in its
/// place. The process that was started ends with status 0, before the server listens: what goes wrong from now on is in the log.
///
/// Paths of sockets that are not absolute become so; those of files are already.
///
/// # Errors
/// The system's refusal; then nothing has changed, or little.
pub fn detach(settings: &mut Settings) -> io::Result<()> {
    for address in &mut settings.listen {
        if let Place::Unix { path, .. } = &mut address.place {
            *path = std::path::absolute(&*path)?;
        }
    }
    let nothing = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    end_parent(fork()?);
    rustix::process::setsid()?;
    // The leader of a session could get a terminal by opening one; its child cannot.
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
