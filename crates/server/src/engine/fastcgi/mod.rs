//! Connections of web servers, which carry many exchanges at once (FastCGI 1.0).
//!
//! A connection that speaks HTTP *is* its present exchange. One that speaks FastCGI stays [`Carrying`](super::connection::State::Carrying)
//! and owns a [`Carrier`](super::carrier::Carrier): a machine, and the numbers of its [`Stream`](super::stream::Stream)s. These
//! stand in a table of their own and have states of their own. What a host gets is the same [`Exchange`] in both cases, and what
//! it answers goes the same way (see [`Target`](super::respond::Target)).
//!
//! Here are the steps of such connections. What they own stands in modules below those of all connections, so that these know it.
//!
//! Cancelled requests, aborted by the web server or lost with its connection, are forgotten at once: a host that goes on with one
//! is told that the client has gone.

mod receive;
mod settle;

use super::answer::Answer;
use super::connection::State;
use super::deadline::Deadline;
use super::exchange::Received;
use super::name::{Name, Place};
use super::stream::StreamState;
use super::{Engine, Exchange};
use oribi_io::Backend;
use std::time::Duration;

/// How long a web server may keep a connection that it does not use. The connection is the web server's to close (FastCGI 1.0,
/// section 3.2), so this is only for one that has vanished without a word.
pub(super) const KEPT: Duration = Duration::from_secs(24 * 3600);

/// Variables of requests that are over, kept for the next ones; more than these are freed.
const SPARE_VARIABLES: usize = 64;

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

    /// If nothing goes on on a connection, it is merely kept from now on. What has begun to come has as long as a head: within a
    /// request its stream has a deadline, between requests the connection.
    pub(super) fn rest_if_idle(&mut self, index: u32) {
        let now = self.backend.now();
        let connection = &mut self.connections[index];
        let State::Carrying(carrier) = &connection.state else { return };
        if !carrier.streams.is_empty() || connection.line.output.is_some() {
            return;
        }
        if !connection.input.has_unread() && carrier.machine.between_records() {
            connection.input.release(&mut self.pool);
            self.deadlines.set(index, Deadline::Kept, now);
            self.room_was_made();
        } else if !self.deadlines.runs(index, Deadline::Head) {
            self.deadlines.set(index, Deadline::Head, now);
        }
    }
}
