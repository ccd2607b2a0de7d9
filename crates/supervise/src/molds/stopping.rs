//! Stops molds, and kills those that take too long.

use super::super::server::{Phase, Server};
use super::super::workforce::{Finish, Workforce};
use super::{MOLD_GRACE, Molds};
use oribi_listen::Listener;
use std::time::Instant;

impl Molds<'_> {
    /// Commands the molds to stop. Without edges, the molds turn new connections away, and this process only removes the files
    /// of Unix sockets.
    pub(super) fn stop_molds(&mut self, server: &mut Server<'_>, finish: Finish) {
        let (now, patience) = (Instant::now(), self.patience());
        if finish == Finish::Replaced {
            self.generations.iter_mut().for_each(|generation| generation.leave(patience));
            server.phase = Phase::Stopping { deadline: now + patience, cut: false };
            return;
        }
        if finish == Finish::Last {
            server.listeners.iter_mut().for_each(Listener::remove_file);
        }
        let stop_by = server.stop_by.unwrap_or(now + self.settings.timeouts.graceful);
        let left = stop_by.saturating_duration_since(now);
        self.generations.iter().for_each(|generation| generation.stop(left));
        server.phase = Phase::Stopping { deadline: now + left + MOLD_GRACE, cut: false };
    }

    /// Kills leaving molds that take too long. The system then sends their workers a signal, and the workers finish.
    pub(super) fn end_overdue(&mut self) {
        let now = Instant::now();
        for generation in &mut self.generations {
            if generation.end_by.is_some_and(|end_by| now >= end_by) {
                generation.end(now + MOLD_GRACE);
            }
        }
    }

    /// While the server stops: kills molds that take too long. Returns whether none is left.
    pub(super) fn end_late(&mut self, server: &mut Server<'_>) -> bool {
        let now = Instant::now();
        if let Phase::Stopping { deadline, .. } = server.phase
            && now >= deadline
            && !self.generations.is_empty()
        {
            self.generations.iter_mut().for_each(|generation| generation.end(now + MOLD_GRACE));
            server.phase = Phase::Stopping { deadline: now + MOLD_GRACE, cut: true };
        }
        self.generations.is_empty()
    }

    /// Makes the server fail, because its app could not be loaded at the start or at an upgrade.
    pub(super) fn fail_to_start(&mut self, server: &mut Server<'_>) {
        server.fail();
        self.give_up();
    }
}
