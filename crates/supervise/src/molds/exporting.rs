//! The exporter of a master.

use super::super::exporter::Exporter;
use super::{Master, Stage};
use oribi_io::process::fork;
use std::time::{Duration, Instant};

impl Master<'_> {
    /// Starts the exporter, if one is wanted and missing. There are spans as long as requests are answered.
    pub(super) fn keep_exporter(&mut self) {
        if matches!(self.stage, Stage::Ended { .. }) {
            return;
        }
        let Some(newborn) = self.exporter.as_mut().and_then(|exporter| exporter.keep_running(fork)) else { return };
        // This is the new process.
        self.become_companion("exporter");
        newborn.live(self.settings, &self.privileges, &mut self.signals)
    }

    /// Returns the longest time that this process may sleep because of the exporter; `None`: until something happens.
    pub(super) fn exporter_patience(&self, now: Instant) -> Option<Duration> {
        self.exporter.as_ref()?.patience(now)
    }

    /// Ends the exporter, after everything else has ended.
    pub(super) fn end_exporter(&mut self) {
        self.exporter.take().into_iter().for_each(Exporter::finish);
    }
}
