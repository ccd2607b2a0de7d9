//! The drain period of a master.

use super::super::edges::Edges;
use super::super::farewell::{Asked, Farewell};
use super::super::inheritance::Word;
use super::{Generation, MOLD_GRACE, Master, Stage, entitle};
use oribi_stats::scoreboard::Prospect;
use rustix::process::WaitStatus;
use std::time::Instant;

impl Master<'_> {
    /// Handles the signals that stop the server.
    pub(super) fn obey_stops(&mut self) {
        let stops = matches!(self.stage, Stage::Draining { .. } | Stage::Stopping { .. });
        let now = Instant::now();
        match Asked::by_signals(&mut self.wishes, self.farewell.is_some(), stops, now) {
            Asked::Nothing => {}
            Asked::Farewell => self.say_farewell(now),
            Asked::Stop => self.end_farewell(),
            Asked::EndNow => {
                self.edges.iter_mut().for_each(|edges| edges.end_now("told to stop a second time"));
                self.say(Word::Quit);
                self.stage = Stage::Stopping { deadline: now + MOLD_GRACE, cut: true };
            }
        }
    }

    /// Begins to stop, after the drain period.
    pub(super) fn say_farewell(&mut self, now: Instant) {
        let delay = self.settings.timeouts.farewell;
        if self.farewell.is_some() {
            return;
        }
        if delay.is_zero() || !self.served || self.stage != Stage::Serving {
            return self.stop();
        }
        self.farewell = Some(Farewell::begin(now, delay));
        entitle(self.settings, "draining");
    }

    fn end_farewell(&mut self) {
        self.farewell = None;
        self.stop();
    }

    /// Sends the announcements that are due to edges and molds, and begins to stop when the period is over.
    pub(super) fn go_on_with_farewell(&mut self) {
        let (now, mut news) = (Instant::now(), None);
        match &mut self.farewell {
            Some(farewell) if farewell.is_over(now) || self.stage != Stage::Serving => self.end_farewell(),
            Some(farewell) => news = farewell.news(now),
            None => {}
        }
        if let Some(prospect) = news {
            self.edges.iter().for_each(|edges: &Edges| edges.foresee(prospect));
            self.generations.iter().for_each(|generation| foretell(generation, prospect));
        }
    }

    /// Sends the last announcement to a generation that has just become ready.
    pub(super) fn tell_of_farewell(&self, generation: &Generation) {
        if let Some(farewell) = &self.farewell {
            foretell(generation, farewell.told());
        }
    }
}

fn foretell(generation: &Generation, prospect: Prospect) {
    match prospect {
        Prospect::Stays => {}
        Prospect::Ends => generation.link.say(Word::Announce),
        Prospect::Parts => generation.link.say(Word::Part),
    }
}

/// Whether the end of a stopping mold means that requests were cut off. Not if it was killed by a signal after the edges have
/// ended: then no client waits for its workers.
pub(super) fn cuts_off(edges: bool, status: WaitStatus) -> bool {
    status.exit_status() != Some(0) && !(edges && status.terminating_signal().is_some())
}
