//! A worker, in its supervisor.

use oribi_stats::scoreboard::running::ProgressWatch;
use oribi_stats::scoreboard::{WorkerCommand, WorkerSlot, WorkerState};
use oribi_stats::totals::Counter;
use rustix::process::{Pid, Signal, kill_process};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// The time that the other threads of a worker have to finish when one of them is stuck.
const OTHERS_MAY_FINISH: Duration = Duration::from_secs(5);

/// A worker that has not been waited for yet.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) slot: WorkerSlot,
    /// Its number, counted from 1.
    pub(super) number: usize,
    pub(super) pid: Pid,
    /// The number of its shard.
    pub(super) shard: usize,
    pub(super) waker: OwnedFd,
    /// Whether its program has ended or was replaced by another one: then `waker` has no reader.
    pub(super) left: bool,
    /// Readable when the process has ended. `None` on systems without pidfds.
    pub(super) process: Option<OwnedFd>,
    pub(super) started_at: Instant,
    /// The reason for its end, if that was decided here.
    pub(super) cause: Option<Counter>,
    /// Whether a replacement of all workers includes this one.
    pub(super) outdated: bool,
    /// The time when the worker is killed if it has not finished.
    pub(super) end_by: Option<Instant>,
    /// The time when it is old enough to be replaced.
    pub(super) due: Option<Instant>,
    /// The time of the next look at its memory.
    pub(super) next_measurement: Instant,
    /// Its resident and its own memory at the last exact measurement, and the time until which that is valid if it has not
    /// grown.
    pub(super) last_measurement: Option<(Instant, u64, u64)>,
    /// Whether it was killed because it took too long to start.
    pub(super) late: bool,
    /// The last observations of its threads.
    pub(super) progress: Vec<ProgressWatch>,
    /// The number of stuck threads: if there is any, the worker ends when the others have finished.
    pub(super) stuck: usize,
}

impl Member {
    pub(super) fn new(
        slot: WorkerSlot,
        number: usize,
        pid: Pid,
        shard: usize,
        waker: OwnedFd,
        process: Option<OwnedFd>,
        started_at: Instant,
    ) -> Self {
        let progress = vec![ProgressWatch::default(); slot.running.len()];
        Self {
            slot,
            number,
            pid,
            shard,
            waker,
            left: false,
            process,
            started_at,
            cause: None,
            outdated: false,
            end_by: None,
            late: false,
            due: None,
            next_measurement: started_at,
            last_measurement: None,
            progress,
            stuck: 0,
        }
    }

    /// Returns the state of a worker that has no command to stop. `None` if it has.
    pub(super) fn serving(&self) -> Option<WorkerState> {
        (self.slot.command() == WorkerCommand::Serve).then(|| self.slot.state())
    }

    /// Whether it ends because it cannot serve. Another one starts when it has ended: only then is the failure certain.
    pub(super) fn has_given_up(&self) -> bool {
        let retires = self.slot.command() == WorkerCommand::Retire && self.end_by.is_none();
        retires && self.slot.state() == WorkerState::Starting
    }

    /// Whether it got the command to finish before it could serve, because another worker was requested in its place.
    pub(super) fn was_replaced_before_ready(&self) -> bool {
        let retires = self.slot.command() == WorkerCommand::Retire && self.end_by.is_some();
        retires && self.slot.state() == WorkerState::Starting
    }

    /// Whether it accepts connections and has no command to stop.
    pub(super) fn accepts(&self) -> bool {
        matches!(self.serving(), Some(WorkerState::Ready | WorkerState::Retiring))
    }

    /// Gives the worker a command and wakes it.
    pub(super) fn send_command(&self, command: WorkerCommand) {
        self.slot.set_command(command);
        self.wake();
    }

    /// Makes the worker read its slot.
    pub(super) fn wake(&self) {
        // If the pipe is full, the worker wakes up anyway.
        let _ = rustix::io::write(&self.waker, &[0]);
    }

    /// Commands it to finish until `end_by`.
    pub(super) fn retire(&mut self, end_by: Instant) {
        self.end_by = Some(end_by);
        self.send_command(WorkerCommand::Retire);
    }

    /// Stops a worker with a stuck thread: the others get a moment to finish, but no longer than `graceful`.
    pub(super) fn end_soon(&mut self, now: Instant, graceful: Duration) {
        let end_by = now + OTHERS_MAY_FINISH.min(graceful);
        self.end_by = Some(self.end_by.map_or(end_by, |present| present.min(end_by)));
        if self.serving().is_some() {
            self.send_command(WorkerCommand::Retire);
        }
    }

    /// Kills the worker. Returns the number of its open connections.
    pub(super) fn end(&self) -> u32 {
        let connections = self.slot.connections.load(Relaxed);
        self.slot.set_command(WorkerCommand::Quit);
        // It has not been waited for, so its process id cannot belong to another process.
        let _ = kill_process(self.pid, Signal::KILL);
        connections
    }
}
