//! Orders of the edge to a worker about an exchange, and requests of a worker to the edge.

use crate::words::Serial;

const GONE: u64 = 1;
const INTERRUPTED: u64 = 2;
const WARNED: u64 = 4;

/// The value of a deadline, otherwise in milliseconds, that means no deadline.
pub(crate) const NO_DEADLINE: u64 = u64::MAX;

/// The edge's orders to the worker that has taken a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Orders {
    /// The client has disconnected: the response is discarded.
    pub gone: bool,
    /// The app has exceeded its deadline and must be interrupted.
    pub interrupted: bool,
    /// The app takes long: the worker should log its position.
    pub warned: bool,
}

impl Orders {
    pub(crate) fn bits(self, serial: Serial) -> u64 {
        let flag = |set: bool, bit: u64| if set { bit } else { 0 };
        serial.bits() << 24 | flag(self.gone, GONE) | flag(self.interrupted, INTERRUPTED) | flag(self.warned, WARNED)
    }

    /// The orders in `bits` for the use of a slot with this serial number; none if the orders are for another use.
    pub(crate) fn from_bits(bits: u64, serial: Serial) -> Self {
        if bits >> 24 != serial.bits() {
            return Self::default();
        }
        Self { gone: bits & GONE != 0, interrupted: bits & INTERRUPTED != 0, warned: bits & WARNED != 0 }
    }

    /// Combines these orders with others.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            gone: self.gone | other.gone,
            interrupted: self.interrupted | other.interrupted,
            warned: self.warned | other.warned,
        }
    }
}

/// The descriptor that a worker asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DescriptorRequest {
    /// The file with the content of the request.
    Content,
    /// The client's socket, for an app that hijacks it.
    Socket,
    /// The file with the data for a filter.
    Data,
}

impl DescriptorRequest {
    pub(crate) const fn bits(self) -> u64 {
        match self {
            Self::Content => 1,
            Self::Socket => 2,
            Self::Data => 3,
        }
    }

    pub(crate) const fn from_bits(bits: u64) -> Option<Self> {
        match bits {
            1 => Some(Self::Content),
            2 => Some(Self::Socket),
            3 => Some(Self::Data),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_for_one_use_of_a_slot() {
        let (first, second) = (Serial::from_bits(7), Serial::from_bits(8));
        for number in 0..8 {
            let orders = Orders { gone: number & 1 != 0, interrupted: number & 2 != 0, warned: number & 4 != 0 };
            assert_eq!(Orders::from_bits(orders.bits(first), first), orders);
            assert_eq!(Orders::from_bits(orders.bits(first), second), Orders::default());
        }
    }

    #[test]
    fn wishes_are_understood() {
        for wish in [DescriptorRequest::Content, DescriptorRequest::Socket, DescriptorRequest::Data] {
            assert_eq!(DescriptorRequest::from_bits(wish.bits()), Some(wish));
        }
        assert_eq!(DescriptorRequest::from_bits(0), None);
    }
}
