//! Ends exchanges on a carrying connection, and the connection itself.

use super::super::answer::Lost;
use super::super::carrier::{Carrier, Multiplexer};
use super::super::connection::{Connection, Fate, State};
use super::super::framing::{FAILURE, Framing, Http2};
use super::super::memory::Memory;
use super::super::name::{ExchangeIndex, Name};
use super::super::respond::Target;
use super::super::send::Still;
use super::super::stream::{Requested, Stream, StreamFraming, StreamState};
use super::super::{Engine, Exchange, ServeState};
use oribi_host::ExchangeId;
use oribi_io::Backend;
use oribi_proto::fcgi::Refusal;
use oribi_proto::h2::ErrorCode;
use oribi_stats::totals::Counter;

impl<B: Backend> Engine<'_, B> {
    /// Takes back an exchange whose host has returned.
    pub(in super::super) fn give_back_stream(&mut self, number: u32, serial: u32, exchange: Exchange) {
        let stream = self.streams.get_mut(number).filter(|stream| stream.serial == serial);
        let waits = stream.as_ref().is_some_and(|stream| stream.waits());
        let Some((connection, _, answer)) = stream.and_then(Stream::answering) else {
            self.record(&exchange, None);
            return self.recycle_carried(exchange.received);
        };
        // A stream with content that waits to be framed is forgotten after that content.
        if answer.finished && !waits {
            let counted = answer.counted();
            self.conclude_returned(connection, &exchange, counted);
            self.forget_stream(number);
        } else {
            let draft = self.draft(&exchange);
            if let Some((_, _, answer)) = self.streams[number].answering() {
                answer.give_back(draft);
            }
        }
        self.recycle_carried(exchange.received);
    }

    /// Notes that the response of a stream is finished. Ends the exchange, unless content still waits to be framed.
    pub(in super::super) fn stream_finished(&mut self, number: u32) {
        let now = self.backend.now().into();
        let stream = &mut self.streams[number];
        let (connection, id) = (stream.connection, stream.framing.id());
        let Some((_, _, answer)) = stream.answering() else { return };
        answer.finished = true;
        answer.timings.end_app(now);
        let lent = answer.is_lent();
        if self.streams[number].waits() {
            return;
        }
        if !lent {
            self.conclude_stream(number);
        }
        self.stream_deadlines.clear(number);
        self.leave_carrier(connection, id);
        if !lent {
            self.forget_stream(number);
        }
        let _ = self.end_or_rest(connection);
    }

    /// Answers a request that the server refuses. Further input for it is skipped.
    #[inline(never)]
    pub(in super::super) fn refuse_stream(&mut self, number: u32, refusal: Refusal) -> Still {
        log::debug!("refused a request: {} {}", refusal.status(), refusal.reason());
        let Self { connections, streams, server_fields, memory: Memory { outputs, .. }, .. } = self;
        let Stream { connection, framing, remote, state: progress, .. } = &mut streams[number];
        let (https, id) = match progress {
            StreamState::Requested(Requested { request, .. }) => (request.is_https(), request.id.take()),
            StreamState::Answering(_) => (false, None),
        };
        let (index, remote) = (*connection, *remote);
        let Connection { line, state, .. } = &mut connections[index];
        let output = line.output.get_or_insert_with(|| outputs.take());
        match (framing, state) {
            (StreamFraming::FastCgi(writer), _) => {
                writer.write_refusal(refusal, output.tail());
                writer.finish(0, output.tail());
            }
            (StreamFraming::Http2(frames), State::Carrying(carrier)) => {
                if let Some(machine) = carrier.http2() {
                    machine.write_refusal(frames.id, refusal, &server_fields.of_refusal(https, id.as_deref()), output.tail());
                    let _ = machine.finish(frames.id, output.tail());
                }
            }
            (StreamFraming::Http2(_), _) => {}
        }
        line.trim(outputs);
        let ending = self.ending_of(index);
        self.record_refusal(&remote, id.as_deref(), refusal, ending);
        self.end_unanswered(number)
    }

    /// Sends the end of a stream and forgets the stream.
    pub(in super::super) fn end_unanswered(&mut self, number: u32) -> Still {
        let connection = self.streams[number].connection;
        if self.flush(connection) == Still::Gone {
            return Still::Gone;
        }
        self.lose_stream(number);
        self.end_or_rest(connection)
    }

    /// Ends an abandoned response. The status (FastCGI) or a reset (HTTP/2) shows that it is incomplete.
    #[inline(never)]
    pub(in super::super) fn give_up_stream(&mut self, exchange: ExchangeId) {
        let Self { connections, streams, tally, memory: Memory { outputs, .. }, .. } = self;
        let Ok(Target { place, index, response, .. }) = Target::find(connections, streams, exchange) else { return };
        let output = response.line.output.get_or_insert_with(|| outputs.take());
        match response.framing {
            Framing::FastCgi(framing) => drop(framing.finish(FAILURE, output.tail())),
            Framing::Http2(Http2 { machine, frames, .. }) => {
                frames.waiting = None;
                tally.count(Counter::Http2ResetsByServer);
                machine.reset(frames.id, ErrorCode::INTERNAL_ERROR, output.tail());
            }
            Framing::Http(_) => {}
        }
        response.line.trim(outputs);
        if self.flush(index) == Still::Open && matches!(place, ExchangeIndex::Stream(_)) {
            self.answer_finished(place);
        }
    }

    /// Closes a connection that should end once it carries no request, or sets its idle deadline.
    #[inline(never)]
    pub(in super::super) fn end_or_rest(&mut self, index: u32) -> Still {
        let stopping = self.stage == ServeState::Stopping;
        let connection = &mut self.connections[index];
        let State::Carrying(carrier) = &mut connection.state else { return Still::Open };
        if !carrier.must_close() {
            self.rest_if_idle(index);
            return Still::Open;
        }
        debug_assert!(carrier.streams.is_empty() || !stopping, "a machine closes behind its last request");
        // A client of HTTP/2 keeps sending window updates while it reads the last response, and a web server the rest of a
        // refused request. On a closed socket these bytes would cause a reset, which discards bytes in flight.
        let fate = if carrier.peer_sends_on() { Fate::Linger } else { Fate::Close };
        connection.state = State::Flushing(fate);
        if connection.line.output.is_none() { self.go_on(index, fate) } else { self.flush(index) }
    }

    /// Removes a finished request from its connection.
    pub(in super::super) fn leave_carrier(&mut self, connection: u32, id: u32) {
        let stopping = self.stage == ServeState::Stopping || self.has_ended(connection);
        if let Some(carrier) = self.connections.get_mut(connection).and_then(|connection| connection.carrier()) {
            carrier.remove(id);
            if let Multiplexer::FastCgi(machine) = &mut carrier.multiplexer {
                machine.finished(id as u16);
                if stopping {
                    machine.retire();
                }
            }
            if carrier.withholds {
                self.resume_contents(connection);
            }
        }
    }

    /// Forgets a stream whose client has disconnected.
    #[inline(never)]
    pub(in super::super) fn lose_stream(&mut self, number: u32) {
        self.forget_tunnel(number);
        let Some(stream) = self.streams.get_mut(number) else { return };
        let (connection, id, serial) = (stream.connection, stream.framing.id(), stream.serial);
        if let Some((_, _, answer)) = stream.answering() {
            if answer.finished {
                // The response is finished, and only its connection has ended. The host may still have to give the exchange
                // back.
                let lent = answer.is_lent();
                stream.abandon_waiting();
                if !lent {
                    self.conclude_stream(number);
                }
                self.stream_deadlines.clear(number);
                self.leave_carrier(connection, id);
                if !lent {
                    self.forget_stream(number);
                }
                return;
            }
            let lost = Lost::of(Name { place: ExchangeIndex::Stream(number), serial }, answer);
            self.answering -= 1;
            self.lose(lost);
        }
        self.leave_carrier(connection, id);
        self.forget_stream(number);
    }

    /// Frees the place of a stream.
    #[inline(never)]
    pub(in super::super) fn forget_stream(&mut self, number: u32) {
        self.stream_deadlines.clear(number);
        self.forget_tunnel(number);
        if self.streams.get(number).is_some_and(|stream| matches!(stream.state, StreamState::Answering(_))) {
            return self.streams.empty(number);
        }
        if let Some(Stream { state: StreamState::Requested(requested), .. }) = self.streams.remove(number) {
            self.recycle_carried(requested.request);
        }
    }

    /// Loses all streams of a connection that has ended.
    pub(in super::super) fn lose_streams(&mut self, carrier: Carrier) {
        for (_, number) in carrier.streams {
            self.lose_stream(number);
        }
    }
}
