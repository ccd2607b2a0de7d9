//! The certifier of a master.

use super::super::certifier::Certifier;
use super::super::title::Title;
use super::{Master, Stage};
use oribi_io::process::fork;
use std::time::{Duration, Instant};

impl Master<'_> {
    /// While serving: starts the certifier, if one is wanted and missing. Before the app is loaded there may be no process to
    /// answer an authority's challenge.
    pub(super) fn keep_certifier(&mut self) {
        if !self.served {
            return;
        }
        let Some(birth) = self.certifier.as_mut().and_then(|certifier| certifier.keep_running(fork)) else { return };
        self.become_companion("certifier");
        birth.live(self.settings, &self.privileges, &mut self.signals)
    }

    /// In a new helper process: releases the descriptors of the master.
    pub(super) fn become_companion(&mut self, role: &str) {
        self.generations.clear();
        (self.control, self.metrics, self.certifier, self.exporter) = (None, None, None, None);
        (self.watch, self.edges) = (None, None);
        self.listeners.clear();
        self.succession.close();
        self.books.leave();
        Title { role, generation: None, state: "" }.show(self.settings, None);
    }

    /// Returns the longest time that this process may sleep because of the certifier; `None`: until something happens.
    pub(super) fn certifier_patience(&self, now: Instant) -> Option<Duration> {
        self.certifier.as_ref().filter(|_| self.served && self.stage == Stage::Serving)?.patience(now)
    }

    /// Ends the certifier, because the server stops or another one takes its place.
    pub(super) fn end_certifier(&mut self) {
        self.books.enter_certifier(self.certifier.as_ref());
        self.certifier.take().into_iter().for_each(Certifier::end);
    }
}
