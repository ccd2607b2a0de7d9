//! A supervisor with edges: its own, or those of its master.

use super::super::edges::{Birth, Drained, Edges};
use super::super::notices::Notices;
use super::super::reasons::Reasons;
use super::super::title::Title;
use super::{Stage, Supervisor};
use oribi_edge::keeper::{Plea, Reason};
use oribi_host::Runtime;
use oribi_io::process::orders::{WARN, tell_of_orders};
use oribi_io::process::{Fork, fork};
use oribi_stats::scoreboard::WorkerCommand;
use oribi_stats::totals::Counter;
use std::io;
use std::time::Instant;

impl Supervisor<'_> {
    /// Starts the edges that are missing.
    pub(super) fn keep_edges(&mut self) {
        let runtime = self.runtime;
        // While another server serves, clients must not wait here for the first worker.
        let serves = self.served || !self.succession.is_not_ready();
        if let Some(edges) = self.edges.as_mut().filter(|_| serves)
            && let Some(birth) = edges.keep_running(|| fork_from(runtime))
        {
            self.become_edge(birth);
        }
    }

    /// While the edges finish: stops the workers when all edges have ended.
    pub(super) fn drain_edges(&mut self) {
        let runtime = self.runtime;
        let Some(edges) = &mut self.edges else { return };
        match edges.finish_up(&self.listeners, || fork_from(runtime)) {
            (_, Some(birth)) => self.become_edge(birth),
            (Drained::NotYet, None) => {}
            (Drained::Done { cut: requests_cut }, None) => {
                self.stop_workers(WorkerCommand::Retire);
                if let Stage::Stopping { cut, .. } = &mut self.stage {
                    *cut |= requests_cut;
                }
            }
        }
    }

    /// In a new edge: releases the descriptors of the supervisor.
    fn become_edge(&mut self, birth: Birth) -> ! {
        self.members.clear();
        (self.control, self.metrics, self.certifier, self.exporter) = (None, None, None, None);
        self.succession.close();
        self.books.leave();
        self.watch = None;
        self.notices = Notices::default();
        self.reasons = Reasons::default();
        let pools = self.edges.take().map(Edges::into_pools).unwrap_or_default();
        let entitle = |role: &str| Title { role, generation: None, state: "" }.show(self.settings, Some(self.runtime));
        birth.live(self.settings, &self.listeners, pools, &self.privileges, &mut self.signals, entitle)
    }

    /// Ends the server, because no edge has ever begun to serve.
    pub(super) fn fail_without_edge(&mut self) {
        log::error!("no edge could start: fix the errors above, then start the server again");
        self.fail();
    }

    /// Handles the requests of this process's edges.
    pub(super) fn obey_edges(&mut self) {
        let pleas: Vec<Plea> = self.edges.iter().flat_map(Edges::pleas).collect();
        pleas.into_iter().for_each(|plea| self.hear_plea(plea));
    }

    /// Handles the request of an edge about a process, if it is a worker of this supervisor. A worker that is ended is
    /// replaced. If an app is stuck, the requests of the worker's other threads may finish.
    pub(super) fn hear_plea(&mut self, Plea { process, reason }: Plea) {
        let is_it = |member: &&mut super::Member| member.pid.as_raw_nonzero().get().unsigned_abs() == process;
        let Some(member) = self.members.iter_mut().find(is_it) else {
            return log::debug!("an edge has asked for something about process {process}, which is no worker here");
        };
        if member.slot.command() == WorkerCommand::Quit {
            return;
        }
        let (why, cause) = match reason {
            Reason::Slow => {
                if let Err(error) = tell_of_orders(member.pid, WARN) {
                    log::error!("worker {} (pid {process}) cannot be asked where its app is: {error}", member.number);
                }
                return;
            }
            Reason::Stuck => ("its app does not react", Counter::EndedBecauseStuck),
            Reason::Broken => ("it has written nonsense into the memory of its edge", Counter::EndedByFailure),
        };
        member.cause = Some(cause);
        log::error!("worker {} (pid {process}) is ended: {why}", member.number);
        if reason == Reason::Stuck && self.settings.threads > 1 {
            member.end_soon(Instant::now(), self.settings.timeouts.graceful);
        } else {
            member.end();
        }
    }
}

/// Forks by the language runtime, which may have threads that need care at a fork.
pub(super) fn fork_from(runtime: &dyn Runtime) -> io::Result<Fork> {
    runtime.fork().map_or_else(fork, |forked| forked.map(Fork::from_return))
}
