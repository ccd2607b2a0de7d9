//! How exchanges end that a connection carries, and how the connection ends.

use super::super::connection::{Fate, Phase};
use super::super::record::Draft;
use super::super::{Engine, Exchange, Stage};
use super::{Carried, Carrier, Stream};
use oribi_io::Backend;
use oribi_proto::fcgi::Finish;

impl<B: Backend> Engine<'_, B> {
    /// Takes an exchange back whose host has returned.
    pub(in super::super) fn give_back_stream(&mut self, carried: Carried, exchange: Exchange) {
        let outcome = match self.present_stream(carried, exchange.id()) {
            Some(stream) if stream.fate.is_none() => Some(None),
            Some(stream) => Some(Some((stream.status, stream.sent, stream.complete_at))),
            None => None,
        };
        let answered_later = matches!(outcome, Some(None));
        if !answered_later {
            self.record_outcome(&exchange, outcome.flatten());
        }
        let draft = (answered_later && self.access_log.is_some()).then(|| Draft::of(&exchange));
        let Exchange { mut lent, .. } = exchange;
        if let Some(mut parts) = lent.parts.take() {
            std::mem::swap(&mut parts.layout, &mut lent.layout);
            self.keep_parts(parts);
        }
        let content = std::mem::take(&mut lent.content);
        content.recycle(&mut self.spare_content, self.settings.limits.content_memory_bytes);
        self.spare_exchanges.push(lent);
        let present = outcome.is_some();
        let Some(stream) = self.streams.get_mut(carried.0).filter(|_| present) else { return };
        stream.lent = false;
        stream.draft = draft;
        if stream.fate.is_some() {
            self.forget_stream(carried.0);
        }
    }

    /// The end of a response has been written into the connection's output.
    pub(super) fn stream_finished(&mut self, place: u32, finish: Finish) {
        match finish {
            Finish::Short { missing } => {
                log::error!("a response was cut off: {missing} bytes short of its Content-Length");
            }
            Finish::Over => log::error!("a response was cut off: more content than its Content-Length"),
            Finish::Complete => {}
        }
        let stopping = self.stage == Stage::Stopping;
        let Some(stream) = self.streams.get_mut(place) else { return };
        stream.fate = Some(Fate::Reuse);
        let (connection, id, lent) = (stream.connection, stream.exchange.id(), stream.lent);
        if stream.phase == Phase::Answering {
            self.answering -= 1;
        }
        if let Some(draft) = stream.draft.take() {
            let (remote, status, sent, began) = (stream.remote, stream.status, stream.sent, stream.complete_at);
            self.record_draft(&draft, remote, status, sent, began);
        }
        if let Some(carrier) = self.carrier(connection) {
            carrier.remove(id);
            carrier.machine.finished(id);
            if stopping {
                carrier.machine.retire();
            }
        }
        if !lent {
            self.forget_stream(place);
        }
        self.end_or_rest(connection);
    }

    /// Ends a connection that is to end once nothing is left on it, or lets it rest.
    pub(super) fn end_or_rest(&mut self, index: u32) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        let Some(carrier) = &connection.carrier else { return };
        if !carrier.machine.must_close() {
            return self.rest_if_idle(index);
        }
        connection.phase = Phase::Flushing;
        connection.fate = Some(Fate::Close);
        if connection.output_is_empty() { self.resume(index) } else { self.flush(index) }
    }

    /// The web server does not want this request answered any more: says that it has ended, and forgets it.
    pub(super) fn cancel_stream(&mut self, place: u32) {
        let Some(stream) = self.streams.get_mut(place) else { return };
        self.scratch.clear();
        stream.exchange.finish(0, &mut self.scratch);
        let connection = stream.connection;
        let _ = self.emit(connection, &[], 0);
        self.lose_stream(place);
        self.end_or_rest(connection);
    }

    /// Forgets a stream whose response nobody waits for.
    pub(in super::super) fn lose_stream(&mut self, place: u32) {
        let Some(Stream { connection, exchange, fate: None, phase, .. }) = self.streams.get(place) else { return };
        let (connection, id) = (*connection, exchange.id());
        if *phase == Phase::Answering {
            self.answering -= 1;
        }
        if let Some(carrier) = self.carrier(connection) {
            carrier.remove(id);
            carrier.machine.finished(id);
        }
        self.forget_stream(place);
    }

    /// Frees the place of a stream.
    fn forget_stream(&mut self, place: u32) {
        self.stream_deadlines.clear(place);
        let Some(stream) = self.streams.remove(place) else { return };
        if let Some(draft) = stream.draft {
            self.record_gone(&draft, stream.remote, stream.sent, stream.complete_at);
        }
        if let Some(parts) = stream.parts {
            self.keep_parts(parts);
        }
    }

    /// A connection has gone, and all that it carried with it.
    pub(in super::super) fn lose_streams(&mut self, carrier: Carrier) {
        for (_, place) in carrier.streams {
            self.lose_stream(place);
        }
    }
}
