//! Makes edges reopen their logs.

use super::Edges;
use oribi_config::{LogTarget, SandboxChoice};
use oribi_log as log_file;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;

impl Edges<'_> {
    /// Makes the edges reopen their logs.
    pub(in super::super) fn reopen_logs(&self) {
        if self.settings.edge_sandbox != SandboxChoice::Off {
            self.give_logs();
        }
        // All slots share this counter.
        if let Some(slot) = self.slots().first() {
            slot.log_opening.fetch_add(1, Relaxed);
        }
        for process in self.entries.iter().filter_map(|entry| entry.process.as_ref()) {
            let _ = rustix::io::write(&process.waker, &[0]);
        }
    }

    /// Sends the edges their logs, which an edge in a sandbox cannot open. This process has the error log open already.
    fn give_logs(&self) {
        let access = log_file::open_access_log(self.settings).unwrap_or_else(|message| {
            log::error!("{message}");
            None
        });
        for (number, entry) in self.entries.iter().enumerate() {
            let Some(process) = &entry.process else { continue };
            let error = match self.settings.error_log {
                LogTarget::File(_) => process.link.give_error_log(rustix::stdio::stderr()),
                LogTarget::Standard | LogTarget::System(_) => Ok(()),
            };
            let access = access.as_ref().map_or(Ok(()), |access| process.link.give_access_log(access.as_fd()));
            if let Err(error) = error.and(access) {
                log::error!("cannot send the reopened log files to {}: {error}", self.name(number));
            }
        }
    }
}
