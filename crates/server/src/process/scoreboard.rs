//! The control block that the supervisor shares with its workers: one slot of atomics for each.

use std::sync::atomic::{AtomicU32, AtomicU64};

/// What a worker is doing. Written by the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum WorkerState {
    /// No process uses this slot.
    Vacant = 0,
    /// Forked, not yet accepting.
    Starting = 1,
    /// Accepting.
    Ready = 2,
    /// Still accepting, and asks to be replaced: it has answered as many requests as it should.
    Retiring = 3,
    /// Finishes what it has, accepts nothing.
    Draining = 4,
}

/// What a worker is told to do. Written by the supervisor, or by the worker's own signal handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum WorkerCommand {
    /// Accept and answer.
    Serve = 0,
    /// Accept what waits in the queue of the listeners, close them, answer what has been accepted, then end.
    Drain = 1,
    /// Stop accepting but leave the queue to the other workers; answer what has been accepted, then end.
    Retire = 2,
    /// End now.
    Quit = 3,
}

/// A worker's part of the scoreboard.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct WorkerSlot {
    /// The process id, 0 in a vacant slot.
    pub pid: AtomicU32,
    /// A [`WorkerState`].
    pub state: AtomicU32,
    /// A [`WorkerCommand`].
    pub command: AtomicU32,
    /// Connections open now.
    pub connections: AtomicU32,
    /// Requests answered since the worker started.
    pub requests: AtomicU64,
}
