//! The reasons for the ends of workers, for the counters.

use super::super::member::Member;
use super::super::server::{Phase, Server};
use super::Workers;
use oribi_stats::scoreboard::WorkerState;
use oribi_stats::totals::Counter;

impl Workers<'_> {
    /// Counts the end of a worker whose last state was `state`. `failed`: whether no process has requested the end. Such an end
    /// counts as a failure, even if the replacement of the worker had been requested before. Only the end because of a stuck
    /// app has its own counter.
    pub(super) fn count_end(&self, server: &Server<'_>, member: &Member, state: WorkerState, failed: bool) {
        let stops = matches!(server.phase, Phase::Leaving { .. } | Phase::Stopping { .. } | Phase::Failed);
        let cause = match member.cause {
            Some(Counter::EndedBecauseStuck) => Counter::EndedBecauseStuck,
            _ if failed => Counter::EndedByFailure,
            Some(cause) => cause,
            None if state == WorkerState::Retiring => Counter::EndedByRequests,
            None if member.outdated => Counter::EndedByReload,
            None if stops => self.ends_for,
            None => Counter::EndedByStop,
        };
        member.slot.parent_account.count(cause);
        if failed {
            member.slot.parent_account.count(Counter::WorkersFailed);
        }
    }

    /// Returns the counter for the end of the worker with this index, which is about to retire.
    pub(super) fn cause_of_retirement(&self, index: usize) -> Counter {
        let member = &self.members[index];
        match member.cause {
            Some(cause) => cause,
            None if member.serving() == Some(WorkerState::Retiring) => Counter::EndedByRequests,
            None if member.outdated => Counter::EndedByReload,
            None => Counter::EndedByScale,
        }
    }
}
