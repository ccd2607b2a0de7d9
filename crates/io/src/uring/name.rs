//! Names of operations: what they are and whose.

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Operation {
    /// Receives from a socket.
    Receive,
    /// Waits for a socket to have received something, and leaves it there.
    Ready,
    /// Waits for room in a socket.
    Room,
    /// Waits for a socket whose peer has ended its side to break.
    Break,
    /// Sends to a socket.
    Send,
    /// Waits at a listener.
    Connection,
    /// Accepts from a listener.
    Accept,
    /// Waits at the watched pipe.
    Wake,
    /// Closes, or cancels: nothing depends on what comes of it.
    Indifferent,
}

/// Whose an operation is: a place and the generation of what was in it when the operation was asked for. What comes of an
/// operation of an earlier generation concerns nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) operation: Operation,
    pub(super) place: u32,
    pub(super) generation: u32,
}

/// Generations start over after so many.
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
        use Operation::{Accept, Break, Connection, Indifferent, Ready, Receive, Room, Send, Wake};
        for operation in [Receive, Ready, Room, Break, Send, Connection, Accept, Wake, Indifferent] {
            for (place, generation) in [(0, 0), (1, 2), (u32::MAX, GENERATIONS - 1)] {
                let name = Name { operation, place, generation };
                assert_eq!(Name::of(name.number()), name);
            }
        }
    }
}
