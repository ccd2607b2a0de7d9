//! The part of an engine that accepts connections.

use super::accepting::Accepting;
use super::{ConnectionCounts, EarlyReceive, SharedAccept};
use oribi_listen::Door;

/// The sources of connections, and whether they are accepted now.
pub(crate) struct Acceptance<'a> {
    /// The sockets from which this lane accepts.
    pub(crate) doors: Vec<Door<'a>>,
    /// The counts of open connections.
    pub(crate) counts: Option<ConnectionCounts<'a>>,
    pub(crate) accepting: Accepting,
    pub(crate) line: SharedAccept,
    pub(crate) early_receive: EarlyReceive,
}

impl<'a> Acceptance<'a> {
    /// Accepts at these sockets.
    pub(crate) fn at(doors: Vec<Door<'a>>) -> Self {
        Self {
            doors,
            counts: None,
            accepting: Accepting::Yes,
            line: SharedAccept::default(),
            early_receive: EarlyReceive::default(),
        }
    }
}
