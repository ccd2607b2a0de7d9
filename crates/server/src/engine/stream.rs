//! An exchange that shares its connection with others: one request of a web server, and its response.

use super::answer::Answer;
use super::exchange::Received;
use super::remote::Remote;
use super::variables::Variables;
use oribi_message::Role;
use oribi_proto::fcgi;

/// One request of a web server, and its response.
#[derive(Debug)]
pub(super) struct Stream {
    /// The number of the connection that carries it. The connection outlives the stream.
    pub(super) connection: u32,
    pub(super) framing: fcgi::ResponseWriter,
    /// The number of its exchange; 0 before it has been lent.
    pub(super) serial: u32,
    pub(super) remote: Remote,
    pub(super) state: StreamState,
}

/// The state of a stream.
#[derive(Debug)]
pub(super) enum StreamState {
    /// Its request is being received.
    Reading(Reading),
    /// Its request is complete and waits for a lane.
    Queued(Box<Received>),
    /// A host has its request; or its response is finished, but the host has not returned yet.
    Answering(Answer),
}

/// A request that is being received.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) request: Box<Received>,
    /// The announced size of its content.
    pub(super) announced: Option<u64>,
    /// Bytes of content that have arrived.
    pub(super) arrived: u64,
}

impl Reading {
    pub(super) fn variables(&mut self) -> &mut Variables {
        self.request.variables.get_or_insert_default()
    }
}

impl Stream {
    pub(super) fn new(connection: u32, id: u16, role: Role, remote: Remote, request: Box<Received>) -> Self {
        let state = StreamState::Reading(Reading { request, announced: None, arrived: 0 });
        Self { connection, framing: fcgi::ResponseWriter::new(id, role), serial: 0, remote, state }
    }

    /// The connection, while a host has the request and its response is not finished.
    pub(super) fn unfinished_on(&self) -> Option<u32> {
        matches!(&self.state, StreamState::Answering(answer) if !answer.finished).then_some(self.connection)
    }

    /// The connection, the framing and the answer, while a host has the request.
    #[inline]
    pub(super) fn answering(&mut self) -> Option<(u32, &mut fcgi::ResponseWriter, &mut Answer)> {
        match &mut self.state {
            StreamState::Answering(answer) => Some((self.connection, &mut self.framing, answer)),
            StreamState::Reading(_) | StreamState::Queued(_) => None,
        }
    }
}
