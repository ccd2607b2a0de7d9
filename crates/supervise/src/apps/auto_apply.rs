//! Applies changes of the file of the server by themselves (`auto-apply`), as `oribi ctl apply` does. If that fails, the log says
//! why, and nothing happens before the next change.

use super::super::server::Server;
use super::super::workforce::Apply;
use super::Apps;
use super::applying::ServerFile;
use super::watching::FileWatch;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

impl ServerFile<'_> {
    /// Returns the descriptor that is readable when a watched file has changed.
    pub(super) fn changes(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_ref().map(FileWatch::descriptor)
    }

    /// Returns the time until a change has settled.
    pub(super) fn next_look(&self, now: Instant) -> Option<Duration> {
        self.watch.as_ref()?.wait(now)
    }

    /// In a new process: closes the descriptors of the watch, and the sockets of a change under way, which an edge would
    /// otherwise keep for ever: it gets its own with the plan.
    pub(super) fn release(&mut self) {
        self.watch = None;
        self.change = None;
    }
}

impl Apps<'_> {
    /// Applies the file if it has changed and nothing else is under way.
    pub(super) fn apply_changes(&mut self, server: &mut Server<'_>) {
        let now = Instant::now();
        let Some(ServerFile { plans, file, change, watch: Some(watch), .. }) = &mut self.file else { return };
        let sources = || plans.sources(file.as_deref());
        watch.look(sources, now);
        if watch.due().is_none_or(|due| now < due) {
            return;
        }
        let upgrades = server.succession.is_not_ready() || server.succession.successor.is_some();
        if change.is_some() || upgrades || !self.announced || !server.stays() {
            return watch.postpone(now);
        }
        if !watch.take(&sources()) {
            return;
        }
        log::info!("the file has changed");
        if let Err(why) = self.begin_to_apply(server, Apply::default()) {
            log::error!("the file has changed and was not applied, and nothing has changed: {why}");
        }
    }
}
