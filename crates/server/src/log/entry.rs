//! What a line of the access log can tell.

use oribi_host::Endpoint;
use oribi_message::RequestHead;
use std::time::{Duration, SystemTime};

/// Fields of a response that the log tells, by their numbers in its format; empty: the response has no such field.
pub type Noted = [Vec<u8>];

/// The data about one request.
#[derive(Clone, Copy, Debug)]
pub struct AccessEntry<'a> {
    /// The address of the client; empty: unknown, as on a Unix socket.
    pub remote: &'a str,
    /// The name and the port of the listener; `None` if the request could not be read.
    pub server: Option<Endpoint<'a>>,
    /// The head of the request; `None` if it could not be read.
    pub head: Option<RequestHead<'a>>,
    /// The status of the response.
    pub status: u16,
    /// Bytes of content that were sent.
    pub bytes_sent: u64,
    /// What `AccessLog::note` has noted of the response.
    pub noted: &'a Noted,
    /// When the request arrived.
    pub time: SystemTime,
    /// The time from then to the end of the response.
    pub duration: Duration,
}
