//! Connections of web servers, which carry many exchanges at once (FastCGI 1.0).
//!
//! A connection that speaks HTTP *is* its present exchange. One that speaks FastCGI stays [`Carrying`](super::connection::State::Carrying)
//! and owns a [`Carrier`]: a machine, and the numbers of its [`Stream`]s, which stand in a table of their own and have states of their
//! own. What a host gets is the same [`Exchange`] in both cases, and what it answers goes the same way (see
//! [`Target`](super::respond::Target)).
//!
//! Cancelled requests, aborted by the web server or lost with its connection, are forgotten at once: a host that goes on with one
//! is told that the client has gone.

mod receive;
mod settle;

use super::answer::Answer;
use super::connection::State;
use super::content::StoredContent;
use super::deadline::Deadline;
use super::exchange::Received;
use super::name::{Name, Place};
use super::remote::Remote;
use super::{Engine, Exchange};
use oribi_host::{Endpoint, Gateway, Request};
use oribi_io::Backend;
use oribi_message::{KnownVariable, Role, Variable};
use oribi_proto::fcgi;
use std::time::Duration;

/// How long a web server may keep a connection that it does not use. The connection is the web server's to close (FastCGI 1.0,
/// section 3.2), so this is only for one that has vanished without a word.
pub(super) const KEPT: Duration = Duration::from_secs(24 * 3600);

/// Variables of requests that are over, kept for the next ones; more than these are freed.
const SPARE_VARIABLES: usize = 64;

/// What a connection that speaks FastCGI owns.
#[derive(Debug, Default)]
pub(super) struct Carrier {
    machine: fcgi::Machine,
    /// The requests that are not finished: id and number of the stream, in order of ids.
    streams: Vec<(u16, u32)>,
}

impl Carrier {
    /// How many requests it carries.
    pub(super) fn carries(&self) -> usize {
        self.streams.len()
    }

    fn number(&self, id: u16) -> Option<u32> {
        let found = self.streams.binary_search_by_key(&id, |&(id, _)| id).ok()?;
        Some(self.streams[found].1)
    }

    fn add(&mut self, id: u16, number: u32) {
        if let Err(position) = self.streams.binary_search_by_key(&id, |&(id, _)| id) {
            self.streams.insert(position, (id, number));
        }
    }

    fn remove(&mut self, id: u16) {
        if let Ok(position) = self.streams.binary_search_by_key(&id, |&(id, _)| id) {
            self.streams.remove(position);
        }
    }
}

/// One request of a web server, and its response.
#[derive(Debug)]
pub(super) struct Stream {
    /// The number of the connection that carries it, which outlives it.
    connection: u32,
    framing: fcgi::Exchange,
    /// The number of its exchange; 0 before it has been lent.
    pub(super) serial: u32,
    remote: Remote,
    state: StreamState,
}

/// Where a stream stands.
#[derive(Debug)]
enum StreamState {
    /// Its request is on its way in.
    Reading(Reading),
    /// Its request is complete and waits for a lane.
    Queued(Box<Received>),
    /// A host has its request, or its response is finished and the host has not returned yet.
    Answering(Answer),
}

/// A request on its way in.
#[derive(Debug)]
struct Reading {
    request: Box<Received>,
    /// Content that was announced.
    announced: Option<u64>,
    /// Content that has come.
    arrived: u64,
}

impl Reading {
    fn variables(&mut self) -> &mut Variables {
        self.request.variables.get_or_insert_default()
    }
}

impl Stream {
    fn new(connection: u32, id: u16, role: Role, remote: Remote, request: Box<Received>) -> Self {
        let state = StreamState::Reading(Reading { request, announced: None, arrived: 0 });
        Self { connection, framing: fcgi::Exchange::new(id, role), serial: 0, remote, state }
    }

    /// The connection, while a host has the request and its response is not finished.
    pub(super) fn unfinished_on(&self) -> Option<u32> {
        matches!(&self.state, StreamState::Answering(answer) if !answer.finished).then_some(self.connection)
    }

