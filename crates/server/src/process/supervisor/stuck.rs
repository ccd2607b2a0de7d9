//! Apps that keep a client waiting too long: their worker is ended.
//!
//! An app cannot be interrupted from outside in a way that every language survives, so that its process has to go, as in other
//! servers. With it goes what its other threads are doing: they are given a moment to finish.

use super::{Stage, Supervisor};
use crate::scoreboard::WorkerCommand;
use crate::scoreboard::running;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// How long the other threads of a worker may take to finish when one of them is stuck.
const OTHERS_MAY_FINISH: Duration = Duration::from_secs(5);

/// How often is looked for apps that are stuck: ten times in the time that they have, within these bounds.
const LOOKS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

impl Supervisor<'_> {
    /// Time between two looks.
    pub(super) fn look_for_stuck(&self) -> Duration {
        (self.settings.timeouts.request / 10).clamp(LOOKS.0, LOOKS.1)
    }

    /// Looks at what the threads of all workers are running, and ends workers of which one is stuck. Their replacements start
    /// at once.
    pub(super) fn end_stuck(&mut self) {
        let allowed = self.settings.timeouts.request;
        let now = Instant::now();
        let mut ended = false;
        for member in &mut self.members {
            if member.slot.command() == WorkerCommand::Quit {
                continue;
            }
            if member.stuck > 0 {
                // Who has not finished is who is stuck.
                if member.slot.connections.load(Relaxed) as usize <= member.stuck {
                    member.end();
                }
                continue;
            }
            let lines = member.slot.running.iter().zip(&mut member.sightings);
            let stuck = lines.filter_map(|(line, sighting)| (sighting.look(line, now) >= allowed).then_some(line));
            let stuck: Vec<String> = stuck.map(running::text_of).collect();
            if stuck.is_empty() {
                continue;
            }
            member.stuck = stuck.len();
            let (number, pid, seconds) = (member.number, member.pid, allowed.as_secs_f64());
            log::error!("worker {number} (pid {pid}) is ended: its app has done nothing for {seconds} s: {}", stuck.join(", "));
            ended = true;
            if stuck.len() == member.slot.running.len() {
                member.end();
            } else {
                let end_by = now + OTHERS_MAY_FINISH.min(self.settings.timeouts.graceful);
                member.end_by = member.end_by.map_or(Some(end_by), |present| Some(present.min(end_by)));
                if member.serving().is_some() {
                    member.tell(WorkerCommand::Retire);
                }
            }
        }
        if let Stage::Stopping { cut, .. } = &mut self.stage {
            *cut |= ended;
        }
    }
}
