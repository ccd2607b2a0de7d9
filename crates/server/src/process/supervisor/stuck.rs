//! Ends workers whose app keeps a client waiting too long.
//!
//! No language lets an app be interrupted safely from outside, so its process must end, as in other servers. The other threads
//! of the process get a moment to finish their requests.

use super::{Stage, Supervisor};
use crate::scoreboard::WorkerCommand;
use crate::scoreboard::running;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// How long the other threads of a worker may take to finish when one of them is stuck.
const OTHERS_MAY_FINISH: Duration = Duration::from_secs(5);

/// How often to look for stuck apps: ten times within the timeout, within these bounds.
const LOOKS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

impl Supervisor<'_> {
    /// Time between two looks.
    pub(super) fn look_for_stuck(&self) -> Duration {
        (self.settings.timeouts.request / 10).clamp(LOOKS.0, LOOKS.1)
    }

    /// Looks at what the threads of all workers are running, and ends workers with a stuck thread. Their replacements start at
    /// once.
    pub(super) fn end_stuck(&mut self) {
        let allowed = self.settings.timeouts.request;
        let now = Instant::now();
        let mut ended = false;
        for member in &mut self.members {
            if member.slot.command() == WorkerCommand::Quit {
                continue;
            }
            if member.stuck > 0 {
                // Then only the connections of stuck threads are left.
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
