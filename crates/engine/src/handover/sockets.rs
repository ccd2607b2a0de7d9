//! WebSockets that move to an engine in another process, in the middle of whatever their clients send.

use super::super::Engine;
use super::super::connection::{Connection, State};
use super::super::name::{ExchangeIndex, Name};
use super::super::send::Still;
use super::super::websocket::WebSocket;
use super::super::websockets::UNHANDLED;
use oribi_host::ExchangeId;
use oribi_io::Backend;
use oribi_ipc::handover::Record;
use oribi_stats::totals::Counter;
use std::os::fd::OwnedFd;

/// A WebSocket on its way to another engine.
#[derive(Debug)]
pub struct MovingSocket {
    /// Its connection.
    pub connection: Record,
    /// The bytes that wait to be sent.
    pub output: Vec<u8>,
    /// The parts of messages and frames that have arrived.
    pub reader: Vec<u8>,
    /// The looks at the connection since its last byte has arrived.
    pub looks: u8,
}

impl<B: Backend> Engine<'_, B> {
    /// Whether the connection of an exchange can ever move to another process: that of HTTP/2 cannot, nor an encrypted one.
    #[must_use]
    pub fn can_hand_over(&self, exchange: ExchangeId) -> bool {
        let Name { place: ExchangeIndex::Connection(index), serial } = exchange.into() else { return false };
        let connection = self.connections.get(index).filter(|connection| connection.serial == serial);
        connection.is_some_and(|connection| self.backend.can_move(&connection.line.socket))
    }

    /// Removes a WebSocket without ending it. `waiting`: the bytes of its messages that wait for the app. `None`: it cannot move now,
    /// because it closes, its client sends nothing more, or its bytes have not been sent.
    pub fn release_socket(&mut self, exchange: ExchangeId, waiting: usize) -> Option<(MovingSocket, OwnedFd)> {
        if !self.can_hand_over(exchange) {
            return None;
        }
        let index = self.socket_of(exchange)?;
        let Connection { line, state: State::WebSocket(socket), .. } = &self.connections[index] else { return None };
        if line.ended || line.output.as_ref().is_some_and(|output| !output.is_in_memory()) {
            return None;
        }
        let (reader, looks) = socket.parts()?;
        let (connection, output, descriptor, state) = self.detach(index)?;
        if let State::WebSocket(socket) = state {
            self.sockets.open -= 1;
            self.sockets.held -= socket.held;
        }
        self.sockets.waiting -= waiting;
        Some((MovingSocket { connection, output, reader, looks }, descriptor))
    }

    /// Continues a WebSocket that another engine has released: the one with this name, of which so many messages with so many bytes
    /// wait for the app. `None`: it is lost.
    pub fn adopt_socket(
        &mut self,
        moving: MovingSocket,
        (name, deflates): (u64, bool),
        (unhandled, waiting): (usize, usize),
        descriptor: OwnedFd,
    ) -> Option<ExchangeId> {
        let MovingSocket { connection, output, reader, looks } = moving;
        let mut socket = WebSocket::restored(name, deflates, &reader, looks)?;
        socket.unhandled = u16::try_from(unhandled).ok()?;
        socket.is_paused = socket.unhandled >= UNHANDLED;
        let index = self.attach(connection, &output, descriptor)?;
        self.sockets.held += socket.held;
        self.sockets.waiting += waiting;
        self.sockets.open += 1;
        let serial = self.serials.next();
        let connection = &mut self.connections[index];
        connection.serial = serial;
        connection.enter(State::WebSocket(Box::new(socket)));
        // If the client has gone, an event says so, as later.
        if self.open(index) == Still::Open
            && self.flush(index) == Still::Open
            && (!self.connections[index].input.has_unread() || self.read_socket(index) == Still::Open)
            && self.connections[index].line.readable
        {
            self.ask_for_turn(index);
        }
        Some(Name { place: ExchangeIndex::Connection(index), serial }.into())
    }

    /// Takes a connection out of the engine: its record, the bytes that wait to be sent, its descriptor and its state.
    pub(super) fn detach(&mut self, index: u32) -> Option<(Record, Vec<u8>, OwnedFd, State)> {
        let output = self.connections[index].line.output.as_ref().map_or_else(Vec::new, |output| output.bytes());
        let (record, descriptor, state) = self.release(index)?;
        self.tally.count(Counter::ConnectionsHandedOver);
        Some((record, output, descriptor, state))
    }

    /// Puts a connection of another engine into this one, with bytes that wait to be sent. Its state follows.
    pub(super) fn attach(&mut self, record: Record, output: &[u8], descriptor: OwnedFd) -> Option<u32> {
        let index = self.insert(record, descriptor)?;
        if !output.is_empty() {
            let line = &mut self.connections[index].line;
            line.output.get_or_insert_with(|| self.memory.outputs.take()).push(output);
        }
        self.tally.count(Counter::ConnectionsTakenOver);
        Some(index)
    }
}
