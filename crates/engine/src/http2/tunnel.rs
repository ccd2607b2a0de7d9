//! WebSockets on streams of HTTP/2 (RFC 8441). The response to an extended CONNECT lasts as long as the WebSocket, whose frames are
//! its content.

use super::super::Engine;
use super::super::body::Body;
use super::super::carrier::Carrier;
use super::super::exchange::Received;
use super::super::name::{ExchangeIndex, Name};
use super::super::respond::Progress;
use super::super::send::Still;
use super::super::stream::Stream;
use super::super::tunnel::Tunnel;
use super::super::websocket::{LEFT, Read, Reading, Silence, WebSocket};
use super::super::websockets::{TRY_LATER, UNHANDLED};
use core::ops::Range;
use oribi_host::{ExchangeId, ReplyError};
use oribi_io::Backend;
use oribi_message::{FieldLayout, FieldPair, KnownField, ResponseHead, Span};
use oribi_stats::totals::Counter;

/// The key of a handshake over HTTP/1.1, which HTTP/2 has not: apps look for it.
const KEY: &[u8] = b"AAAAAAAAAAAAAAAAAAAAAA==";

/// Makes an extended CONNECT for a WebSocket a request as over HTTP/1.1. Returns whether it is one.
pub(in super::super) fn as_upgrade(request: &mut Received, protocol: Span) -> bool {
    let Received { layout, text, .. } = request;
    if !protocol.of(text).eq_ignore_ascii_case(b"websocket") {
        return false;
    }
    let mut append = |part: &[u8]| {
        let start = text.len();
        text.extend_from_slice(part);
        Span::new(start, text.len())
    };
    layout.method = append(b"GET");
    let fields: [FieldPair<'_>; 3] = [(b"Connection", b"Upgrade"), (b"Upgrade", b"websocket"), (b"Sec-WebSocket-Key", KEY)];
    let own = |name: &[u8]| fields.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
    for (name, value) in fields {
        let known = KnownField::lookup(name);
        layout.fields.push(FieldLayout { name: append(name), value: append(value), known });
    }
    let (ours, text) = (layout.fields.len() - fields.len(), &*text);
    let mut index = 0;
    layout.fields.retain(|field| {
        index += 1;
        index > ours || !own(field.name.of(text))
    });
    true
}

impl<B: Backend> Engine<'_, B> {
    /// Lets clients of HTTP/2 open WebSockets, if the settings say so: for an edge.
    pub fn accept_tunnels(&mut self) {
        self.limits.frames.connect_protocol = self.settings.websocket.http2;
    }

    /// Opens the WebSocket of a stream: see [`Engine::upgrade`].
    pub(in super::super) fn upgrade_stream(
        &mut self,
        exchange: ExchangeId,
        connection: u64,
        fields: &[FieldPair<'_>],
        deflates: bool,
    ) -> Result<(), ReplyError> {
        let Some(number) = self.tunnel_of(exchange) else {
            return Err(ReplyError::Invalid(
                "the stream of a client of HTTP/2 was not opened for a WebSocket (--websocket-http2)",
            ));
        };
        if !matches!(self.streams[number].tunnel.as_deref(), Some(Tunnel::Asked { .. })) {
            return Err(ReplyError::Gone);
        }
        // The accepted key belongs to HTTP/1.1.
        let is_key = |name: &[u8]| name.eq_ignore_ascii_case(b"sec-websocket-accept");
        let fields: Vec<FieldPair<'_>> = fields.iter().copied().filter(|(name, _)| !is_key(name)).collect();
        let Stream { connection: index, framing, .. } = &self.streams[number];
        let (index, id) = (*index, framing.id());
        if let Some(machine) = self.connections[index].carrier().and_then(Carrier::http2) {
            machine.open_tunnel(id);
        }
        self.start_framed(exchange, ResponseHead { status: 200, fields: &fields }, None)?;
        let open = Tunnel::Open(WebSocket::new(connection, deflates), Vec::new());
        let (early, ended) = match self.streams[number].tunnel.replace(Box::new(open)).map(|tunnel| *tunnel) {
            Some(Tunnel::Asked { early, ended }) => (early, ended),
            _ => (Vec::new(), false),
        };
        self.sockets.open += 1;
        self.tally.count(Counter::WebsocketsOpened);
        self.write_tunnel(exchange, &[b""])?;
        if !early.is_empty() && self.read_tunnel(number, early) == Still::Open {
            let _ = self.flush(index);
        }
        if ended && self.tunnel_of(exchange).is_some() {
            self.close_tunnel(number, LEFT, "");
        }
        Ok(())
    }

    /// The number of the stream of an exchange, if it is a tunnel.
    pub(in super::super) fn tunnel_of(&self, exchange: ExchangeId) -> Option<u32> {
        let Name { place: ExchangeIndex::Stream(number), serial } = exchange.into() else { return None };
        self.streams.get(number).filter(|stream| stream.serial == serial && stream.tunnel.is_some())?;
        Some(number)
    }

    fn exchange_of_tunnel(&self, number: u32) -> ExchangeId {
        Name { place: ExchangeIndex::Stream(number), serial: self.streams[number].serial }.into()
    }

    /// Takes DATA of a stream whose request is complete: that of a tunnel. Other streams have none.
    #[cold]
    #[inline(never)]
    pub(super) fn take_from_tunnel(&mut self, index: u32, id: u32, range: Range<usize>) -> Still {
        let connection = &mut self.connections[index];
        let piece = connection.input.bytes()[range].to_vec();
        let Some(number) = connection.carrier().and_then(|carrier| carrier.number(id)) else { return Still::Open };
        match self.streams[number].tunnel.as_deref_mut() {
            Some(Tunnel::Asked { early, .. }) => {
                early.extend_from_slice(&piece);
                Still::Open
            }
            // A message that goes on needs the window update at once, and nothing else may be there to be sent.
            Some(Tunnel::Open(..)) => match self.read_tunnel(number, piece) {
                Still::Open => self.flush(index),
                still => still,
            },
            None => Still::Open,
        }
    }

    /// Reads bytes of an open WebSocket, behind those that wait.
    fn read_tunnel(&mut self, number: u32, piece: Vec<u8>) -> Still {
        let index = self.streams[number].connection;
        let may_wait = self.sockets.may_wait();
        let Some(Tunnel::Open(socket, unread)) = self.streams[number].tunnel.as_deref_mut() else { return Still::Open };
        if unread.is_empty() {
            *unread = piece;
        } else {
            unread.extend_from_slice(&piece);
        }
        if socket.is_paused || (!may_wait && !socket.is_closing()) {
            // A message that its app handles lets it go on.
            socket.is_paused |= socket.unhandled > 0;
            if socket.is_paused {
                return Still::Open;
            }
        }
        let mut output = Vec::new();
        let sockets = &mut self.sockets;
        let before = socket.held;
        let reading = Reading {
            limits: &sockets.limits,
            inflater: &mut sockets.inflater,
            events: &mut sockets.events,
            waiting: &mut sockets.waiting,
            unhandled: UNHANDLED,
            answers: true,
            output: &mut output,
        };
        let (consumed, read) = socket.read(unread, reading);
        unread.drain(..consumed);
        if unread.is_empty() {
            *unread = Vec::new();
        }
        sockets.held = sockets.held + socket.held - before;
        self.consume_of_tunnel(index, number, consumed);
        let exchange = self.exchange_of_tunnel(number);
        if !output.is_empty() {
            let _ = self.write_tunnel(exchange, &[&output]);
        }
        if read == Read::Closed {
            self.end_tunnel(number);
        } else if self.sockets.hold_too_much()
            && matches!(self.streams[number].tunnel.as_deref(), Some(Tunnel::Open(socket, _)) if socket.held > 0)
        {
            self.close_tunnel(number, TRY_LATER, "");
        }
        if self.connections.get(index).is_some() { Still::Open } else { Still::Gone }
    }

    /// Lets the client send as much again.
    fn consume_of_tunnel(&mut self, index: u32, number: u32, size: usize) {
        let id = self.streams[number].framing.id();
        let connection = &mut self.connections[index];
        let output = connection.line.output.get_or_insert_with(|| self.memory.outputs.take());
        if let super::super::connection::State::Carrying(carrier) = &mut connection.state
            && let Some(machine) = carrier.http2()
        {
            machine.consume(id, size, output.tail());
        }
        connection.line.trim(&mut self.memory.outputs);
    }

    /// Goes on with a tunnel whose app was busy.
    pub(in super::super) fn resume_tunnel(&mut self, number: u32) {
        if matches!(self.streams[number].tunnel.as_deref(), Some(Tunnel::Open(_, unread)) if !unread.is_empty()) {
            let index = self.streams[number].connection;
            if self.read_tunnel(number, Vec::new()) == Still::Open {
                let _ = self.flush(index);
            }
        }
    }

    /// Sends frames of a WebSocket: see [`Engine::send_frames`].
    #[inline(never)]
    pub(in super::super) fn write_tunnel(&mut self, exchange: ExchangeId, frames: &[&[u8]]) -> Result<(), ReplyError> {
        // One message may be larger than the limit: the client has had no time to take it.
        let waited = self.unsent(exchange) > 0;
        match self.write_framed(exchange, Body::Parts(frames), false)? {
            Progress::Waiting(_) if waited && self.unsent(exchange) > self.sockets.output => {
                self.tally.count(Counter::LimitWebsocketBuffer);
                log::info!("a client of a WebSocket takes its messages too slowly, and is cut off (--websocket-buffer)");
                self.cut_tunnel(exchange);
                Err(ReplyError::Gone)
            }
            Progress::Waiting(_) => Ok(()),
            Progress::Finished => Err(ReplyError::Gone),
        }
    }

    /// Closes the WebSocket of a tunnel. The end of the stream follows at once: it says as much as a client's close would.
    pub(in super::super) fn close_tunnel(&mut self, number: u32, code: u16, reason: &str) {
        let exchange = self.exchange_of_tunnel(number);
        let Some(Tunnel::Open(socket, _)) = self.streams[number].tunnel.as_deref_mut() else { return };
        let mut output = Vec::new();
        if !socket.is_closing() {
            socket.close(code, reason, &mut output);
        }
        if self.write_tunnel(exchange, &[&output]).is_ok() {
            self.end_tunnel(number);
        }
    }

    /// Ends a tunnel after its last frame.
    fn end_tunnel(&mut self, number: u32) {
        let exchange = self.exchange_of_tunnel(number);
        self.forget_tunnel(number);
        let _ = self.finish(exchange);
    }

    /// Resets the stream of a tunnel.
    pub(in super::super) fn cut_tunnel(&mut self, exchange: ExchangeId) {
        if let Some(number) = self.tunnel_of(exchange) {
            self.forget_tunnel(number);
            self.abandon(exchange);
        }
    }

    /// Notes that the WebSocket of a stream, if it has one, has ended.
    pub(in super::super) fn forget_tunnel(&mut self, number: u32) {
        let tunnel = self.streams.get_mut(number).and_then(|stream| stream.tunnel.take());
        if let Some(Tunnel::Open(socket, _)) = tunnel.as_deref() {
            self.sockets.ended(socket, &self.tally);
        }
    }

    /// Handles the end of a client's side of a tunnel, which no close has announced.
    pub(super) fn end_of_tunnel(&mut self, index: u32, id: u32) {
        let number = self.connections[index].carrier().and_then(|carrier| carrier.number(id));
        let Some(number) = number else { return };
        match self.streams[number].tunnel.as_deref_mut() {
            Some(Tunnel::Asked { ended, .. }) => *ended = true,
            Some(Tunnel::Open(..)) => self.close_tunnel(number, LEFT, ""),
            None => {}
        }
    }

    /// The numbers of all tunnels.
    pub(in super::super) fn tunnels(&self) -> Vec<u32> {
        if self.limits.frames.connect_protocol {
            self.streams.indices().filter(|number| self.streams[*number].tunnel.is_some()).collect()
        } else {
            Vec::new()
        }
    }

    /// Looks at a tunnel: see [`Engine::look_at_sockets`].
    pub(in super::super) fn look_at_tunnel(&mut self, number: u32) {
        let exchange = self.exchange_of_tunnel(number);
        if self.streams[number].waits() {
            return;
        }
        let Some(Tunnel::Open(socket, _)) = self.streams[number].tunnel.as_deref_mut() else { return };
        match socket.look() {
            Silence::Nothing => {}
            Silence::Ping(frame) => _ = self.write_tunnel(exchange, &[&frame]),
            Silence::Cut => {
                self.tally.count(Counter::WebsocketsSilent);
                self.cut_tunnel(exchange);
            }
        }
    }
}
