//! Handles the ends of workers.

use super::super::describe_end;
use super::super::server::{Phase, Server};
use super::Workers;
use oribi_config::counted;
use oribi_stats::scoreboard::{WorkerCommand, WorkerState};
use rustix::io::Errno;
use rustix::process::{WaitOptions, WaitStatus, waitpid};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// The number of workers, besides those that there should be, that signals may kill in a row before they serve.
const KILLS: usize = 3;

impl Workers<'_> {
    /// Waits for workers that have ended, and records them.
    pub(super) fn reap_workers(&mut self, server: &mut Server<'_>) {
        let mut index = 0;
        while index < self.members.len() {
            match waitpid(Some(self.members[index].pid), WaitOptions::NOHANG) {
                Ok(None) => index += 1,
                Ok(Some((_, status))) => self.worker_ended(server, index, Some(status)),
                Err(Errno::INTR) => {}
                // An app may have set SIGCHLD to be ignored: then the exit status is lost.
                Err(_) => self.worker_ended(server, index, None),
            }
        }
    }

    /// Records that a worker has ended, and decides whether and when another one starts. `status` is `None` if the exit status
    /// is lost.
    pub(super) fn worker_ended(&mut self, server: &mut Server<'_>, index: usize, status: Option<WaitStatus>) {
        let member = self.members.remove(index);
        let given_up = member.was_replaced_before_ready();
        let (state, command) = (member.slot.state(), member.slot.command());
        let (requests, connections) = (member.slot.requests.load(Relaxed), member.slot.connections.load(Relaxed));
        member.slot.vacate();
        let (number, pid) = (member.number, member.pid);
        let well = status.is_none_or(|status| status.exit_status() == Some(0));
        let as_told = well && (state != WorkerState::Starting || command != WorkerCommand::Serve);
        let ended_here = command == WorkerCommand::Quit && !member.late || given_up;
        self.count_end(server, &member, state, !as_told && !ended_here);
        let (now, started) = (Instant::now(), state != WorkerState::Starting);
        if started {
            self.killed_starts = 0;
        }
        if started && matches!(command, WorkerCommand::Serve | WorkerCommand::Quit) {
            self.replace_at_once(server, now);
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
                end = format!("was killed after {seconds} s (--boot-timeout)");
            }
            end.push_str(" before it could serve");
            if let Some(reason) = self.failure_pipe.of(pid.as_raw_nonzero().get().unsigned_abs()) {
                end = format!("{end}: {reason}");
            }
            log::error!("worker {number} (pid {pid}) {end}");
        }
        match &mut server.phase {
            Phase::Serving | Phase::Draining => {}
            Phase::Leaving { .. } | Phase::Failed => return,
            Phase::Stopping { cut, .. } => {
                *cut |= connections > 0;
                return;
            }
        }
        // If the worker had `started`, its replacement is due already. If a replacement of all workers was requested while this
        // worker was starting, its end does not delay the newer workers.
        if started || member.outdated && self.replacing {
            return;
        }
        // The death of a worker by a signal does not predict the fate of its replacement; that of several in a row does.
        let killed = !member.late && status.is_some_and(|status| status.terminating_signal().is_some());
        self.killed_starts = if killed { self.killed_starts + 1 } else { 0 };
        let failed = !killed || self.killed_starts >= self.wanted.saturating_add(KILLS);
        if failed && self.start_has_failed(server, member.outdated, &format!("worker {number} {end}")) {
            return;
        }
        if self.has_too_few()
            && let Some(pause) = self.pace.failed(now, now - member.started_at)
        {
            log::warn!("the next worker starts in {:.1} s{}", pause.as_secs_f64(), self.pace.how_often());
        }
    }

    /// Requests the replacement of a worker that had served, without a pause: a request that kills its worker must not make
    /// other requests wait.
    fn replace_at_once(&mut self, server: &Server<'_>, now: Instant) {
        let serves = matches!(server.phase, Phase::Serving | Phase::Draining);
        if serves && self.has_too_few() && self.pace.lost(now) {
            log::warn!("workers end so often that some replacements wait: after twenty at once, ten are started in a second");
        }
    }
}
