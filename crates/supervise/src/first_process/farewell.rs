//! The drain period, and the signals that stop the server.

use super::super::edges::Edges;
use super::super::farewell::{Asked, Farewell};
use super::super::server::Stage;
use super::super::workforce::Workforce;
use super::FirstProcess;
use std::time::Instant;

impl<W: Workforce> FirstProcess<'_, W> {
    /// Handles the signals that stop the server.
    pub(super) fn obey_stops(&mut self) {
        let (stops, now) = (self.server.is_stopping(), Instant::now());
        match Asked::by_signals(&mut self.wishes, self.server.farewell.is_some(), stops, now) {
            Asked::Nothing => {}
            Asked::Farewell => self.say_farewell(now),
            Asked::Stop => self.end_farewell(),
            Asked::EndNow => self.end_now("told to stop a second time"),
        }
    }

    /// Begins to stop, after the drain period.
    pub(super) fn say_farewell(&mut self, now: Instant) {
        let server = &mut self.server;
        let delay = server.settings.timeouts.farewell;
        if server.farewell.is_some() {
            return;
        }
        if delay.is_zero() || !self.workforce.has_served() || server.stage != Stage::Serving {
            return self.stop();
        }
        server.farewell = Some(Farewell::begin(now, delay));
        server.entitle("draining");
    }

    fn end_farewell(&mut self) {
        self.server.farewell = None;
        self.stop();
    }

    /// Sends the announcements that are due to edges and workers, and begins to stop when the period is over.
    pub(super) fn go_on_with_farewell(&mut self) {
        let (now, server) = (Instant::now(), &mut self.server);
        let Some(farewell) = &mut server.farewell else { return };
        if farewell.is_over(now) || server.stage != Stage::Serving {
            return self.end_farewell();
        }
        if let Some(drain_state) = farewell.news(now) {
            server.edges.iter().for_each(|edges: &Edges| edges.set_drain_state(drain_state));
            self.workforce.set_drain_state(drain_state);
        }
    }
}
