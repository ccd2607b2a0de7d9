//! Stops the edges first, then the workforce.

use super::super::edges::Edges;
use super::super::server::Phase;
use super::super::workforce::Finish;
use super::FirstProcess;
use oribi_stats::scoreboard::DrainState;
use std::time::Instant;

impl FirstProcess<'_> {
    /// Begins to stop: the edges first, if there are any. If the workforce would not answer the waiting requests of the edges,
    /// it stops at the same time.
    pub(super) fn stop(&mut self) {
        let Self { server, workforce, .. } = self;
        if server.is_stopping() {
            return;
        }
        server.set_title("stopping");
        server.notifier.stopping();
        let graceful = server.settings.timeouts.graceful;
        let Some(edges) = &mut server.edges else { return workforce.stop(server, Finish::Last) };
        log::info!("stopping: the edges finish what they have begun");
        let deadline = *server.stop_by.get_or_insert_with(|| Instant::now() + graceful);
        edges.drain(&mut server.listeners, deadline);
        server.phase = Phase::Draining;
        // The edges wait for answers that have no end, such as event streams, which only the apps can end.
        workforce.set_drain_state(DrainState::Closing);
        if !workforce.answers_those_waiting() {
            edges.stop_awaiting_clients();
            workforce.stop(server, Finish::AfterEdges);
        }
    }

    /// Begins a slow stop, if the settings have a spawn interval and the workforce can stop slowly. Returns whether it has
    /// begun.
    pub(super) fn leave_slowly(&mut self) -> bool {
        let wanted = !self.server.settings.spawn_interval.is_zero();
        wanted && self.workforce.leave_slowly(&mut self.server)
    }

    /// While stopping: returns the exit status when everything has ended.
    pub(super) fn finish_up(&mut self) -> Option<i32> {
        let Self { server, workforce, .. } = self;
        if !workforce.finish_up(server) {
            return None;
        }
        if !server.is_alone() {
            // No process is left to answer requests of the edges.
            server.edges.iter_mut().for_each(|edges| edges.end_now("no app is left to answer"));
            return None;
        }
        Some(i32::from(matches!(server.phase, Phase::Stopping { cut: true, .. })))
    }

    /// Kills everything without waiting for requests.
    pub(super) fn end_now(&mut self, reason: &str) {
        let Self { server, workforce, .. } = self;
        server.edges.iter_mut().for_each(|edges: &mut Edges| edges.end_now(reason));
        workforce.end_now(server, reason);
    }

    /// Makes the server fail: it kills the edges, stops the workforce, and ends with status 1.
    pub(super) fn fail(&mut self) {
        self.server.fail();
        self.workforce.give_up();
    }
}
