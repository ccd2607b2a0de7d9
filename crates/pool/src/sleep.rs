//! The announcement of sleep, and the wake-up of sleepers.
//!
//! A process that is about to sleep announces it in its own word, checks once more for something to do, and only then sleeps. A
//! process that has published something for another one reads the word of the other process, and rings if that process sleeps.
//! All of these accesses are sequentially consistent: in any order, either the sleeper sees the publication or the publisher
//! sees the sleeper. Only the position up to which the edge has read an area is written with a weaker order, because that
//! happens for each frame; a fence follows before the edge looks for sleepers. Each sleep has a number, and a process rings for
//! it at most once.
//!
//! The edge first *dozes*: it sleeps for a short time only. Meanwhile a worker that has answered a request and sees another
//! request in the queue takes that request instead of ringing, so that the edge wakes once for several answers. When the worker
//! has nothing more to take, it rings. If the app takes long with a request, the doze ends without a ring. The edge then sleeps
//! without a limit, and each answer rings.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The events that end a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// Nothing: the process is awake.
    No,
    /// Something to do; for the edge, any publication of a worker.
    Work,
    /// Room for more of an answer; the worker takes no request.
    Room,
    /// Work or room.
    WorkOrRoom,
    /// Any publication, but for a short time only: a worker that has more to do need not ring. Only the edge dozes.
    Dozes,
}

impl Waits {
    pub(crate) const fn for_work(self) -> bool {
        matches!(self, Self::Work | Self::WorkOrRoom)
    }

    pub(crate) const fn for_room(self) -> bool {
        matches!(self, Self::Room | Self::WorkOrRoom)
    }
}

/// The content of a sleeper's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sleep {
    number: u64,
    pub(crate) waits: Waits,
}

impl Sleep {
    pub(crate) const AWAKE: Self = Self { number: 0, waits: Waits::No };

    /// The word of the next sleep.
    pub(crate) const fn next(self, waits: Waits) -> Self {
        Self { number: self.number.wrapping_add(1) & (u64::MAX >> 3), waits }
    }

    /// The word at the end of this sleep.
    pub(crate) const fn ended(self) -> Self {
        Self { number: self.number, waits: Waits::No }
    }

    pub(crate) const fn bits(self) -> u64 {
        let waits = match self.waits {
            Waits::No => 0,
            Waits::Work => 1,
            Waits::Room => 2,
            Waits::WorkOrRoom => 3,
            Waits::Dozes => 4,
        };
        self.number << 3 | waits
    }

    pub(crate) const fn from_bits(bits: u64) -> Self {
        let waits = match bits & 7 {
            0 => Waits::No,
            1 => Waits::Work,
            2 => Waits::Room,
            4 => Waits::Dozes,
            _ => Waits::WorkOrRoom,
        };
        Self { number: bits >> 3, waits }
    }

    /// Whether the other process sleeps and this process has not yet rung for that sleep.
    pub(crate) fn is_to_be_woken(self, rung: Self) -> bool {
        self.waits != Waits::No && self != rung
    }
}

/// The doorbell of a sleeper: a descriptor that it watches along with others. If it is watched edge-triggered, it need not
/// be read, because each ring is a new event.
#[derive(Debug)]
pub(crate) struct Doorbell(OwnedFd);

impl Doorbell {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    pub(crate) fn ring(&self) {
        // The write can fail only after 2^64 unread rings: then the descriptor is readable in any case.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

impl From<OwnedFd> for Doorbell {
    fn from(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sleep_is_rung_for_once() {
        let first = Sleep::AWAKE.next(Waits::Work);
        assert!(first.is_to_be_woken(Sleep::AWAKE) && !first.is_to_be_woken(first));
        assert!(!first.ended().is_to_be_woken(Sleep::AWAKE));
        let second = first.ended().next(Waits::WorkOrRoom);
        assert!(second.is_to_be_woken(first));
        for sleep in [Sleep::AWAKE, first, second, second.next(Waits::Dozes)] {
            assert_eq!(Sleep::from_bits(sleep.bits()), sleep);
        }
    }
}
