//! The exporter of a master.

use super::super::exporter::Exporter;
use super::{Master, Stage};
use oribi_io::process::fork;
use std::time::{Duration, Instant};

impl Master<'_> {
    /// Starts the exporter, if one is wanted and missing. As long as anything is answered, there are spans.
    pub(super) fn keep_exporter(&mut self) {
        if matches!(self.stage, Stage::Ended { .. }) {
            return;
        }
        let Some(newborn) = self.exporter.as_mut().and_then(|exporter| exporter.keep_running(fork)) else { return };
        // It is the new process.
        self.become_companion("exporter");
        newborn.live(self.settings, &self.privileges, &mut self.signals)
    }

    /// How long this process may sleep for its sake; `None`: as long as nothing happens.
    pub(super) fn exporter_patience(&self, now: Instant) -> Option<Duration> {
        self.exporter.as_ref()?.patience(now)
    }

    /// Everything else has ended.
    pub(super) fn end_exporter(&mut self) {
        self.exporter.take().into_iter().for_each(Exporter::finish);
    }
}
