//! The helpers of the first process: the certifier, the exporter and the relay.

use super::super::certifier::Certifier;
use super::super::exporter::Exporter;
use super::super::relay::Relay;
use super::super::server::{Phase, fork_from};
use super::super::title::Title;
use super::FirstProcess;
use std::time::{Duration, Instant};

impl FirstProcess<'_> {
    /// While serving: starts the certifier, if certificates are ordered and it is missing. Not before the app serves: until
    /// then there may be no process to answer an authority's challenge.
    pub(super) fn keep_certifier(&mut self) {
        if !self.workforce.has_served() {
            return;
        }
        let runtime = self.server.runtime;
        let certifier = self.server.certifier.as_mut();
        let Some(forked) = certifier.and_then(|certifier| certifier.keep_running(|| fork_from(runtime))) else { return };
        self.become_helper("certifier");
        forked.run_and_exit(self.server.settings, &self.server.privileges, &mut self.server.signals)
    }

    /// Kills the certifier, because the server stops or another one takes its place.
    pub(super) fn end_certifier(&mut self) {
        self.server.totals.add_certifier(self.server.certifier.as_ref());
        self.server.certifier.take().into_iter().for_each(Certifier::end);
    }

    /// Starts the exporter, if spans are exported and it is missing. It is needed in all phases, because processes that finish
    /// still send spans.
    pub(super) fn keep_exporter(&mut self) {
        let runtime = self.server.runtime;
        let exporter = self.server.exporter.as_mut();
        let Some(forked) = exporter.and_then(|exporter| exporter.keep_running(|| fork_from(runtime))) else { return };
        self.become_helper("exporter");
        forked.run_and_exit(self.server.settings, &self.server.privileges, &mut self.server.signals)
    }

    /// Makes the exporter send its last spans and end. Called after everything else has ended.
    pub(super) fn end_exporter(&mut self) {
        self.server.exporter.take().into_iter().for_each(Exporter::finish);
    }

    /// Starts the relay, if messages are shared with other servers and it is missing. It is needed in all phases, because processes
    /// that finish still publish.
    pub(super) fn keep_relay(&mut self) {
        let runtime = self.server.runtime;
        let relay = self.server.relay.as_mut();
        let Some(forked) = relay.and_then(|relay| relay.keep_running(|| fork_from(runtime))) else { return };
        self.become_helper("relay");
        forked.run_and_exit(self.server.settings, &self.server.privileges, &mut self.server.signals)
    }

    /// Makes the relay share the last messages and end. Called after everything else has ended, except the exporter.
    pub(super) fn end_relay(&mut self) {
        if let Some(counts) = self.server.relay.take().map(Relay::finish) {
            self.server.totals.add_relay(&counts);
        }
    }

    /// In a new helper process: closes the descriptors of the first process, including listeners and edges.
    fn become_helper(&mut self, role: &str) {
        self.workforce.release();
        let server = &mut self.server;
        server.release();
        server.edges = None;
        drop(server.take_listeners());
        Title { role, generation: None, state: "" }.show(server.settings, server.runtime);
    }

    /// Returns the longest time that this process may sleep because of its helpers. `None` without a deadline.
    pub(super) fn helpers_patience(&self, now: Instant) -> Option<Duration> {
        let Self { server, workforce, .. } = self;
        let starts = workforce.has_served() && server.phase == Phase::Serving;
        let certifier = server.certifier.as_ref().filter(|_| starts).and_then(|certifier| certifier.patience(now));
        let exporter = server.exporter.as_ref().and_then(|exporter| exporter.patience(now));
        let relay = server.relay.as_ref().and_then(|relay| relay.patience(now));
        certifier.into_iter().chain(exporter).chain(relay).min()
    }
}
