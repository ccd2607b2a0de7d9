//! Who sleeps, and who has to be woken.
//!
//! Who is about to sleep says so in a word of its own, looks once more whether there is something to do, and only then sleeps.
//! Who has published something looks at the word, and rings if somebody sleeps. All of these are sequentially consistent: whichever
//! comes first, either the sleeper sees what was published or the publisher sees the sleeper. Each sleep has a number, and is
//! rung for once by each who sees it.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What a sleeper waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// Nothing: it is awake.
    No,
    /// Something to do. Of the edge: whatever there is.
    Work,
    /// Room for what it has to say; it takes no request.
    Room,
    /// Either.
    WorkOrRoom,
}

impl Waits {
    pub(crate) const fn for_work(self) -> bool {
        matches!(self, Self::Work | Self::WorkOrRoom)
    }

    pub(crate) const fn for_room(self) -> bool {
        matches!(self, Self::Room | Self::WorkOrRoom)
    }
}

/// What the word of a sleeper says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sleep {
    number: u64,
    pub(crate) waits: Waits,
}

impl Sleep {
    pub(crate) const AWAKE: Self = Self { number: 0, waits: Waits::No };

    /// The next sleep.
    pub(crate) const fn next(self, waits: Waits) -> Self {
        Self { number: self.number.wrapping_add(1) & (u64::MAX >> 2), waits }
    }

    /// The end of this sleep.
    pub(crate) const fn ended(self) -> Self {
        Self { number: self.number, waits: Waits::No }
    }

    pub(crate) const fn bits(self) -> u64 {
        let waits = match self.waits {
            Waits::No => 0,
            Waits::Work => 1,
            Waits::Room => 2,
            Waits::WorkOrRoom => 3,
        };
        self.number << 2 | waits
    }

    pub(crate) const fn from_bits(bits: u64) -> Self {
        let waits = match bits & 3 {
            0 => Waits::No,
            1 => Waits::Work,
            2 => Waits::Room,
            _ => Waits::WorkOrRoom,
        };
        Self { number: bits >> 2, waits }
    }

    /// Whether somebody sleeps for whom this process has not rung yet.
    pub(crate) fn is_to_be_woken(self, rung: Self) -> bool {
        self.waits != Waits::No && self != rung
    }
}

/// What wakes a sleeper: a descriptor that it waits at, beside others. Watched edge-triggered, it need not be read: each ring
/// is news.
#[derive(Debug)]
pub(crate) struct Bell(OwnedFd);

impl Bell {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    pub(crate) fn ring(&self) {
        // It can fail only where nobody has read it for 2^64 rings: it rings still.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

impl AsFd for Bell {
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
        for sleep in [Sleep::AWAKE, first, second] {
            assert_eq!(Sleep::from_bits(sleep.bits()), sleep);
        }
    }
}
