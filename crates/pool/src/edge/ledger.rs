//! What the edge knows about its slots without shared memory.

use crate::words::Serial;

/// Where a request is, as far as the edge knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Free,
    Filling,
    /// It waits outside of the queue.
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
    /// The position in the queue where it was last put.
    pub(super) position: u64,
    /// Nobody waits for the answer any more, but the slot stays in use until its worker has finished or is gone.
    pub(super) forsaken: bool,
    /// A worker has answered although, by the shared word, it does not have the request.
    pub(super) contested: bool,
    /// How long it waited for the worker that has begun to answer it, in nanoseconds.
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
