//! The end of exchanges on a carrying connection, and the end of the connection.

use super::super::answer::Custody;
use super::super::carrier::Carrier;
use super::super::connection::{Fate, State};
use super::super::framing::{FAILURE, Framing};
use super::super::name::Place;
use super::super::respond::Target;
use super::super::send::Still;
use super::super::stream::{Stream, StreamState};
use super::super::{Engine, Exchange, Stage};
use oribi_host::ExchangeId;
use oribi_io::Backend;
use oribi_proto::fcgi::Refusal;

impl<B: Backend> Engine<'_, B> {
    /// Takes back an exchange whose host has returned.
    pub(in super::super) fn give_back_stream(&mut self, number: u32, serial: u32, exchange: Exchange) {
        let stream = self.streams.get_mut(number).filter(|stream| stream.serial == serial);
        let outcome = stream.and_then(Stream::answering).map(|(_, _, answer)| answer.outcome());
        let draft = self.record(&exchange, outcome);
        self.recycle_carried(exchange.received);
        let Some(outcome) = outcome else { return };
        if outcome.finished {
            self.forget_stream(number);
        } else if let Some((_, _, answer)) = self.streams[number].answering() {
            answer.custody = Custody::Returned(draft);
        }
    }

    /// Called when the end of a response has been written to the connection's output.
    pub(in super::super) fn stream_finished(&mut self, number: u32) {
        let stream = &mut self.streams[number];
        let (connection, id) = (stream.connection, stream.framing.id());
        let Some((_, _, answer)) = stream.answering() else { return };
        answer.finished = true;
        let (line, lent) = (answer.late_line(), answer.is_lent());
        self.record_late(line);
        self.leave_carrier(connection, id);
        if !lent {
            self.forget_stream(number);
        }
        let _ = self.end_or_rest(connection);
    }

    /// Answers a request that the server refuses. Further input for it is skipped.
    pub(super) fn refuse_stream(&mut self, number: u32, refusal: Refusal) -> Still {
        log::debug!("refused a request: {} {}", refusal.status(), refusal.reason());
        let Stream { connection, framing, remote, .. } = &mut self.streams[number];
        let (index, remote) = (*connection, *remote);
        let line = &mut self.connections[index].line;
        let output = line.output.get_or_insert_with(|| self.outputs.take());
        framing.write_refusal(refusal, output.tail());
        framing.finish(0, output.tail());
        self.record_refusal(remote.address(), refusal.status());
        self.end_unanswered(number)
    }

    /// Called when the web server does not want the answer any more: tells it that the request has ended, and forgets the
    /// request.
    pub(super) fn cancel_stream(&mut self, number: u32) -> Still {
        let Stream { connection, framing, .. } = &mut self.streams[number];
        let line = &mut self.connections[*connection].line;
        framing.finish(0, line.output.get_or_insert_with(|| self.outputs.take()).tail());
        self.end_unanswered(number)
    }

    /// Sends the end of a stream and forgets the stream.
    fn end_unanswered(&mut self, number: u32) -> Still {
        let connection = self.streams[number].connection;
        if self.flush(connection) == Still::Gone {
            return Still::Gone;
        }
        self.lose_stream(number);
        self.end_or_rest(connection)
    }

    /// Ends a response that was given up: the announced length or the status shows that it is incomplete.
    pub(in super::super) fn give_up_stream(&mut self, exchange: ExchangeId) {
        let Self { connections, streams, outputs, .. } = self;
        let Ok(Target { place, index, response, .. }) = Target::find(connections, streams, exchange) else { return };
        if let Framing::FastCgi(framing) = response.framing {
            framing.finish(FAILURE, response.line.output.get_or_insert_with(|| outputs.take()).tail());
        }
        if self.flush(index) == Still::Open && matches!(place, Place::Stream(_)) {
            self.answer_finished(place);
        }
    }

    /// Closes a connection that is to end once it carries nothing, or sets its idle deadline.
    pub(super) fn end_or_rest(&mut self, index: u32) -> Still {
        let stopping = self.stage == Stage::Stopping;
        let connection = &mut self.connections[index];
        let State::Carrying(carrier) = &mut connection.state else { return Still::Open };
        if !carrier.machine.must_close() {
            self.rest_if_idle(index);
            return Still::Open;
        }
        debug_assert!(carrier.streams.is_empty() || !stopping, "a machine closes behind its last request");
        connection.state = State::Flushing(Fate::Close);
        if connection.line.output.is_none() { self.go_on(index, Fate::Close) } else { self.flush(index) }
    }

    /// Removes a finished request from its connection.
    fn leave_carrier(&mut self, connection: u32, id: u16) {
        let stopping = self.stage == Stage::Stopping;
        if let Some(carrier) = self.connections.get_mut(connection).and_then(|connection| connection.carrier()) {
            carrier.remove(id);
            carrier.machine.finished(id);
            if stopping {
                carrier.machine.retire();
            }
        }
    }

    /// Forgets a stream whose client has gone.
    fn lose_stream(&mut self, number: u32) {
        let Some(stream) = self.streams.get_mut(number) else { return };
        let (connection, id, serial) = (stream.connection, stream.framing.id(), stream.serial);
        if let Some((_, _, answer)) = stream.answering() {
            if answer.finished {
                // Only its connection has gone; its host will still give it back.
                return;
            }
            let line = answer.late_line();
            self.answering -= 1;
            self.record_late(line);
            self.note_lost(Place::Stream(number), serial);
        }
        self.leave_carrier(connection, id);
        self.forget_stream(number);
    }

    /// Frees the place of a stream.
    fn forget_stream(&mut self, number: u32) {
        self.stream_deadlines.clear(number);
        let Some(stream) = self.streams.remove(number) else { return };
        match stream.state {
            StreamState::Reading(reading) => self.recycle_carried(reading.request),
            StreamState::Queued(request) => self.recycle_carried(request),
            StreamState::Answering(_) => {}
        }
    }

    /// Called when a connection has gone: loses everything that it carried.
    pub(in super::super) fn lose_streams(&mut self, carrier: Carrier) {
        for (_, number) in carrier.streams {
            self.lose_stream(number);
        }
    }
}
