//! What a server expects of itself: whether it is about to end.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};

/// What all processes of a server know about its end. Written by the process that forked them, read by lanes and edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Prospect {
    /// Nothing is known.
    Stays = 0,
    /// The server is about to end: probes are told, and everything else goes on as before.
    Ends = 1,
    /// And each response is the last on its connection.
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
