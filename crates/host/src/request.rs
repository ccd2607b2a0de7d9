//! A complete request as a host gets it.

use crate::Gateway;
use oribi_message::RequestHead;
use std::os::fd::BorrowedFd;

/// One end of a connection, as text because every CGI-like interface wants text, and as bytes because no language cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint<'a> {
    /// An address without brackets or a host name; empty for the peer of a Unix socket.
    pub address: &'a [u8],
    /// The port in decimal; `0` for a Unix socket.
    pub port: &'a [u8],
}

/// The content of a request, complete.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// The request has none.
    None,
    /// All of it in memory.
    Memory(&'a [u8]),
    /// All of it in an unlinked file, read from its start; the offset of the descriptor is the reader's to move.
    File {
        /// The file, open for reading and writing.
        file: BorrowedFd<'a>,
        /// Its size in bytes.
        size: u64,
    },
}

impl Content<'_> {
    /// How many bytes there are; `None` when the request has no content at all.
    #[must_use]
    pub const fn size(&self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Memory(bytes) => Some(bytes.len() as u64),
            Self::File { size, .. } => Some(*size),
        }
    }
}

/// A complete request: head, content and what is known of the connection.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Method, target, version and fields.
    pub head: RequestHead<'a>,
    /// The content.
    pub content: Content<'a>,
    /// The other end of the connection.
    pub remote: Endpoint<'a>,
    /// The name and port that this server goes by on the listener that took the connection.
    pub server: Endpoint<'a>,
    /// Whether the connection is encrypted, or stands behind a proxy that says so and is believed.
    pub https: bool,
    /// What a web server in front has said beside that; `None` for a request by HTTP.
    pub gateway: Option<Gateway<'a>>,
}
