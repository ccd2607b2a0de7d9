//! The reasons why a response is invalid.

use crate::h1::Refusal;
use core::fmt;

/// The rule that a response breaks. Its connection must not be used any more, and the response must not look complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault(pub(super) &'static str);

impl Fault {
    pub(super) const HEAD_LENGTH: Self = Self("the response head exceeds the limit");
    pub(super) const CODING_VERSION: Self = Self("Transfer-Encoding in an HTTP/1.0 response");
    pub(super) const UNASKED: Self = Self("bytes before a request");
    pub(super) const SURPLUS: Self = Self("bytes after the end of the response");
    pub(super) const INTERIM: Self = Self("too many interim responses");
    pub(super) const SWITCHED: Self = Self("another protocol (101) without a request for one");
    pub(super) const NO_RESPONSE: Self = Self("the connection was closed before the response");
    pub(super) const HEAD_CUT: Self = Self("the connection was closed within the response head");
    pub(super) const CONTENT_CUT: Self = Self("the connection was closed within the response content");

    /// The reason, for the log: a few words without line ends.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        self.0
    }
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        Self(refusal.reason())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl core::error::Error for Fault {}
