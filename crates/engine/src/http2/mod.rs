//! Connections of clients that speak HTTP/2, which carry many exchanges at once (RFC 9113).
//!
//! As with FastCGI, a connection stays [`Carrying`](super::connection::State::Carrying), and each request is a
//! [`Stream`](super::stream::Stream) with its own state and deadlines. The difference is flow control: a client limits the
//! content that it accepts, on the connection and on each stream. Content for which there is no room waits with its stream
//! (`send`), so no stream blocks the others.
//!
//! A client with prior knowledge of HTTP/2 opens such a connection in clear text (section 3.3); over TLS, the peers agree on
//! HTTP/2 in the handshake (section 3.2). In clear text the HTTP/1 machine refuses the first line of the client, and only then
//! does the engine check for HTTP/2.

mod receive;
mod send;
mod tunnel;

use super::Engine;
use super::carrier::Carrier;
use super::connection::{Connection, Speech, State};
use super::send::Still;
use oribi_config::Settings;
use oribi_io::Backend;
use oribi_proto::h1;
use oribi_proto::h2::{self, Machine, Opening};
use oribi_stats::totals::Counter;

impl<B: Backend> Engine<'_, B> {
    /// Whether input that an HTTP/1 machine has refused begins a connection of HTTP/2. If too few bytes have arrived to decide,
    /// a new machine replaces the one that has refused the input.
    pub(super) fn opening(&mut self, index: u32) -> Opening {
        let connection = &mut self.connections[index];
        // Over TLS the peers have agreed on HTTP/2, or on something else, before the first byte (section 3.2).
        match self.backend.encryption(&connection.line.socket) {
            Some(encryption) => return if encryption.http2 { Opening::Http2 } else { Opening::Other },
            None if connection.requests > 0 || !self.settings.http2 => return Opening::Other,
            None => {}
        }
        let opening = h2::opening(connection.input.unread());
        if opening == Opening::Unclear {
            connection.machine = h1::Machine::new();
        }
        opening
    }

    /// Continues a connection as one of HTTP/2.
    #[inline(never)]
    pub(super) fn speak_http2(&mut self, index: u32) -> Still {
        self.tally.count(Counter::Http2Connections);
        self.count_speech(index, Speech::Http2);
        let carrier = Carrier::of_client(&self.limits.frames);
        self.connections[index].enter(State::Carrying(Box::new(carrier)));
        self.parse_carried(index)
    }

    /// Asks all clients to open no more streams, because this engine stops or hands over.
    #[inline(never)]
    pub(super) fn leave_clients(&mut self) {
        let clients: Vec<u32> = self.connections.indices().filter(|index| self.connections[*index].speaks_http2()).collect();
        for index in clients {
            let _ = self.leave_client(index);
        }
    }

    /// Asks a client to open no more streams. Requests in flight are still answered.
    pub(super) fn leave_client(&mut self, index: u32) -> Still {
        self.say_farewell(index, Machine::retire)
    }

    /// Announces to a client that only the streams opened so far are answered. A connection without any stream ends.
    pub(super) fn leave_client_at_once(&mut self, index: u32) -> Still {
        self.say_farewell(index, Machine::retire_at_once)
    }

    fn say_farewell(&mut self, index: u32, farewell: fn(&mut Machine, &mut Vec<u8>)) -> Still {
        let Connection { line, state, .. } = &mut self.connections[index];
        let State::Carrying(carrier) = state else { return Still::Open };
        let Some(machine) = carrier.http2() else { return Still::Open };
        farewell(machine, line.output.get_or_insert_with(|| self.memory.outputs.take()).tail());
        line.trim(&mut self.memory.outputs);
        if self.flush(index) == Still::Gone {
            return Still::Gone;
        }
        self.end_or_rest(index)
    }
}

/// The limits of the machines, from the settings.
pub(super) fn limits(settings: &Settings) -> h2::Limits {
    let limits = &settings.limits;
    h2::Limits {
        streams: limits.http2_streams,
        head_bytes: limits.head_bytes,
        fields: limits.fields,
        target_bytes: limits.target_bytes,
        strict_target: settings.strict_uri,
        content_bytes: limits.content_bytes,
        ..h2::Limits::default()
    }
}
