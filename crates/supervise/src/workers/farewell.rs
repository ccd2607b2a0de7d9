//! The drain period of a supervisor.

use super::super::edges::Edges;
use super::super::farewell::{Asked, Farewell};
use super::{Stage, Supervisor};
use oribi_stats::scoreboard::{DrainState, WorkerCommand};
use std::time::Instant;

impl Supervisor<'_> {
    /// Without a master: handles the signals that stop the server.
    pub(super) fn obey_stops(&mut self) {
        let stops = matches!(self.stage, Stage::Draining | Stage::Stopping { .. });
        let now = Instant::now();
        match Asked::by_signals(&mut self.wishes, self.farewell.is_some(), stops, now) {
            Asked::Nothing => {}
            Asked::Farewell => self.say_farewell(now),
            Asked::Stop => self.end_farewell(),
            Asked::EndNow => self.end_now("told to stop a second time"),
        }
    }

    /// Begins to stop, after the drain period.
    pub(super) fn say_farewell(&mut self, now: Instant) {
        let delay = self.settings.timeouts.farewell;
        if self.farewell.is_some() {
            return;
        }
        if delay.is_zero() || !self.served || !matches!(self.stage, Stage::Serving) {
            return self.stop(WorkerCommand::Drain);
        }
        self.farewell = Some(Farewell::begin(now, delay));
        self.entitle("draining");
    }

    fn end_farewell(&mut self) {
        self.farewell = None;
        self.stop(WorkerCommand::Drain);
    }

    /// Sends the announcements that are due to workers and edges, and begins to stop when the period is over.
    pub(super) fn go_on_with_farewell(&mut self) {
        let (now, mut news) = (Instant::now(), None);
        match &mut self.farewell {
            Some(farewell) if farewell.is_over(now) || !matches!(self.stage, Stage::Serving) => self.end_farewell(),
            Some(farewell) => news = farewell.news(now),
            None => {}
        }
        if let Some(drain_state) = news {
            self.set_drain_state(drain_state);
        }
    }

    /// Announces to workers and edges whether the server is about to end.
    pub(super) fn set_drain_state(&mut self, drain_state: DrainState) {
        self.edges.iter().for_each(|edges: &Edges| edges.set_drain_state(drain_state));
        // All slots share this value, and workers that start later read it, too.
        if let Some(slot) = self.scoreboard.slots().first() {
            slot.set_drain_state(drain_state);
        }
        self.members.iter().for_each(super::Member::wake);
    }
}
