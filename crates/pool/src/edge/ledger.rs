//! What the edge knows of its slots by itself.

use crate::words::Serial;

/// Where a request is, as far as the edge has been told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Free,
    Filling,
    /// In the queue, or taken by a worker that has not said anything yet.
    Submitted,
    /// A worker has begun to answer, in one of its areas.
    Begun(u32, u32),
}

/// The present use of a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) serial: Serial,
    pub(super) state: State,
    /// Where it was put into the queue last.
    pub(super) position: u64,
    /// Nobody waits for the answer any more, but the slot is in use until its worker has finished or is gone.
    pub(super) forsaken: bool,
    /// A worker has answered that does not have the request, as far as the shared word says.
    pub(super) contested: bool,
    /// At the last audit, what is said about this slot made no sense.
    pub(super) suspicious: bool,
}

impl Record {
    pub(super) fn new(serial: Serial, state: State) -> Self {
        Self { serial, state, position: 0, forsaken: false, contested: false, suspicious: false }
    }
}

impl Default for Record {
    fn default() -> Self {
        Self::new(Serial::from_bits(0), State::Free)
    }
}
