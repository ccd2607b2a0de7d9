//! A worker, as its supervisor sees it.

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
    /// The number of the worker, counted from 1.
    pub(super) number: usize,
    pub(super) pid: Pid,
    /// The index of the shard of the worker.
    pub(super) shard: usize,
    pub(super) waker: OwnedFd,
    /// Whether the worker's program has ended or was replaced by another one, so that no process reads from `waker`.
    pub(super) left: bool,
    /// A pidfd, readable when the process has ended. `None` on systems without pidfds.
    pub(super) process: Option<OwnedFd>,
    pub(super) started_at: Instant,
    /// The reason for the worker's end, if this process has decided it.
    pub(super) cause: Option<Counter>,
    /// Whether a replacement of all workers includes this one.
    pub(super) outdated: bool,
    /// The time when the worker is killed if it has not finished.
    pub(super) end_by: Option<Instant>,
    /// The time when the worker is old enough to be replaced. `None` without `--max-lifetime`.
    pub(super) due: Option<Instant>,
    /// The time of the next look at the worker's memory.
    pub(super) next_measurement: Instant,
    /// The last exact measurement of the worker's memory: the time until which it is valid, then the resident memory and the
    /// PSS in bytes. It is valid for a shorter time if the worker has grown.
    pub(super) last_measurement: Option<(Instant, u64, u64)>,
    /// Whether it was killed because it took too long to start.
    pub(super) late: bool,
    /// The last observations of the worker's threads.
    pub(super) progress: Vec<ProgressWatch>,
    /// The number of stuck threads. If there are any, the worker ends when the other threads have finished.
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

    /// Returns the state of the worker while it has no command to stop. `None` if it has such a command.
    pub(super) fn serving(&self) -> Option<WorkerState> {
        (self.slot.command() == WorkerCommand::Serve).then(|| self.slot.state())
    }

    /// Whether the worker ends because it cannot serve. Its replacement starts only when it has ended, because only then is the
    /// failure certain.
    pub(super) fn has_given_up(&self) -> bool {
        let retires = self.slot.command() == WorkerCommand::Retire && self.end_by.is_none();
        retires && self.slot.state() == WorkerState::Starting
    }

    /// Whether the worker got the command to finish before it could serve, because another worker was requested in its place.
    pub(super) fn was_replaced_before_ready(&self) -> bool {
        let retires = self.slot.command() == WorkerCommand::Retire && self.end_by.is_some();
        retires && self.slot.state() == WorkerState::Starting
    }

    /// Whether the worker accepts connections and has no command to stop.
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

    /// Commands the worker to finish. It is killed at `end_by`.
    pub(super) fn retire(&mut self, end_by: Instant) {
        self.end_by = Some(end_by);
        self.send_command(WorkerCommand::Retire);
    }

    /// Stops a worker with a stuck thread: its other threads get a moment to finish, but no longer than `graceful`.
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
        // The worker has not been waited for, so its process id cannot belong to another process.
        let _ = kill_process(self.pid, Signal::KILL);
        connections
    }
}
