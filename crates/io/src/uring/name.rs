//! Names of operations: the kind of an operation and its object.

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Operation {
    /// Receives from a socket.
    Receive,
    /// Waits until a socket has received something, and leaves it there.
    Ready,
    /// Waits for room in a socket.
    Room,
    /// Waits for a break of a connection whose peer has ended its side.
    Break,
    /// Sends to a socket.
    Send,
    /// Waits for a connection at a listener.
    Connection,
    /// Accepts from a listener.
    Accept,
    /// Waits at the watched pipe.
    Wake,
    /// Waits at the watched doorbell.
    Doorbell,
    /// Closes or cancels: its result does not matter.
    Indifferent,
}

/// The name of an operation: its kind, the place (index) of its object, and the generation of the place when the operation was
/// requested. Results for an earlier generation are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) operation: Operation,
    pub(super) place: u32,
    pub(super) generation: u32,
}

/// The number of generations. After the last one follows 0 again.
pub(super) const GENERATIONS: u32 = 1 << 28;

impl Name {
    pub(super) const INDIFFERENT: Self = Self { operation: Operation::Indifferent, place: 0, generation: 0 };

    #[inline]
    pub(super) fn number(self) -> u64 {
        (self.operation as u64) << 60 | u64::from(self.generation) << 32 | u64::from(self.place)
    }

    #[inline]
    pub(super) fn of(number: u64) -> Self {
        let operation = match number >> 60 {
            0 => Operation::Receive,
            1 => Operation::Ready,
            2 => Operation::Room,
            3 => Operation::Break,
            4 => Operation::Send,
            5 => Operation::Connection,
            6 => Operation::Accept,
            7 => Operation::Wake,
            8 => Operation::Doorbell,
            _ => Operation::Indifferent,
        };
        Self { operation, place: number as u32, generation: (number >> 32) as u32 & (GENERATIONS - 1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        use Operation::{Accept, Break, Connection, Doorbell, Indifferent, Ready, Receive, Room, Send, Wake};
        for operation in [Receive, Ready, Room, Break, Send, Connection, Accept, Wake, Doorbell, Indifferent] {
            for (place, generation) in [(0, 0), (1, 2), (u32::MAX, GENERATIONS - 1)] {
                let name = Name { operation, place, generation };
                assert_eq!(Name::of(name.number()), name);
            }
        }
    }
}
