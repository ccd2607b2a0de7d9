//! The meaning of the shared words. A stranger may write any bits into a word, so reading a word never fails: bits without a
//! meaning are read as `None` or as `Senseless`.

/// Bits of a serial number. Each use of a slot has the next number: at a million requests a second, the numbers begin anew
/// after twelve days. Two uses of a slot with the same number are confused only if the older one is still in the pool.
const SERIAL_BITS: u32 = 40;

/// The serial number of one use of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Serial(u64);

impl Serial {
    /// The next number; never zero, which is the content of new memory.
    pub(crate) fn next(self) -> Self {
        Self(((self.0 + 1) & ((1 << SERIAL_BITS) - 1)).max(1))
    }

    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits & ((1 << SERIAL_BITS) - 1))
    }
}

/// One use of a slot, as the queue and the workers name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Entry {
    pub(crate) slot: u32,
    pub(crate) serial: Serial,
}

impl Entry {
    pub(crate) const fn bits(self) -> u64 {
        self.serial.0 << 24 | (self.slot as u64) << 8 | 1
    }

    /// `None` if these bits are not an entry. The slot may be out of range.
    pub(crate) const fn from_bits(bits: u64) -> Option<Self> {
        if bits & 0xFF != 1 {
            return None;
        }
        Some(Self { slot: (bits >> 8) as u32 & 0xFFFF, serial: Serial(bits >> 24) })
    }
}

/// The owner of a slot. A worker changes it only by compare-and-swap. The edge does so as well while the request is queued,
/// because a worker may take it at the same time; in other states the edge simply writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// The edge: the slot is free, being filled, or was withdrawn.
    Edge(Serial),
    /// The edge: the request waits, but not in the queue.
    Aside(Serial),
    /// No process: a worker that takes the request becomes the owner.
    Queued(Serial),
    /// A worker, until it reports the end of the request, or its process has ended.
    Taken(Serial, u32),
    /// A stranger has written here.
    Senseless,
}

impl Ownership {
    #[inline(always)]
    pub(crate) const fn bits(self) -> u64 {
        match self {
            Self::Edge(serial) => serial.0 << 24,
            Self::Aside(serial) => serial.0 << 24 | 3,
            Self::Queued(serial) => serial.0 << 24 | 1,
            Self::Taken(serial, worker) => serial.0 << 24 | (worker as u64 & 0xFFFF) << 8 | 2,
            Self::Senseless => u64::MAX,
        }
    }

    #[inline]
    pub(crate) const fn from_bits(bits: u64) -> Self {
        let (serial, worker) = (Serial(bits >> 24), (bits >> 8) as u32 & 0xFFFF);
        match (bits & 0xFF, worker) {
            (0, 0) => Self::Edge(serial),
            (1, 0) => Self::Queued(serial),
            (2, worker) => Self::Taken(serial, worker),
            (3, 0) => Self::Aside(serial),
            _ => Self::Senseless,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_what_was_written() {
        for serial in [1, 2, (1 << SERIAL_BITS) - 1].map(Serial::from_bits) {
            for number in [0, 1, 65_535] {
                let entry = Entry { slot: number, serial };
                assert_eq!(Entry::from_bits(entry.bits()), Some(entry));
                let taken = Ownership::Taken(serial, number);
                assert_eq!(Ownership::from_bits(taken.bits()), taken);
            }
            for ownership in
                [Ownership::Edge(serial), Ownership::Aside(serial), Ownership::Queued(serial), Ownership::Senseless]
            {
                assert_eq!(Ownership::from_bits(ownership.bits()), ownership);
            }
        }
        assert_eq!(Entry::from_bits(0), None);
        assert_eq!(Ownership::from_bits(0), Ownership::Edge(Serial::from_bits(0)));
        assert_eq!(Ownership::from_bits(0x0101), Ownership::Senseless, "nobody has a queued request");
    }

    #[test]
    fn serials_pass_zero_over_when_they_begin_anew() {
        assert_eq!(Serial::from_bits(u64::MAX).next(), Serial::from_bits(1));
        assert_eq!(Serial::from_bits(0).next(), Serial::from_bits(1));
    }
}
