//! The data of a line of the access log.

use oribi_host::Endpoint;
use oribi_message::RequestHead;
use std::time::{Duration, SystemTime};

/// Values of the response fields that the log format names, in the order of the names in the format. A value is empty if the
/// response has no such field.
#[derive(Debug, Default)]
pub struct Noted(pub(super) Vec<Vec<u8>>);

/// The trace context of a request, in hexadecimal digits.
#[derive(Clone, Copy, Debug)]
pub struct TraceIds<'a> {
    /// The id of the trace.
    pub trace: &'a [u8],
    /// The id of the span of this request.
    pub span: &'a [u8],
}

/// The data about one request.
#[derive(Clone, Copy, Debug)]
pub struct AccessEntry<'a> {
    /// The address of the client; empty if unknown, as on a Unix socket.
    pub remote: &'a str,
    /// The port of the client; 0 if unknown.
    pub remote_port: &'a str,
    /// The address of the peer, which may be a proxy; empty if unknown.
    pub peer: &'a str,
    /// The user of the request; `None` if nobody has checked who it is.
    pub user: Option<&'a [u8]>,
    /// The number of earlier requests on the connection; `None` if the request was refused.
    pub earlier: Option<u32>,
    /// Address and port of the listener; `None` if the request could not be read.
    pub server: Option<Endpoint<'a>>,
    /// The head of the request; `None` if it could not be read.
    pub head: Option<RequestHead<'a>>,
    /// The id of the request; `None` without ids.
    pub id: Option<&'a [u8]>,
    /// The trace context, if the request has one.
    pub trace: Option<TraceIds<'a>>,
    /// The status of the response.
    pub status: u16,
    /// Bytes of content sent.
    pub bytes_sent: u64,
    /// The fate of the connection.
    pub ending: Ending,
    /// The response fields copied by `AccessLog::note`.
    pub noted: Option<&'a Noted>,
    /// The time of arrival.
    pub time: SystemTime,
    /// The time from `time` until the last byte of the response was sent.
    pub duration: Duration,
    /// The parts of `duration`. `None` if the request was refused before it was complete, or if its client disconnected before
    /// that.
    pub parts: Option<PartDurations>,
}

/// The fate of the connection after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The connection ended before the whole response was sent.
    Aborted,
    /// The connection may serve another request.
    Persists,
    /// The connection ends with this response.
    Closes,
}

/// The times of the parts of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartDurations {
    /// The wait for a worker.
    pub queue: Duration,
    /// The time from when a worker took the request to the first byte of the final response.
    pub first: Duration,
    /// The time from when a worker took the request to the app's last byte.
    pub app: Duration,
    /// The time from the app's last byte to the last byte sent.
    pub send: Duration,
}

impl PartDurations {
    /// Returns the times with their names for users.
    pub fn named(&self) -> [(&'static str, Duration); 4] {
        let Self { queue, first, app, send } = *self;
        [("queue", queue), ("first", first), ("app", app), ("send", send)]
    }
}
