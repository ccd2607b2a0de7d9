//! Handles the requests of edges about workers that are slow, stuck or broken.

use super::super::member::Member;
use super::Workers;
use oribi_edge::parent_link::{Reason, WorkerRequest};
use oribi_io::process::orders::{WARN, tell_of_orders};
use oribi_stats::scoreboard::WorkerCommand;
use oribi_stats::totals::Counter;
use std::time::Instant;

impl Workers<'_> {
    /// Handles the request of an edge about a process, if the process is one of these workers. A killed worker is replaced. If
    /// an app is stuck, the requests of the worker's other threads may finish first.
    pub(super) fn handle_edge_request(&mut self, WorkerRequest { process, reason }: WorkerRequest) {
        let is_it = |member: &&mut Member| member.pid.as_raw_nonzero().get().unsigned_abs() == process;
        let Some(member) = self.members.iter_mut().find(is_it) else {
            return log::debug!("an edge has sent a request about process {process}, which is not a worker here");
        };
        if member.slot.command() == WorkerCommand::Quit {
            return;
        }
        let (why, cause) = match reason {
            Reason::Slow => {
                if let Err(error) = tell_of_orders(member.pid, WARN) {
                    log::error!("worker {} (pid {process}) cannot be asked for a backtrace: {error}", member.number);
                }
                return;
            }
            // Only a master has apps that sleep.
            Reason::Asleep => return,
            Reason::Stuck => ("its app does not react", Counter::EndedBecauseStuck),
            // These are about plans.
            Reason::Prepared | Reason::Refused | Reason::Swapped | Reason::Purged => return,
            Reason::Broken => ("it has damaged the memory of its edge", Counter::EndedByFailure),
        };
        member.cause = Some(cause);
        log::error!("worker {} (pid {process}) is stopped: {why}", member.number);
        if reason == Reason::Stuck && self.settings.most_threads() > 1 {
            member.end_soon(Instant::now(), self.settings.timeouts.graceful);
        } else {
            member.end();
        }
    }
}
