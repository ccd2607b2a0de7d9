//! Announces to all processes that the server is about to end.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};

/// How far the end of a server has been announced. Written by the process that forked the others, read by lanes and edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Prospect {
    /// The server keeps running.
    Stays = 0,
    /// The server is about to end: readiness probes fail, and everything else continues as before.
    Ends = 1,
    /// In addition, each response is the last one on its connection.
    Parts = 2,
}

impl Prospect {
    pub(super) fn read(place: &AtomicU32) -> Self {
        match place.load(Acquire) {
            0 => Self::Stays,
            1 => Self::Ends,
            _ => Self::Parts,
        }
    }

    pub(super) fn write(self, place: &AtomicU32) {
        place.store(self as u32, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let place = AtomicU32::new(0);
        assert_eq!(Prospect::read(&place), Prospect::Stays);
        for prospect in [Prospect::Ends, Prospect::Parts, Prospect::Stays] {
            prospect.write(&place);
            assert_eq!(Prospect::read(&place), prospect);
        }
    }
}
