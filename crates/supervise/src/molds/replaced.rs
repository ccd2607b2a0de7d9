//! A master that another server replaces, or that replaces another one: see [`super::super::upgrade`].

use super::super::certificate_files::CertificateFiles;
use super::super::inheritance::Word;
use super::super::title::Title;
use super::super::upgrade::{Condition, Parts, Replaceable};
use super::{Master, Stage, entitle};
use oribi_ipc::handover::Sender;
use std::time::Instant;

impl<'a> Replaceable<'a> for Master<'a> {
    fn parts(&mut self) -> Parts<'_, 'a> {
        let Self { settings, succession, listeners, edges, notifier, control, metrics, pid_file, signals, books, .. } = self;
        Parts { settings, succession, listeners, edges, notifier, control, metrics, pid_file, signals, books }
    }

    fn condition(&self) -> Condition {
        match self.stage {
            Stage::Serving if self.farewell.is_some() => Condition::Ends,
            Stage::Serving if self.served => Condition::Serves,
            Stage::Serving => Condition::Starts,
            Stage::Draining { .. } | Stage::Stopping { .. } | Stage::Ended { .. } => Condition::Ends,
        }
    }

    fn workers(&self) -> (usize, usize) {
        (self.wanted, self.most_workers())
    }

    fn finish_for_successor(&mut self, edges: &[Sender]) {
        (self.restart_file, self.watch, self.certificates) = (None, None, CertificateFiles::default());
        entitle(self.settings, "handing over");
        let (now, patience) = (Instant::now(), self.patience());
        match &mut self.edges {
            Some(own) => {
                own.hand_over(edges, now + self.settings.timeouts.graceful);
                self.stage = Stage::Draining { deadline: now + patience };
            }
            None => {
                self.generations.iter_mut().for_each(|generation| generation.leave(patience));
                self.stage = Stage::Stopping { deadline: now + patience, cut: false };
            }
        }
    }

    fn enter_counts(&self) {
        self.keep_books();
    }

    fn own_listeners(&mut self) {
        self.say(Word::Own);
    }

    fn stop_with_guardian(&mut self) {
        self.stop();
    }

    fn give_up(&mut self) {
        self.stage = Stage::Ended { status: 1 };
    }

    fn entitle_guardian(&self) {
        Title { role: "guardian", generation: None, state: "" }.show(self.settings, None);
    }
}