    /// The connection, the framing and the answer, while a host has the request.
    #[inline]
    pub(super) fn answering(&mut self) -> Option<(u32, &mut fcgi::Exchange, &mut Answer)> {
        match &mut self.state {
            StreamState::Answering(answer) => Some((self.connection, &mut self.framing, answer)),
            StreamState::Reading(_) | StreamState::Queued(_) => None,
        }
    }
}

/// What a web server says of a request: its variables with their bytes, in which the head stands too, and for a filter its data.
#[derive(Debug, Default)]
pub(super) struct Variables {
    pub(super) bytes: Vec<u8>,
    list: Vec<Variable>,
    role: Role,
    data: StoredContent,
}

impl Variables {
    fn get(&self, wanted: KnownVariable) -> Option<&[u8]> {
        let variable = self.list.iter().find(|variable| variable.known == Some(wanted))?;
        Some(variable.value.of(&self.bytes)).filter(|value| !value.is_empty())
    }

    /// Adds what is known from the variables. Out of the way of a request by HTTP.
    #[inline(never)]
    pub(super) fn complete<'a>(&'a self, request: &mut Request<'a>) {
        request.server = Endpoint {
            address: self.get(KnownVariable::ServerName).unwrap_or(request.server.address),
            port: self.get(KnownVariable::ServerPort).unwrap_or(request.server.port),
        };
        // "on" is what CGI programs have always been told; some web servers say "1".
        request.https = self.get(KnownVariable::Https).is_some_and(|value| value.eq_ignore_ascii_case(b"on") || value == b"1");
        // What is filtered never stands in an input buffer.
        request.gateway = Some(Gateway::new(self.role, &self.bytes, &self.list, self.data.view(&[])));
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.list.clear();
        self.data = StoredContent::None;
    }
}

impl<B: Backend> Engine<'_, B> {
    /// Makes a new connection one that carries.
    pub(super) fn carry(&mut self, index: u32) {
        self.connections[index].state = State::Carrying(Box::default());
    }

    /// Hands the request of a stream out.
    pub(super) fn lend_stream(&mut self, number: u32) -> Option<Exchange> {
        let stream = self.streams.get_mut(number)?;
        let StreamState::Queued(received) = &stream.state else { return None };
        let answer = StreamState::Answering(Answer::new(received.complete_at));
        let StreamState::Queued(mut received) = std::mem::replace(&mut stream.state, answer) else { return None };
        stream.serial = self.serials.next();
        self.answering += 1;
        received.remote = stream.remote;
        received.listener = self.connections[stream.connection].listener;
        Some(Exchange { id: Name { place: Place::Stream(number), serial: stream.serial }.into(), received })
    }

    fn spare_request(&mut self) -> Box<Received> {
        let mut request = self.spare_requests.pop().unwrap_or_default();
        request.variables = Some(self.spare_variables.pop().unwrap_or_default());
        request
    }

    /// Keeps the memory of a web server's request for the next one.
    fn recycle_carried(&mut self, mut request: Box<Received>) {
        if let Some(mut variables) = request.variables.take()
            && self.spare_variables.len() < SPARE_VARIABLES
            && variables.bytes.capacity() <= self.limits.head_bytes
        {
            variables.clear();
            self.spare_variables.push(variables);
        }
        request.layout.clear();
        self.recycle(request);
    }

    /// Nothing goes on on a connection: from now on it is merely kept.
    pub(super) fn rest_if_idle(&mut self, index: u32) {
        let now = self.backend.now();
        let connection = &mut self.connections[index];
        let State::Carrying(carrier) = &connection.state else { return };
        if carrier.streams.is_empty() && connection.line.output.is_none() && !connection.input.has_unread() {
            connection.input.release(&mut self.pool);
            self.deadlines.set(index, Deadline::Kept, now);
            self.room_was_made();
        }
    }
}
