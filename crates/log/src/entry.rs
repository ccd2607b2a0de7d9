//! What a line of the access log can tell.

use oribi_host::Endpoint;
use oribi_message::RequestHead;
use std::time::{Duration, SystemTime};

/// Fields of a response that the log tells, by their numbers in its format; empty: the response has no such field.
#[derive(Debug, Default)]
pub struct Noted(pub(super) Vec<Vec<u8>>);

/// The place of a request in a trace, in hexadecimal digits.
#[derive(Clone, Copy, Debug)]
pub struct TraceIds<'a> {
    /// The trace.
    pub trace: &'a [u8],
    /// The span that is this request.
    pub span: &'a [u8],
}

/// The data about one request.
#[derive(Clone, Copy, Debug)]
pub struct AccessEntry<'a> {
    /// The address of the client; empty: unknown, as on a Unix socket.
    pub remote: &'a str,
    /// The port of the client; 0: unknown.
    pub remote_port: &'a str,
    /// The address of the other end of the connection, which may be that of a proxy; empty: unknown.
    pub peer: &'a str,
    /// How many requests came before this one on the connection; `None`: it was refused.
    pub earlier: Option<u32>,
    /// The name and the port of the listener; `None` if the request could not be read.
    pub server: Option<Endpoint<'a>>,
    /// The head of the request; `None` if it could not be read.
    pub head: Option<RequestHead<'a>>,
    /// The id of the request, if requests have ids.
    pub id: Option<&'a [u8]>,
    /// Its place in a trace, if requests have places in traces.
    pub trace: Option<TraceIds<'a>>,
    /// The status of the response.
    pub status: u16,
    /// Bytes of content that were sent.
    pub bytes_sent: u64,
    /// What becomes of the connection.
    pub ending: Ending,
    /// What `AccessLog::note` has noted of the response.
    pub noted: Option<&'a Noted>,
    /// When the request arrived.
    pub time: SystemTime,
    /// The time from then until the last byte of the response was sent.
    pub duration: Duration,
    /// The parts of that time; `None`: the request was refused before it was complete, or its client has gone.
    pub parts: Option<Parts>,
}

/// What becomes of the connection of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It has ended before the whole response was sent.
    Aborted,
    /// It may serve another request.
    Persists,
    /// It ends with this response.
    Closes,
}

/// How long the parts of a request took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// It waited for a worker.
    pub queue: Duration,
    /// From then to the first byte of the final response.
    pub first: Duration,
    /// From when a worker took it to the app's last byte.
    pub app: Duration,
    /// From then to the last byte that was sent.
    pub send: Duration,
}

impl Parts {
    /// With the names by which users know them.
    pub fn named(&self) -> [(&'static str, Duration); 4] {
        let Self { queue, first, app, send } = *self;
        [("queue", queue), ("first", first), ("app", app), ("send", send)]
    }
}
