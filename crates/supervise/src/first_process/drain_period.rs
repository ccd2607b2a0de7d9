//! The drain period, and the signals that stop the server.

use super::super::drain_period::{DrainPeriod, StopAction};
use super::super::edges::Edges;
use super::super::server::Phase;
use super::FirstProcess;
use std::time::Instant;

impl FirstProcess<'_> {
    /// Handles the signals that stop the server.
    pub(super) fn handle_stop_signals(&mut self) {
        let (stops, now) = (self.server.is_stopping(), Instant::now());
        match StopAction::from_signals(&mut self.stop_requests, self.server.drain_period.is_some(), stops, now) {
            StopAction::Nothing => {}
            StopAction::Drain => self.begin_to_drain(now),
            StopAction::Stop => self.end_drain_period(),
            StopAction::EndNow => self.end_now("told to stop a second time"),
        }
    }

    /// Begins the drain period, after which the server stops. Without a drain period the server stops now.
    pub(super) fn begin_to_drain(&mut self, now: Instant) {
        let server = &mut self.server;
        let delay = server.settings.timeouts.shutdown_delay;
        if server.drain_period.is_some() {
            return;
        }
        if delay.is_zero() || !self.workforce.has_served() || server.phase != Phase::Serving {
            return self.stop();
        }
        server.drain_period = Some(DrainPeriod::begin(now, delay));
        server.set_title("draining");
    }

    fn end_drain_period(&mut self) {
        self.server.drain_period = None;
        self.stop();
    }

    /// Sends the announcements that are due to edges and workers, and begins to stop when the period is over.
    pub(super) fn advance_drain_period(&mut self) {
        let (now, server) = (Instant::now(), &mut self.server);
        let Some(drain_period) = &mut server.drain_period else { return };
        if drain_period.is_over(now) || server.phase != Phase::Serving {
            return self.end_drain_period();
        }
        if let Some(drain_state) = drain_period.due_announcement(now) {
            server.edges.iter().for_each(|edges: &Edges| edges.set_drain_state(drain_state));
            self.workforce.set_drain_state(drain_state);
        }
    }
}
