//! Monitors the event loops of edges, for the service manager's watchdog. A loop runs no app, so nothing may block it; one that
//! is stuck serves no client, and only another process can notice it.

use super::{Edges, Stage};
use oribi_stats::scoreboard::WorkerState;

/// The observations of the loop of one edge.
#[derive(Debug, Default)]
pub(super) struct Turning {
    /// The number of iterations at the last look. `None` before the first one.
    turns: Option<u32>,
    /// Whether there was no iteration between the last two looks.
    stuck: bool,
}

/// The result of a look at a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Turns,
    /// It has stopped since the last look.
    Stopped,
    Stands,
    TurnsAgain,
}

impl Turning {
    fn look(&mut self, turns: u32) -> Seen {
        let stands = self.turns.replace(turns) == Some(turns);
        match (std::mem::replace(&mut self.stuck, stands), stands) {
            (false, false) => Seen::Turns,
            (false, true) => Seen::Stopped,
            (true, true) => Seen::Stands,
            (true, false) => Seen::TurnsAgain,
        }
    }
}

impl Edges<'_> {
    /// Whether no edge is missing, and each loop has had an iteration since the last call. Also wakes each edge, because an
    /// idle loop sleeps, so that it has an iteration until the next call.
    pub(in super::super) fn are_all_turning(&mut self) -> bool {
        if !self.are_all_there() {
            return false;
        }
        let slots = self.slots().to_vec();
        let mut all = true;
        for (number, slot) in slots.into_iter().enumerate() {
            // An edge that starts will have a loop soon, and one that ends needs none.
            if !matches!(self.stage, Stage::Serving) || slot.state() != WorkerState::Ready {
                continue;
            }
            let Some(entry) = self.entries.get_mut(number) else { continue };
            let Some(process) = &entry.process else { continue };
            let (pid, seen) = (process.pid, entry.turning.look(slot.turns()));
            // If the pipe is full, the edge wakes up anyway.
            let _ = rustix::io::write(&process.waker, &[0]);
            match seen {
                Seen::Turns => {}
                Seen::Stopped => log::error!(
                    "the event loop of {} (pid {pid}) hangs: the service manager gets no more signs of life",
                    self.name(number)
                ),
                Seen::Stands => {}
                Seen::TurnsAgain => log::warn!("the event loop of {} (pid {pid}) turns again", self.name(number)),
            }
            all &= !matches!(seen, Seen::Stopped | Seen::Stands);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_stands_is_told_from_one_that_turns() {
        let mut turning = Turning::default();
        let seen = [0, 1, 1, 1, 2, 3, 3].map(|turns| turning.look(turns));
        assert_eq!(seen, [Seen::Turns, Seen::Turns, Seen::Stopped, Seen::Stands, Seen::TurnsAgain, Seen::Turns, Seen::Stopped]);
    }
}
