//! The part of an engine that accepts connections.

use super::accepting::Accepting;
use super::{ConnectionCounts, EarlyReceive, SharedAccept};
use oribi_listen::ListenSocket;

/// The sources of connections, and whether the lane accepts connections now.
pub(crate) struct Acceptance<'a> {
    /// The sockets from which this lane accepts.
    pub(crate) listen_sockets: Vec<ListenSocket<'a>>,
    /// The counts of open connections.
    pub(crate) counts: Option<ConnectionCounts<'a>>,
    pub(crate) accepting: Accepting,
    pub(crate) line: SharedAccept,
    pub(crate) early_receive: EarlyReceive,
}

impl<'a> Acceptance<'a> {
    /// Accepts at these sockets.
    pub(crate) fn at(listen_sockets: Vec<ListenSocket<'a>>) -> Self {
        Self {
            listen_sockets,
            counts: None,
            accepting: Accepting::Yes,
            line: SharedAccept::default(),
            early_receive: EarlyReceive::default(),
        }
    }
}
