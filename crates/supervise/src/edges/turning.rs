//! Whether the loops of edges turn. A loop runs no app, so nothing may hold it up; one that is stuck serves nobody, and only whoever
//! watches the server can end that.

use super::{Edges, Stage};
use oribi_stats::scoreboard::WorkerState;

/// What was seen of the loop of one edge.
#[derive(Debug, Default)]
pub(super) struct Turning {
    /// How often it had turned at the last look; `None`: nobody has looked.
    turns: Option<u32>,
    /// It has not turned between the last two looks.
    stuck: bool,
}

/// What a look at a loop has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Turns,
    /// Since this look it does not.
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
    /// Whether every edge is there that there should be, and the loop of each has turned since the last call. Also has each turn once
    /// until the next call, because a loop that has nothing to do sleeps.
    pub(in super::super) fn are_all_turning(&mut self) -> bool {
        if !self.are_all_there() {
            return false;
        }
        let slots = self.slots().to_vec();
        let mut all = true;
        for (number, slot) in slots.into_iter().enumerate() {
            // Whoever starts has a loop soon, and whoever ends needs none.
            if !matches!(self.stage, Stage::Serving) || slot.state() != WorkerState::Ready {
                continue;
            }
            let Some(place) = self.places.get_mut(number) else { continue };
            let Some(process) = &place.process else { continue };
            let (pid, seen) = (process.pid, place.turning.look(slot.turns()));
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
