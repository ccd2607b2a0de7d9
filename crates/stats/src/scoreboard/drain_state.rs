//! Announces to all processes that the server is about to end.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};

/// How far the end of a server has been announced. The process that forked the others writes this value; lanes and edges read
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum DrainState {
    /// The server keeps running.
    Serving = 0,
    /// The server is about to end: readiness probes fail, and everything else continues as before.
    Announced = 1,
    /// In addition, each response is the last one on its connection.
    Closing = 2,
}

impl DrainState {
    pub(super) fn read(word: &AtomicU32) -> Self {
        match word.load(Acquire) {
            0 => Self::Serving,
            1 => Self::Announced,
            _ => Self::Closing,
        }
    }

    pub(super) fn write(self, word: &AtomicU32) {
        word.store(self as u32, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let word = AtomicU32::new(0);
        assert_eq!(DrainState::read(&word), DrainState::Serving);
        for drain_state in [DrainState::Announced, DrainState::Closing, DrainState::Serving] {
            drain_state.write(&word);
            assert_eq!(DrainState::read(&word), drain_state);
        }
    }
}
