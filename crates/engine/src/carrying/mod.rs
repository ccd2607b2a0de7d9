//! Connections that carry several exchanges at once: those of web servers ([`super::fastcgi`]) and those of clients that
//! speak HTTP/2 ([`super::http2`]).
//!
//! A connection that speaks HTTP/1 *is* its current exchange. A connection that carries several exchanges stays
//! [`Carrying`](super::connection::State::Carrying) and owns a [`Carrier`](super::carrier::Carrier): a machine, and the numbers
//! of its [`Stream`](super::stream::Stream)s, which have their own table and their own states. The host gets the same
//! [`Exchange`] in all cases, and answers take the same path (see [`Target`](super::respond::Target)).
//!
//! This module has the steps that are the same for FastCGI and HTTP/2. Their data is in modules of its own ([`super::carrier`],
//! [`super::stream`]), so that the steps of all connections can also use it.
//!
//! A request that the peer aborts, or that is lost with its connection, is forgotten at once. A host that is still answering it
//! gets an error when it gives the next part.

mod receive;
mod settle;

use super::answer::Answer;
use super::connection::State;
use super::deadline::Deadline;
use super::exchange::Received;
use super::name::{ExchangeIndex, Name};
use super::request_timings::RequestTimings;
use super::stream::{Requested, StreamFraming, StreamState};
use super::{Engine, Exchange};
use oribi_io::Backend;

/// The most sets of variables whose memory is kept for the next requests; more are freed.
const SPARE_VARIABLES: usize = 64;

impl<B: Backend> Engine<'_, B> {
    /// Lends the request of a stream.
    pub(super) fn lend_stream(&mut self, number: u32) -> Option<Exchange> {
        let stream = self.streams.get_mut(number)?;
        let StreamState::Requested(Requested { request, is_complete: true, .. }) = &mut stream.state else { return None };
        let https = self.server_fields.has_policy() && request.is_https();
        let now = self.backend.now();
        let timings = RequestTimings::new(request.complete_at, now);
        let answer = StreamState::Answering(Answer::new(timings, https, request.id.take()));
        let StreamState::Requested(requested) = std::mem::replace(&mut stream.state, answer) else { return None };
        let mut received = requested.request;
        stream.serial = self.serials.next();
        self.answering += 1;
        received.remote = stream.remote;
        received.lent_at = now.into();
        received.content.pass_on();
        let (index, id) = (stream.connection, Name { place: ExchangeIndex::Stream(number), serial: stream.serial }.into());
        self.run_queue.lent_last = Some(index);
        let connection = &self.connections[index];
        received.listener = connection.listener;
        if matches!(stream.framing, StreamFraming::Http2(_)) {
            received.describe(self.backend.encryption(&connection.line.socket));
        } else if let Some(variables) = &mut received.variables {
            variables.data.pass_on();
        }
        if !received.content.is_none() {
            self.resume_contents(index);
        }
        Some(Exchange { id, received })
    }

    /// Keeps the memory of a request for the next request.
    #[inline(never)]
    pub(super) fn recycle_carried(&mut self, mut request: Box<Received>) {
        if let Some(mut variables) = request.variables.take()
            && self.memory.spare_variables.len() < SPARE_VARIABLES
            && variables.bytes.capacity() <= self.limits.http.head_bytes
        {
            variables.clear();
            self.memory.spare_variables.push(variables);
        }
        request.layout.clear();
        request.text.clear();
        self.recycle(request);
    }

    /// Sets the deadline of a connection that carries no request and has no output to send. If it is between two messages, it
    /// gets the deadline of idle connections (HTTP/2) or of kept ones (FastCGI). If a record or frame has arrived only in part,
    /// it gets the deadline of a head, unless that already runs. (During a request, the stream has the deadline.)
    pub(super) fn rest_if_idle(&mut self, index: u32) {
        let now = self.backend.now();
        let connection = &mut self.connections[index];
        let State::Carrying(carrier) = &connection.state else { return };
        if !carrier.streams.is_empty() || connection.line.output.is_some() {
            return;
        }
        if !connection.input.has_unread() && carrier.is_between_messages() {
            let kind = if carrier.speaks_http2() { Deadline::Idle } else { Deadline::Kept };
            connection.input.release(&mut self.memory.inputs);
            self.deadlines.set(index, kind, now);
            self.resume_if_paused();
        } else if !self.deadlines.runs(index, Deadline::Head) {
            self.deadlines.set(index, Deadline::Head, now);
        }
    }
}
