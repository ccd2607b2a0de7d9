//! An exchange that shares its connection with others: one request of a web server or of an HTTP/2 client, and its response.

use super::answer::Answer;
use super::exchange::Received;
use super::output::Output;
use super::remote::Remote;
use super::tunnel::Tunnel;
use super::variables::Variables;
use oribi_message::{Role, Trailers};
use oribi_proto::fcgi;

/// One request, and its response.
#[derive(Debug)]
pub(super) struct Stream {
    /// The number of the connection that carries the stream. The connection outlives the stream.
    pub(super) connection: u32,
    pub(super) framing: StreamFraming,
    /// The number of its exchange; 0 before the request has been lent.
    pub(super) serial: u32,
    pub(super) remote: Remote,
    pub(super) state: StreamState,
    /// The tunnel, if an extended CONNECT has opened the stream.
    pub(super) tunnel: Option<Box<Tunnel>>,
}

/// The data of a protocol for a stream, besides the data in its machine.
#[derive(Debug)]
pub(super) enum StreamFraming {
    FastCgi(fcgi::ResponseWriter),
    Http2(Frames),
}

impl StreamFraming {
    /// The id of the stream, chosen by the peer.
    pub(super) fn id(&self) -> u32 {
        match self {
            Self::FastCgi(writer) => writer.id().into(),
            Self::Http2(frames) => frames.id,
        }
    }
}

/// A stream of HTTP/2.
#[derive(Debug)]
pub(super) struct Frames {
    pub(super) id: u32,
    /// Content for which the client has no room yet, or which waits for its turn among the streams of its connection.
    pub(super) waiting: Option<Box<Output>>,
    /// Whether the response ends with that content.
    pub(super) ends: bool,
    /// The trailers after that content.
    pub(super) trailers: Option<Box<Trailers>>,
    /// The bytes of content that all streams of the connection had sent when the deadline of the waiting content started.
    pub(super) sent_before: u64,
}

/// The state of a stream.
#[derive(Debug)]
pub(super) enum StreamState {
    /// Its request is being received, or waits for a lane.
    Requested(Requested),
    /// A host has its request; or its response is finished, but the host has not returned yet.
    Answering(Answer),
}

/// A request that no lane has.
#[derive(Debug)]
pub(super) struct Requested {
    pub(super) request: Box<Received>,
    /// Whether the request is complete, and waits for a lane.
    pub(super) is_complete: bool,
    /// The announced size of its content.
    pub(super) announced: Option<u64>,
    /// Bytes of content that have arrived.
    pub(super) arrived: u64,
    /// Bytes of arrived content for which the client gets no window update yet.
    pub(super) withheld: usize,
}

impl Requested {
    pub(super) fn variables(&mut self) -> &mut Variables {
        self.request.variables.get_or_insert_default()
    }
}

impl Stream {
    pub(super) fn new(connection: u32, id: u16, role: Role, remote: Remote, request: Box<Received>) -> Self {
        let state = StreamState::Requested(Requested { request, is_complete: false, announced: None, arrived: 0, withheld: 0 });
        Self {
            connection,
            framing: StreamFraming::FastCgi(fcgi::ResponseWriter::new(id, role)),
            serial: 0,
            remote,
            state,
            tunnel: None,
        }
    }

    /// A stream of HTTP/2 whose request has begun with its head.
    #[inline(always)]
    pub(super) fn of_client(
        connection: u32,
        id: u32,
        remote: Remote,
        request: Box<Received>,
        is_complete: bool,
        announced: Option<u64>,
    ) -> Self {
        let state = StreamState::Requested(Requested { request, is_complete, announced, arrived: 0, withheld: 0 });
        Self {
            connection,
            framing: StreamFraming::Http2(Frames { id, waiting: None, ends: false, trailers: None, sent_before: 0 }),
            serial: 0,
            remote,
            state,
            tunnel: None,
        }
    }

    /// Whether content of its response waits to be framed.
    pub(super) const fn waits(&self) -> bool {
        matches!(&self.framing, StreamFraming::Http2(Frames { waiting: Some(_), .. }))
    }

    /// Drops content that waits to be framed, because its client has disconnected.
    pub(super) fn abandon_waiting(&mut self) {
        if let StreamFraming::Http2(frames) = &mut self.framing {
            frames.waiting = None;
        }
    }

    /// The bytes in memory that wait to be framed.
    pub(super) fn unframed(&self) -> usize {
        match &self.framing {
            StreamFraming::Http2(Frames { waiting: Some(waiting), .. }) => waiting.waiting(),
            _ => 0,
        }
    }

    /// The connection, while a host has the request and its response is not finished.
    pub(super) fn unfinished_on(&self) -> Option<u32> {
        matches!(&self.state, StreamState::Answering(answer) if !answer.finished).then_some(self.connection)
    }

    /// The connection, the framing and the answer, while a host has the request.
    #[inline]
    pub(super) fn answering(&mut self) -> Option<(u32, &mut StreamFraming, &mut Answer)> {
        match &mut self.state {
            StreamState::Answering(answer) => Some((self.connection, &mut self.framing, answer)),
            StreamState::Requested(_) => None,
        }
    }
}
