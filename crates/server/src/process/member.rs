//! A worker as its supervisor knows it.

use crate::scoreboard::running::Sighting;
use crate::scoreboard::{WorkerCommand, WorkerSlot, WorkerState};
use rustix::process::{Pid, Signal, kill_process};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// A worker that has not been waited for.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) slot: WorkerSlot,
    /// Counted from 1.
    pub(super) number: usize,
    pub(super) pid: Pid,
    /// The number of its seat.
    pub(super) seat: usize,
    pub(super) waker: OwnedFd,
    /// Readable when it has ended; `None` where the system has no descriptors for processes.
    pub(super) process: Option<OwnedFd>,
    pub(super) born: Instant,
    /// A fresh worker is to take its place.
    pub(super) outdated: bool,
    /// When it is ended if it has not finished by itself.
    pub(super) end_by: Option<Instant>,
    /// What its threads were last seen at.
    pub(super) sightings: Vec<Sighting>,
    /// How many of them are stuck: once some are, the worker ends when the others have finished.
    pub(super) stuck: usize,
}

impl Member {
    pub(super) fn new(
        slot: WorkerSlot,
        number: usize,
        pid: Pid,
        seat: usize,
        waker: OwnedFd,
        process: Option<OwnedFd>,
        born: Instant,
    ) -> Self {
        let sightings = vec![Sighting::default(); slot.running.len()];
        Self { slot, number, pid, seat, waker, process, born, outdated: false, end_by: None, sightings, stuck: 0 }
    }

    /// Whether it has not been told to stop, and what it is doing then.
    pub(super) fn serving(&self) -> Option<WorkerState> {
        (self.slot.command() == WorkerCommand::Serve).then(|| self.slot.state())
    }

    /// Whether it takes connections and has not been told to stop.
    pub(super) fn accepts(&self) -> bool {
        matches!(self.serving(), Some(WorkerState::Ready | WorkerState::Retiring))
    }

    /// Gives the worker a command and wakes it.
    pub(super) fn tell(&self, command: WorkerCommand) {
        self.slot.set_command(command);
        self.wake();
    }

    /// Has it look at its slot.
    pub(super) fn wake(&self) {
        // A full pipe wakes it just as well.
        let _ = rustix::io::write(&self.waker, &[0]);
    }

    /// Tells it to finish what it has until then.
    pub(super) fn retire(&mut self, end_by: Instant) {
        self.end_by = Some(end_by);
        self.tell(WorkerCommand::Retire);
    }

    /// Ends it at once. Returns how many connections it had open.
    pub(super) fn end(&self) -> u32 {
        let connections = self.slot.connections.load(Relaxed);
        self.slot.set_command(WorkerCommand::Quit);
        // It has not been waited for, so its number cannot belong to another process.
        let _ = kill_process(self.pid, Signal::KILL);
        connections
    }
}
