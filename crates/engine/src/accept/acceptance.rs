//! The part of an engine that accepts connections.

use super::accepting::Accepting;
use super::{ConnectionCounts, EarlyReceive, SharedAccept};
use oribi_listen::ListenSocket;

/// The sources of connections, and whether the lane accepts connections now.
pub(crate) struct Acceptance<'a> {
    /// The sockets from which this lane accepts, by the numbers that the backend knows; `None` for a number without a socket.
    pub(crate) listen_sockets: Vec<Option<ListenSocket<'a>>>,
    /// The listeners that have ended: each response is the last on a connection of theirs.
    pub(crate) ended: Vec<u16>,
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
            listen_sockets: listen_sockets.into_iter().map(Some).collect(),
            ended: Vec::new(),
            counts: None,
            accepting: Accepting::Yes,
            line: SharedAccept::default(),
            early_receive: EarlyReceive::default(),
        }
    }

    /// Returns the sockets with their numbers.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = (usize, &ListenSocket<'a>)> {
        self.listen_sockets.iter().enumerate().filter_map(|(number, socket)| Some((number, socket.as_ref()?)))
    }
}
