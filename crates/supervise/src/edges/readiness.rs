//! Asks the edges whether they are ready, as a readiness probe would.

use super::Edges;
use oribi_admin::control::ReadinessProgress;
use oribi_control_api::Health;
use oribi_stats::scoreboard::{Readiness, WorkerState};

impl Edges<'_> {
    /// Asks all edges, and wakes them.
    pub(in super::super) fn ask_readiness(&mut self) {
        // The numbers of questions have 30 bits, and 0 is none.
        self.question = (self.question + 1) & (u32::MAX >> 2);
        self.question = self.question.max(1);
        for (entry, slot) in self.entries.iter().zip(self.slots()) {
            slot.readiness.ask(self.question);
            if let Some(process) = &entry.process {
                // If the pipe is full, the edge wakes up anyway.
                let _ = rustix::io::write(&process.waker, &[0]);
            }
        }
    }

    /// Returns the answers of the edges to the last question. Clients may reach any edge, so one that is not ready decides.
    pub(in super::super) fn readiness(&self) -> ReadinessProgress {
        let mut pending = None;
        for (number, (entry, slot)) in self.entries.iter().zip(self.slots()).enumerate() {
            let name = self.name(number);
            let Some(process) = &entry.process else {
                return ReadinessProgress::Known(Health::not_ready("alive", format!("{name} is being replaced")));
            };
            match slot.readiness.answer(self.question) {
                Some(Readiness::Ready) => {}
                Some(Readiness::Alive) => {
                    return ReadinessProgress::Known(Health::not_ready("alive", "workers take no requests"));
                }
                Some(Readiness::Draining) => {
                    return ReadinessProgress::Known(Health::not_ready("draining", "the server is about to stop"));
                }
                None if slot.state() == WorkerState::Starting => {
                    return ReadinessProgress::Known(Health::not_ready("alive", format!("{name} is starting")));
                }
                None => pending = Some(format!("{name} (pid {})", process.pid)),
            }
        }
        pending.map_or(ReadinessProgress::Known(Health::READY), ReadinessProgress::Pending)
    }
}
