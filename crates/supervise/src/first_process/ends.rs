//! Waits for processes that have ended, and assigns each to the part of the server that has started it.

use super::super::certifier::Certifier;
use super::super::edges::{EdgeEnd, Edges};
use super::super::exporter::Exporter;
use super::super::relay::Relay;
use super::FirstProcess;
use rustix::process::{Pid, WaitOptions, WaitStatus, wait};

impl FirstProcess<'_> {
    /// Collects and records the ends of children.
    pub(super) fn reap(&mut self) {
        // Process 1 inherits all orphans of the system. A first process that can be upgraded inherits the orphans of this
        // server.
        if rustix::process::getpid().is_init() || self.server.succession.is_possible() {
            while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
                self.ended(pid, status);
            }
        }
        self.server.certifier.iter_mut().for_each(Certifier::reap);
        self.server.exporter.iter_mut().for_each(Exporter::reap);
        self.server.relay.iter_mut().for_each(Relay::reap);
        if self.server.edges.as_mut().is_some_and(Edges::reap) {
            self.fail_without_edge();
        }
        self.workforce.reap(&mut self.server);
    }

    fn ended(&mut self, pid: Pid, status: WaitStatus) {
        let is_helper = self.note_end_of_server(pid, status)
            || self.server.certifier.as_mut().is_some_and(|certifier| certifier.ended(pid, Some(status)))
            || self.server.exporter.as_mut().is_some_and(|exporter| exporter.ended(pid, Some(status)))
            || self.server.relay.as_mut().is_some_and(|relay| relay.ended(pid, Some(status)));
        if is_helper {
            return;
        }
        match self.server.edges.as_mut().map_or(EdgeEnd::NoEdge, |edges| edges.ended(pid, Some(status))) {
            EdgeEnd::NoEdge => self.workforce.ended(&mut self.server, pid, status),
            EdgeEnd::Usual => {}
            EdgeEnd::CannotServe => self.fail_without_edge(),
        }
    }

    /// Makes the server fail, because no edge has ever begun to serve.
    fn fail_without_edge(&mut self) {
        log::error!("no edge could start: fix the errors above, then start the server again");
        self.fail();
    }
}
