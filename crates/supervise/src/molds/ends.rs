//! Handles the ends of molds and edges.

use super::super::edges::End;
use super::super::reloads::Outcome;
use super::{Generation, MOLD_GRACE, Master, Stage, farewell, upgrade};
use oribi_stats::totals::Counter;
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, WaitStatus, wait};
use std::time::Instant;

impl Master<'_> {
    /// Collects the exit status of children that have ended: molds, and orphans of molds or of apps.
    pub(super) fn reap(&mut self) {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => self.ended(pid, status),
                Err(Errno::INTR) => {}
                Ok(None) | Err(_) => return,
            }
        }
    }

    pub(super) fn ended(&mut self, pid: Pid, status: WaitStatus) {
        if upgrade::note_end(self, pid, status) {
            return;
        }
        if self.certifier.as_mut().is_some_and(|certifier| certifier.ended(pid, Some(status))) {
            return;
        }
        if self.exporter.as_mut().is_some_and(|exporter| exporter.ended(pid, Some(status))) {
            return;
        }
        match self.edges.as_mut().map_or(End::NoEdge, |edges| edges.ended(pid, Some(status))) {
            End::NoEdge => {}
            End::Usual => return,
            End::CannotServe => {
                log::error!("no edge could start: fix the errors above, then start the server again");
                self.stage = Stage::Stopping { deadline: Instant::now(), cut: true };
                return;
            }
        }
        // Its last message may have been that it is ready.
        self.listen_to_molds();
        let Some(index) = self.generations.iter().position(|generation| generation.pid == pid) else { return };
        let generation = self.generations.remove(index);
        self.close_books_of(&generation, status);
        let Generation { number, born, late, ready, end_by, trouble, board, seen, seen_figures, .. } = generation;
        if status.exit_status().is_none() {
            let patience = self.settings.timeouts.graceful.saturating_add(MOLD_GRACE);
            self.books.keep_orphaned(board, (seen, seen_figures), self.edges.is_none(), patience);
        }
        let end = self.describe_end_of_mold(late, status);
        let why = trouble.unwrap_or_else(|| format!("the process that loads the app {end}"));
        let given_up = end_by.is_some() || self.stage != Stage::Serving;
        if !given_up && !ready {
            self.books.count(Counter::GenerationsFailed);
        }
        self.reloads.end(number, if given_up { Outcome::GivenUp } else { Outcome::Failed(why) });
        let serving = self.generations.iter().find(|generation| generation.ready && generation.stays());
        match (&mut self.stage, serving) {
            (Stage::Stopping { cut, .. }, _) => *cut |= ready && farewell::cuts_off(self.edges.is_some(), status),
            (Stage::Serving | Stage::Draining { .. }, _) if end_by.is_some() => log::info!("generation {number} {end}"),
            (Stage::Serving | Stage::Draining { .. }, _) if !self.served => {
                log::error!("the process that loads the app (pid {pid}) {end} before the app could serve");
                self.fail_to_start();
            }
            (Stage::Serving | Stage::Draining { .. }, Some(serving)) if serving.number > number => {
                log::error!("the mold of generation {number} (pid {pid}) {end}; generation {} serves on", serving.number);
            }
            (Stage::Serving | Stage::Draining { .. }, Some(serving)) => {
                let present = serving.number;
                log::error!(
                    "the app could not be loaded anew: generation {number} (pid {pid}) {end}; generation {present} serves on"
                );
                if !self.generations.iter().any(|generation| generation.stays() && !generation.ready) {
                    self.notifier.reloaded("the app could not be loaded anew; serving the one before");
                }
            }
            (Stage::Serving | Stage::Draining { .. }, None) => {
                let (now, next) = (Instant::now(), self.generations.iter().find(|generation| generation.stays()));
                let mut how_often = String::new();
                if !ready {
                    self.pace.failed(now, now - born);
                    how_often = self.pace.how_often();
                } else if next.is_none() {
                    // The death of a mold that has served does not predict the fate of the next one.
                    self.pace.lost(now);
                }
                let what_now = match next {
                    Some(next) => format!("generation {} is being loaded", next.number),
                    None => format!("the app is loaded again in {:.1} s{how_often}", self.pace.wait(now).as_secs_f64()),
                };
                log::error!("the mold of generation {number} (pid {pid}) {end}; {what_now}");
            }
            (Stage::Ended { .. }, _) => {}
        }
    }
}
