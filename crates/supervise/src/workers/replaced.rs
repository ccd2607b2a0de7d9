//! A supervisor that another server replaces, or that replaces another one: see [`super::super::upgrade`].

use super::super::certificate_files::CertificateFiles;
use super::super::upgrade::{Condition, Parts, Replaceable};
use super::{Stage, Supervisor, Title};
use oribi_ipc::handover::Sender;
use oribi_stats::scoreboard::WorkerCommand;
use std::time::Instant;

impl<'a> Replaceable<'a> for Supervisor<'a> {
    fn parts(&mut self) -> Parts<'_, 'a> {
        let Self { settings, succession, listeners, edges, notifier, control, metrics, pid_file, signals, books, .. } = self;
        Parts { settings, succession, listeners, edges, notifier, control, metrics, pid_file, signals, books }
    }

    fn condition(&self) -> Condition {
        match self.stage {
            Stage::Serving if self.farewell.is_some() => Condition::Ends,
            Stage::Serving if self.announced => Condition::Serves,
            Stage::Serving => Condition::Starts,
            Stage::Draining | Stage::Leaving { .. } | Stage::Stopping { .. } | Stage::Failed => Condition::Ends,
        }
    }

    fn workers(&self) -> (usize, usize) {
        (self.wanted, self.most_workers())
    }

    fn finish_for_successor(&mut self, edges: &[Sender]) {
        (self.restart_file, self.watch, self.certificates) = (None, None, CertificateFiles::default());
        match &mut self.edges {
            Some(own) => {
                let deadline = Instant::now() + self.settings.timeouts.graceful;
                own.hand_over(edges, deadline);
                self.stop_by = Some(deadline);
                self.stage = Stage::Draining;
            }
            None => self.stop_workers(WorkerCommand::Retire),
        }
        self.entitle("handing over");
    }

    fn enter_counts(&self) {
        self.books();
    }

    fn own_listeners(&mut self) {
        // Nothing to do: workers do not know whether listeners are lent.
    }

    fn stop_with_guardian(&mut self) {
        self.stop(WorkerCommand::Drain);
    }

    fn give_up(&mut self) {
        self.fail();
    }

    fn entitle_guardian(&self) {
        Title { role: "guardian", generation: None, state: "" }.show(self.settings, Some(self.runtime));
    }
}
