//! What the shared words mean. A word that somebody else has written may say anything, so reading one never fails: it says
//! something that is expected, or something that is not.

/// Serial numbers have so many bits, and each use of a slot has the next one: at a million requests a second they
/// last for twelve days, and then one is mistaken for another only if that is still in the pool.
const SERIAL_BITS: u32 = 40;

/// The number of one use of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Serial(u64);

impl Serial {
    /// The one behind this one; never zero, which is what memory begins with.
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

/// One use of a slot, as it stands in the queue and in what workers say of themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Entry {
    pub(crate) slot: u32,
    pub(crate) serial: Serial,
}

impl Entry {
    pub(crate) const fn bits(self) -> u64 {
        self.serial.0 << 24 | (self.slot as u64) << 8 | 1
    }

    /// `None`: there is none. The slot may be out of range.
    pub(crate) const fn from_bits(bits: u64) -> Option<Self> {
        if bits & 0xFF != 1 {
            return None;
        }
        Some(Self { slot: (bits >> 8) as u32 & 0xFFFF, serial: Serial(bits >> 24) })
    }
}

/// To whom a slot belongs. Each change but those from one of the edge's states to another is a compare-and-swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// To the edge: it is free, being filled, or was withdrawn.
    Edge(Serial),
    /// To nobody: who takes it has it.
    Queued(Serial),
    /// To a worker, until that says that it has finished, or is gone.
    Taken(Serial, u32),
    /// Somebody has written here who does not know the rules.
    Senseless,
}

impl Ownership {
    #[inline]
    pub(crate) const fn bits(self) -> u64 {
        match self {
            Self::Edge(serial) => serial.0 << 24,
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
            for ownership in [Ownership::Edge(serial), Ownership::Queued(serial), Ownership::Senseless] {
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
