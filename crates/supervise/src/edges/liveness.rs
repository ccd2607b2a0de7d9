//! Monitors the event loops of edges, for the service manager's watchdog. A loop runs no app, so nothing may block it. A stuck
//! loop serves no client, and only another process can notice that.

use super::{Edges, EdgesPhase};
use oribi_stats::scoreboard::WorkerState;

/// The observations of the loop of one edge.
#[derive(Debug, Default)]
pub(super) struct LoopMonitor {
    /// The number of iterations at the last check. `None` before the first one.
    iterations: Option<u32>,
    /// Whether there was no iteration between the last two checks.
    stuck: bool,
}

/// The result of a check of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoopState {
    Running,
    /// It has stopped since the last check.
    Hung,
    StillHung,
    Recovered,
}

impl LoopMonitor {
    fn check(&mut self, iterations: u32) -> LoopState {
        let hangs = self.iterations.replace(iterations) == Some(iterations);
        match (std::mem::replace(&mut self.stuck, hangs), hangs) {
            (false, false) => LoopState::Running,
            (false, true) => LoopState::Hung,
            (true, true) => LoopState::StillHung,
            (true, false) => LoopState::Recovered,
        }
    }
}

impl Edges<'_> {
    /// Whether no edge is missing, and each loop has had an iteration since the last call. Also wakes each edge, so that even
    /// an idle loop has an iteration until the next call.
    pub(in super::super) fn are_all_live(&mut self) -> bool {
        if !self.are_all_there() {
            return false;
        }
        let slots = self.slots().to_vec();
        let mut all = true;
        for (number, slot) in slots.into_iter().enumerate() {
            // An edge that starts will have a loop soon, and one that ends needs none.
            if !matches!(self.phase, EdgesPhase::Serving) || slot.state() != WorkerState::Ready {
                continue;
            }
            let Some(entry) = self.entries.get_mut(number) else { continue };
            let Some(process) = &entry.process else { continue };
            let (pid, loop_state) = (process.pid, entry.monitor.check(slot.iterations()));
            // If the pipe is full, the edge wakes up anyway.
            let _ = rustix::io::write(&process.waker, &[0]);
            match loop_state {
                LoopState::Running => {}
                LoopState::Hung => log::error!(
                    "the event loop of {} (pid {pid}) hangs: the service manager gets no more signs of life",
                    self.name(number)
                ),
                LoopState::StillHung => {}
                LoopState::Recovered => log::warn!("the event loop of {} (pid {pid}) turns again", self.name(number)),
            }
            all &= !matches!(loop_state, LoopState::Hung | LoopState::StillHung);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_hangs_is_distinguished_from_one_that_runs() {
        let mut monitor = LoopMonitor::default();
        let loop_state = [0, 1, 1, 1, 2, 3, 3].map(|iterations| monitor.check(iterations));
        assert_eq!(
            loop_state,
            [
                LoopState::Running,
                LoopState::Running,
                LoopState::Hung,
                LoopState::StillHung,
                LoopState::Recovered,
                LoopState::Running,
                LoopState::Hung
            ]
        );
    }
}
