//! The mistakes of clients that end a connection.

use std::fmt;

/// A mistake of a client. The server answers it with a close frame of this code and closes the connection (RFC 6455, section
/// 7.1.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The status code for the close frame (RFC 6455, section 7.4.1): 1002, 1007, 1008 or 1009.
    pub code: u16,
    /// The mistake, for the log and for the close frame; at most 123 bytes.
    pub reason: &'static str,
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({})", self.reason, self.code)
    }
}

impl std::error::Error for Fault {}

/// The same in one byte, for a reader that stays failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    ReservedBits,
    UnknownOpcode,
    FragmentedControl,
    LongControl,
    NotMasked,
    LongLength,
    HugeLength,
    NothingToContinue,
    UnfinishedMessage,
    ShortClose,
    CloseCode,
    NotUtf8,
    NotDeflate,
    TooManyFrames,
    TooLong,
}

impl From<Mistake> for Fault {
    fn from(mistake: Mistake) -> Self {
        let (code, reason) = match mistake {
            Mistake::ReservedBits => (1002, "a frame has reserved bits set"),
            Mistake::UnknownOpcode => (1002, "a frame has an unknown opcode"),
            Mistake::FragmentedControl => (1002, "a control frame is fragmented"),
            Mistake::LongControl => (1002, "a control frame has more than 125 bytes"),
            Mistake::NotMasked => (1002, "a frame is not masked"),
            Mistake::LongLength => (1002, "the length of a frame is not in its shortest form"),
            Mistake::HugeLength => (1002, "the length of a frame has its highest bit set"),
            Mistake::NothingToContinue => (1002, "a frame continues no message"),
            Mistake::UnfinishedMessage => (1002, "a message begins before the last one has ended"),
            Mistake::ShortClose => (1002, "a close frame has one byte"),
            Mistake::CloseCode => (1002, "a close frame has an invalid status code"),
            Mistake::NotUtf8 => (1007, "a text is not UTF-8"),
            Mistake::NotDeflate => (1007, "a message is not compressed as DEFLATE"),
            Mistake::TooManyFrames => (1008, "a message has too many frames"),
            Mistake::TooLong => (1009, "a message is too long"),
        };
        Self { code, reason }
    }
}
