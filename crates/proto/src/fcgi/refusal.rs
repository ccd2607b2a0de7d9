//! The reasons why a connection cannot continue, or a request never reaches a host.

use crate::h1::refusals;

/// The peer is not a web server: its bytes have no meaning, nor do any later ones. Close the connection without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation(&'static str);

macro_rules! violations {
    ($($name:ident = $reason:literal;)*) => {
        impl Violation {
            $(pub(super) const $name: Self = Self($reason);)*
        }
    };
}

violations! {
    VERSION = "not FastCGI, or not version 1";
    BEGIN_LENGTH = "BEGIN_REQUEST is not 8 bytes long";
    BEGIN_ACTIVE = "BEGIN_REQUEST for a request that is active";
    PARAMS_ENDED = "PARAMS behind its end";
    STDIN_EARLY = "STDIN before the end of PARAMS";
    STDIN_ENDED = "STDIN behind its end";
    DATA_EARLY = "DATA before the end of STDIN";
    DATA_ENDED = "DATA behind its end";
    DIRECTION = "a record that only applications send";
    VALUES_LENGTH = "GET_VALUES exceeds 4096 bytes";
    VALUES_PAIRS = "GET_VALUES ends within a name or value";
}

impl Violation {
    /// The reason, for the log: a few words without line ends.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        self.0
    }
}

refusals! {
    /// The name-value pairs of a FastCGI request exceed [`Limits::params_bytes`](super::Limits::params_bytes).
    pub PARAMS_LENGTH = 431 "the variables of the request exceed the limit";
    /// The content of a FastCGI request ended before it was as long as CONTENT_LENGTH: the client has disconnected.
    pub CONTENT_SHORT = 400 "the content is shorter than CONTENT_LENGTH";
    /// The content of a FastCGI request is longer than CONTENT_LENGTH.
    pub CONTENT_LONG = 400 "the content is longer than CONTENT_LENGTH";
    /// A FastCGI request has more variables than [`Limits::pairs`](super::Limits::pairs).
    pub PAIR_COUNT = 431 "too many variables";

    pub(super) PAIR_CUT = 400 "the variables end within a name or value";
    pub(super) CONTENT_LENGTH = 400 "invalid CONTENT_LENGTH";
}
