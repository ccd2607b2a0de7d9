//! Stops molds, and kills those that take too long.

use super::super::reloads::ReloadOutcome;
use super::super::server::Server;
use super::super::workforce::Finish;
use super::{MOLD_GRACE, Molds};
use std::time::Instant;

impl Molds<'_> {
    /// Commands the molds to stop; returns the time at which those that have not ended must be killed. Without edges, the molds
    /// turn new connections away.
    pub(in super::super) fn stop(&mut self, server: &Server<'_>, finish: Finish) -> Instant {
        let (now, patience) = (Instant::now(), self.patience());
        if finish == Finish::Replaced {
            self.generations.iter_mut().for_each(|generation| generation.leave(patience));
            return now + patience;
        }
        let stop_by = server.stop_by.unwrap_or(now + self.settings.timeouts.graceful);
        let left = stop_by.saturating_duration_since(now);
        self.generations.iter().for_each(|generation| generation.stop(left));
        now + left + MOLD_GRACE
    }

    /// Stops the app alone: its workers finish their requests, and no process of it starts until it is loaded again.
    pub(in super::super) fn stop_app(&mut self) {
        self.stopped = true;
        self.wake();
        self.roll_back(ReloadOutcome::GivenUp);
        let patience = self.patience();
        for generation in self.generations.iter_mut().filter(|generation| generation.stays()) {
            generation.leave(patience);
            self.reloads.end(generation.number, ReloadOutcome::GivenUp);
        }
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

    /// Kills all molds. Each is killed again at `next` if it still exists then.
    pub(in super::super) fn end_all(&mut self, next: Instant) {
        self.generations.iter_mut().for_each(|generation| generation.end(next));
    }

    /// Records that the app could not be loaded at the start. The server fails if this is its only app, or if it is to replace
    /// another server.
    pub(super) fn fail_to_start(&mut self, server: &mut Server<'_>) {
        self.failed = true;
        if self.label.is_unnamed() && !self.range.may_sleep() || server.succession.is_not_ready() {
            server.fail();
            self.give_up();
        }
    }
}
