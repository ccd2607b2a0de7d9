//! The edge's own records of its slots, outside of shared memory.

use crate::words::Serial;

/// The state of a request, as far as the edge knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Free,
    Filling,
    /// Waiting outside of the queue.
    Aside,
    /// In the queue, or taken by a worker that has not yet begun to answer.
    Submitted,
    /// A worker has begun to answer, in one of its areas.
    Begun(u32, u32),
}

/// The current use of a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) serial: Serial,
    pub(super) state: State,
    /// The position in the queue where the request was last put.
    pub(super) position: u64,
    /// No client waits for the answer, but the slot stays in use until its worker has finished or ended.
    pub(super) forsaken: bool,
    /// A worker has answered although the shared word does not name it as the owner.
    pub(super) contested: bool,
    /// The time, in nanoseconds, from the arrival of the request until a worker took it; `None` until that worker has begun to
    /// answer.
    pub(super) waited: Option<u64>,
    /// The place of that worker.
    pub(super) worker: u32,
    /// The last audit found a contradiction about this slot.
    pub(super) suspicious: bool,
}

impl Record {
    pub(super) fn new(serial: Serial, state: State) -> Self {
        Self { serial, state, position: 0, forsaken: false, contested: false, waited: None, worker: 0, suspicious: false }
    }
}

impl Default for Record {
    fn default() -> Self {
        Self::new(Serial::from_bits(0), State::Free)
    }
}
