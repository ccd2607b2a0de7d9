//! The certifier of a supervisor without a master.

use super::super::certifier::Certifier;
use super::super::notices::Notices;
use super::super::reasons::Reasons;
use super::super::title::Title;
use super::behind_edges::fork_from;
use super::{Stage, Supervisor};
use std::time::{Duration, Instant};

impl Supervisor<'_> {
    /// While serving: starts the certifier, if one is wanted and missing. Before a worker serves there may be no process to
    /// answer an authority's challenge.
    pub(super) fn keep_certifier(&mut self) {
        let runtime = self.runtime;
        if !self.served {
            return;
        }
        let born = self.certifier.as_mut().and_then(|certifier| certifier.keep_running(|| fork_from(runtime)));
        let Some(birth) = born else { return };
        self.become_companion("certifier");
        birth.live(self.settings, &self.privileges, &mut self.signals)
    }

    /// In a new helper process: releases the descriptors of the supervisor.
    pub(super) fn become_companion(&mut self, role: &str) {
        self.members.clear();
        (self.control, self.metrics, self.certifier, self.exporter) = (None, None, None, None);
        (self.watch, self.edges) = (None, None);
        self.listeners.clear();
        self.succession.close();
        self.books.leave();
        self.notices = Notices::default();
        self.reasons = Reasons::default();
        Title { role, generation: None, state: "" }.show(self.settings, Some(self.runtime));
    }

    /// Returns the longest time that this process may sleep because of the certifier; `None`: until something happens.
    pub(super) fn certifier_patience(&self, now: Instant) -> Option<Duration> {
        self.certifier.as_ref().filter(|_| self.served && matches!(self.stage, Stage::Serving))?.patience(now)
    }

    /// Ends the certifier, because the server stops or another one takes its place.
    pub(super) fn end_certifier(&mut self) {
        self.books.enter_certifier(self.certifier.as_ref());
        self.certifier.take().into_iter().for_each(Certifier::end);
    }
}
