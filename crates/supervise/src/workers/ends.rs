//! Handles the ends of workers.

use super::super::certifier::Certifier;
use super::super::edges::{Edges, End};
use super::super::exporter::Exporter;
use super::super::{describe_end, upgrade};
use super::{Stage, Supervisor};
use oribi_config::counted;
use oribi_stats::scoreboard::{WorkerCommand, WorkerState};
use rustix::io::Errno;
use rustix::process::{WaitOptions, WaitStatus, waitpid};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

impl Supervisor<'_> {
    /// Records workers that have ended.
    pub(super) fn reap(&mut self) {
        if rustix::process::getpid().is_init() || self.succession.is_possible() {
            self.reap_all();
        }
        self.certifier.iter_mut().for_each(Certifier::reap);
        self.exporter.iter_mut().for_each(Exporter::reap);
        if self.edges.as_mut().is_some_and(Edges::reap) {
            self.fail_without_edge();
        }
        let mut index = 0;
        while index < self.members.len() {
            match waitpid(Some(self.members[index].pid), WaitOptions::NOHANG) {
                Ok(None) => index += 1,
                Ok(Some((_, status))) => self.worker_ended(index, Some(status)),
                Err(Errno::INTR) => {}
                // An app may have set SIGCHLD to be ignored: then the exit status is lost.
                Err(_) => self.worker_ended(index, None),
            }
        }
    }

    /// Waits for other servers, and for orphans: process 1 inherits all those of the system, and a guardian those of this
    /// server.
    fn reap_all(&mut self) {
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            if upgrade::note_end(self, pid, status) {
                continue;
            }
            if self.certifier.as_mut().is_some_and(|certifier| certifier.ended(pid, Some(status))) {
                continue;
            }
            if self.exporter.as_mut().is_some_and(|exporter| exporter.ended(pid, Some(status))) {
                continue;
            }
            match self.edges.as_mut().map_or(End::NoEdge, |edges| edges.ended(pid, Some(status))) {
                End::NoEdge => {}
                End::Usual => continue,
                End::CannotServe => self.fail_without_edge(),
            }
            if let Some(index) = self.members.iter().position(|member| member.pid == pid) {
                self.worker_ended(index, Some(status));
            }
        }
    }

    pub(super) fn worker_ended(&mut self, index: usize, status: Option<WaitStatus>) {
        let member = self.members.remove(index);
        let given_up = member.was_given_up();
        let (state, command) = (member.slot.state(), member.slot.command());
        let (requests, connections) = (member.slot.requests.load(Relaxed), member.slot.connections.load(Relaxed));
        member.slot.vacate();
        let (number, pid) = (member.number, member.pid);
        let well = status.is_none_or(|status| status.exit_status() == Some(0));
        let as_told = well && (state != WorkerState::Starting || command != WorkerCommand::Serve);
        let ended_here = command == WorkerCommand::Quit && !member.late || given_up;
        self.count_end(&member, state, !as_told && !ended_here);
        let (now, started) = (Instant::now(), state != WorkerState::Starting);
        if started && matches!(command, WorkerCommand::Serve | WorkerCommand::Quit) {
            self.replace_at_once(now);
        }
        if as_told {
            log::debug!("worker {number} (pid {pid}) ended after {}", counted(requests as usize, "request"));
            return;
        }
        if ended_here {
            return;
        }
        let mut end = status.map_or_else(|| "ended".to_owned(), describe_end);
        if started {
            let (requests, open) = (counted(requests as usize, "request"), counted(connections as usize, "connection"));
            match self.pace.end_of_line(now) {
                Some(rest) => log::error!("worker {number} (pid {pid}) {end} after {requests}, with {open} open{rest}"),
                None => log::debug!("worker {number} (pid {pid}) {end} after {requests}, with {open} open"),
            }
        } else {
            if member.late {
                let seconds = self.settings.life.boot_timeout.as_secs_f64();
                end = format!("was ended after {seconds} s (--boot-timeout)");
            }
            end.push_str(" before it could serve");
            if let Some(reason) = self.reasons.of(pid.as_raw_nonzero().get().unsigned_abs()) {
                end = format!("{end}: {reason}");
            }
            log::error!("worker {number} (pid {pid}) {end}");
        }
        match &mut self.stage {
            Stage::Serving | Stage::Draining => {}
            Stage::Leaving { .. } | Stage::Failed => return,
            Stage::Stopping { cut, .. } => {
                *cut |= connections > 0;
                return;
            }
        }
        // Newer workers were requested, and have begun to start: they must not wait.
        if started || member.outdated && self.replacing {
            return;
        }
        // The death of a worker by a signal does not predict the fate of its replacement.
        let failed = member.late || status.is_none_or(|status| status.terminating_signal().is_none());
        if failed && self.start_has_failed(member.outdated, &format!("worker {number} {end}")) {
            return;
        }
        if self.lacks_workers()
            && let Some(pause) = self.pace.failed(now, now - member.born)
        {
            log::warn!("the next one starts in {:.1} s{}", pause.as_secs_f64(), self.pace.how_often());
        }
    }

    /// Replaces a worker that had served. Its replacement waits for no pause, so that a request that ends its worker does not
    /// keep others waiting.
    fn replace_at_once(&mut self, now: Instant) {
        let serves = matches!(self.stage, Stage::Serving | Stage::Draining);
        if serves && self.lacks_workers() && self.pace.lost(now) {
            log::warn!("workers end so often that some replacements wait: after twenty at once, ten are started in a second");
        }
    }
}
