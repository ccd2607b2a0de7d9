//! Receives on connections that carry several exchanges, and drives their machines.

use super::super::Engine;
use super::super::connection::State;
use super::super::deadline::Deadline;
use super::super::framing::FRAMED_BYTES;
use super::super::name::ExchangeIndex;
use super::super::receive::RECEIVES_PER_TURN;
use super::super::send::Still;
use super::super::stream::StreamState;
use oribi_io::{Attempt, Backend};
use oribi_proto::h1::Refusal;
use oribi_stats::totals::Counter;
use std::io;
use std::time::Duration;

impl<B: Backend> Engine<'_, B> {
    /// Receives and lets the machine read until the socket is empty or the turn is over.
    pub(in super::super) fn receive_carried(&mut self, index: u32) -> Still {
        for _ in 0..RECEIVES_PER_TURN {
            let connection = &mut self.connections[index];
            if !matches!(connection.state, State::Carrying(_)) || !connection.line.readable {
                return Still::Open;
            }
            match self.receive_messages(index, 0) {
                Attempt::Done(_) if self.parse_carried(index) == Still::Open => {}
                Attempt::Later => {}
                _ => return Still::Gone,
            }
        }
        let connection = &self.connections[index];
        if matches!(connection.state, State::Carrying(_)) && connection.line.readable {
            self.ask_for_turn(index);
        }
        Still::Open
    }

    /// Lets the machine read unread input until it needs more.
    #[inline(never)]
    pub(in super::super) fn parse_carried(&mut self, index: u32) -> Still {
        let State::Carrying(carrier) = &self.connections[index].state else { return Still::Open };
        let still = if carrier.speaks_http2() { self.parse_frames(index) } else { self.parse_records(index) };
        if still == Still::Gone {
            return Still::Gone;
        }
        let connection = &mut self.connections[index];
        connection.input.release_if_read(&mut self.memory.inputs);
        if !connection.line.readable {
            connection.input.park(&mut self.memory.inputs);
        }
        self.rest_if_idle(index);
        Still::Open
    }

    /// Sends the answers of the machine itself to a peer. Drops the connection if the peer keeps causing such answers without
    /// reading them. The limit leaves room for framed bytes of responses, which may also wait.
    pub(in super::super) fn flush_and_rest(&mut self, index: u32) -> Still {
        if self.flush(index) == Still::Gone {
            return Still::Gone;
        }
        let connection = &self.connections[index];
        // Responses for a web server may also wait in the spool, where they do not count for this limit.
        let waiting = if connection.speaks_http2() { connection.line.framed() } else { connection.line.waiting() };
        if waiting > self.settings.limits.output_bytes.saturating_add(FRAMED_BYTES) {
            self.drop_connection(index);
            return Still::Gone;
        }
        self.end_or_rest(index)
    }

    /// The number of the stream with an id on a connection, if its request is being received.
    pub(in super::super) fn reading_stream(&mut self, index: u32, id: u32) -> Option<u32> {
        let number = self.connections[index].carrier()?.number(id)?;
        matches!(&self.streams[number].state, StreamState::Requested(requested) if !requested.is_complete).then_some(number)
    }

    /// Queues a request that is complete.
    #[inline(never)]
    pub(in super::super) fn complete_stream(&mut self, number: u32) -> Still {
        let now = self.backend.now();
        let StreamState::Requested(requested) = &mut self.streams[number].state else { return Still::Open };
        let request = &mut requested.request;
        let bounds = &self.uploads.bounds;
        let filtered = request.variables.as_mut().map_or(Ok(()), |variables| variables.data.complete(bounds));
        if let Err(error) = filtered.and(request.content.complete(bounds)) {
            return self.refuse_stream_storage(number, &error);
        }
        request.complete_at = now.into();
        requested.is_complete = true;
        self.stream_deadlines.clear(number);
        self.run_queue.ready.push_back(ExchangeIndex::Stream(number));
        Still::Open
    }

    pub(in super::super) fn refuse_stream_storage(&mut self, number: u32, error: &io::Error) -> Still {
        log::error!("cannot store request content in {}: {error}", self.settings.temporary_directory.display());
        self.refuse_stream(number, crate::shortage::refusal(error))
    }

    /// Handles the streams whose deadline has expired.
    pub(in super::super) fn expire_streams(&mut self, now: Duration) {
        while let Some((number, kind)) = self.stream_deadlines.expired(now) {
            let (refusal, counter) = match kind {
                Deadline::Write => {
                    self.give_up_waiting(number);
                    continue;
                }
                Deadline::Head => (Refusal::HEAD_TIMEOUT, Counter::HeadTimeouts),
                _ => (Refusal::CONTENT_TIMEOUT, Counter::ContentTimeouts),
            };
            self.tally.count(counter);
            let _ = self.refuse_stream(number, refusal);
        }
    }

    /// Closes an idle connection of FastCGI or HTTP/2, unless a request has arrived unnoticed.
    #[inline(never)]
    pub(in super::super) fn close_kept(&mut self, index: u32) {
        self.deadlines.clear(index);
        self.connections[index].line.readable = true;
        if self.receive(index) == Still::Gone {
            return;
        }
        let connection = &self.connections[index];
        let State::Carrying(carrier) = &connection.state else { return };
        if carrier.streams.is_empty() && carrier.is_between_messages() && !connection.input.has_unread() {
            if carrier.speaks_http2() {
                let _ = self.leave_client_at_once(index);
                return;
            }
            self.end_unasked(index);
        }
    }
}
