//! Connections that have changed from HTTP/1.1 to WebSocket (RFC 6455). No app has anything to do with them: the engine reads
//! whole messages, answers pings, and completes closes; the edge passes the messages to the app, and sends the app's.
//!
//! Such a connection has no deadline while it is silent: [`Engine::look_at_sockets`] finds those whose clients have gone.

use super::Engine;
use super::connection::{Connection, Fate, State};
use super::deadline::Deadline;
use super::drains::Drains;
use super::memory::Memory;
use super::name::{ExchangeIndex, Name};
use super::receive::RECEIVES_PER_TURN;
use super::send::Still;
use super::tunnel::Tunnel;
use super::websocket::{GOING_AWAY, Handled, Read, Reading, Silence, SocketEvent, WebSocket};
use oribi_config::Settings;
use oribi_host::{ExchangeId, ReplyError};
use oribi_io::{Attempt, Backend, Token};
use oribi_message::FieldPair;
use oribi_proto::h1::InvalidResponse;
use oribi_stats::totals::{Counter, Tally};
use oribi_websocket::{Fault, Inflater, Limits};
use std::collections::VecDeque;

/// The most messages of a connection that wait for its app. More are not received, so the client waits.
pub(super) const UNHANDLED: u16 = 16;

/// The most bytes of memory for the messages of all connections that wait for apps, and as many for those that have partly arrived.
const WAITING_BYTES: usize = 64 << 20;

/// Pings are not answered while this many bytes of output wait for their client, which may send any number.
const PONG_OUTPUT: usize = 64 << 10;

/// The state that all WebSockets of an engine share.
pub(super) struct Sockets {
    pub(super) events: VecDeque<SocketEvent>,
    pub(super) inflater: Inflater,
    pub(super) limits: Limits,
    /// The most bytes that may wait for a client.
    pub(super) output: usize,
    /// The bytes of messages that wait for apps.
    pub(super) waiting: usize,
    /// The bytes of messages that have partly arrived.
    pub(super) held: usize,
    /// Connections that are not read before fewer bytes wait, by their tokens.
    paused: Vec<Token>,
    pub(super) open: usize,
    /// The clients whose output is waited for.
    pub(super) drains: Drains,
}

impl Sockets {
    pub(super) fn new(settings: &Settings) -> Self {
        let limits = Limits { message: settings.websocket.message_bytes, ..Limits::default() };
        Self {
            events: VecDeque::new(),
            inflater: Inflater::new(),
            limits,
            output: settings.websocket.buffer_bytes,
            waiting: 0,
            held: 0,
            paused: Vec::new(),
            open: 0,
            drains: Drains::new(),
        }
    }

    /// Whether more messages may wait for apps.
    pub(super) fn may_wait(&self) -> bool {
        self.waiting < WAITING_BYTES
    }

    /// Whether messages that have partly arrived take too much memory.
    pub(super) fn hold_too_much(&self) -> bool {
        self.held > WAITING_BYTES
    }

    /// Notes the end of a WebSocket.
    pub(super) fn ended(&mut self, socket: &WebSocket, tally: &Tally) {
        self.open -= 1;
        self.held -= socket.held;
        tally.count(Counter::WebsocketsClosed);
        self.events.push_back(socket.end());
    }
}

impl<B: Backend> Engine<'_, B> {
    /// Makes the connection of an exchange, whose host has returned, a WebSocket with this name, and with these fields in its
    /// response. `deflates`: whether the fields agree on compressed messages.
    ///
    /// # Errors
    /// [`ReplyError::Gone`]: the exchange is over, or its response has begun. [`ReplyError::Invalid`]: its connection cannot change, or
    /// a field is invalid; the exchange goes on.
    pub fn upgrade(
        &mut self,
        exchange: ExchangeId,
        connection: u64,
        fields: &[FieldPair<'_>],
        deflates: bool,
    ) -> Result<(), ReplyError> {
        let Name { place: ExchangeIndex::Connection(index), serial } = exchange.into() else {
            return self.upgrade_stream(exchange, connection, fields, deflates);
        };
        let Self { connections, backend, memory: Memory { outputs, .. }, .. } = self;
        let found = connections.get_mut(index).filter(|found| found.serial == serial).ok_or(ReplyError::Gone)?;
        let Connection { line, machine, state, .. } = found;
        let State::Answering(answering) = state else { return Err(ReplyError::Gone) };
        let answer = &mut answering.answer;
        if answer.finished || answer.is_lent() || answering.outlook.taken {
            return Err(ReplyError::Gone);
        }
        let output = line.output.get_or_insert_with(|| outputs.take());
        let written = machine.write_switch("websocket", fields, output.tail());
        line.trim(outputs);
        written.map_err(|InvalidResponse(why)| ReplyError::Invalid(why))?;
        answer.status = 101;
        answer.finished = true;
        answer.timings.begin_response(backend.now().into());
        answer.timings.end_app(backend.now().into());
        let (counted, log_line) = (answer.counted(), answer.late_line());
        self.answering -= 1;
        self.tally.responded(101);
        self.conclude(index, counted, log_line);
        self.connections[index].enter(State::WebSocket(Box::new(WebSocket::new(connection, deflates))));
        self.deadlines.clear(index);
        self.sockets.open += 1;
        self.tally.count(Counter::WebsocketsOpened);
        // If the client has gone already, an event says so, as later.
        if self.open(index) == Still::Open
            && self.flush(index) == Still::Open
            && (!self.connections[index].input.has_unread() || self.read_socket(index) == Still::Open)
            && self.connections[index].line.readable
        {
            self.ask_for_turn(index);
        }
        Ok(())
    }

    /// The number of open WebSockets.
    #[must_use]
    pub fn open_sockets(&self) -> usize {
        self.sockets.open
    }

    /// Whether there is an event of a WebSocket.
    #[inline]
    #[must_use]
    pub fn has_socket_events(&self) -> bool {
        !self.sockets.events.is_empty()
    }

    /// Returns the next event of a WebSocket. Each message is handled when [`Engine::message_handled`] says so.
    #[inline]
    pub fn take_socket_event(&mut self) -> Option<SocketEvent> {
        self.sockets.events.pop_front()
    }

    /// Says that the app has handled a message of this size, so that more may be received.
    pub fn message_handled(&mut self, exchange: ExchangeId, size: usize) {
        self.sockets.waiting -= size;
        if self.sockets.waiting < WAITING_BYTES {
            for token in std::mem::take(&mut self.sockets.paused) {
                let Some(index) = self.connections.find(token) else { continue };
                if let State::WebSocket(socket) = &mut self.connections[index].state {
                    socket.is_paused = false;
                    self.ask_for_turn(index);
                }
            }
        }
        if let Some(number) = self.tunnel_of(exchange) {
            if let Some(Tunnel::Open(socket, _)) = self.streams[number].tunnel.as_deref_mut() {
                match socket.message_handled() {
                    Handled::GoesOn { .. } => self.resume_tunnel(number),
                    Handled::Waits => {}
                    Handled::Fails(Fault { code, reason }) => self.close_tunnel(number, code, reason),
                }
            }
            return;
        }
        let Some(index) = self.socket_of(exchange) else { return };
        if let State::WebSocket(socket) = &mut self.connections[index].state {
            match socket.message_handled() {
                Handled::GoesOn { was_paused: true } => self.ask_for_turn(index),
                Handled::GoesOn { was_paused: false } | Handled::Waits => {}
                Handled::Fails(Fault { code, reason }) => {
                    self.close_socket_at(index, code, reason);
                    if self.socket_of(exchange).is_some() {
                        let _ = self.end_socket(index);
                    }
                }
            }
        }
    }

    pub(super) fn socket_of(&self, exchange: ExchangeId) -> Option<u32> {
        let Name { place: ExchangeIndex::Connection(index), serial } = exchange.into() else { return None };
        let connection = self.connections.get(index).filter(|connection| connection.serial == serial)?;
        matches!(connection.state, State::WebSocket(_)).then_some(index)
    }

    /// Sends frames. A client that has more bytes to take than it may is cut off.
    ///
    /// # Errors
    /// [`ReplyError::Gone`]: the WebSocket has ended, or is ending.
    pub fn send_frames(&mut self, exchange: ExchangeId, frames: &[&[u8]]) -> Result<(), ReplyError> {
        if let Some(number) = self.tunnel_of(exchange) {
            let is_open = matches!(self.streams[number].tunnel.as_deref(), Some(Tunnel::Open(..)));
            return if is_open { self.write_tunnel(exchange, frames) } else { Err(ReplyError::Gone) };
        }
        let index = self.socket_of(exchange).ok_or(ReplyError::Gone)?;
        let Self { connections, memory: Memory { outputs, .. }, sockets, .. } = self;
        let Connection { line, state: State::WebSocket(socket), .. } = &mut connections[index] else {
            return Err(ReplyError::Gone);
        };
        if socket.is_closing() {
            return Err(ReplyError::Gone);
        }
        let output = line.output.get_or_insert_with(|| outputs.take());
        frames.iter().for_each(|frame| output.push(frame));
        line.trim(outputs);
        let waited = line.blocked;
        if waited && line.waiting() > sockets.output {
            self.tally.count(Counter::LimitWebsocketBuffer);
            log::info!("a client of a WebSocket takes its messages too slowly, and is cut off (--websocket-buffer)");
            self.cut(index);
            return Err(ReplyError::Gone);
        }
        self.flush(index).or_gone()
    }

    /// Begins to close a WebSocket, after the messages before.
    pub fn close_socket(&mut self, exchange: ExchangeId, code: u16, reason: &str) {
        if let Some(number) = self.tunnel_of(exchange) {
            self.close_tunnel(number, code, reason);
        } else if let Some(index) = self.socket_of(exchange) {
            self.close_socket_at(index, code, reason);
        }
    }

    #[inline(never)]
    fn close_socket_at(&mut self, index: u32, code: u16, reason: &str) {
        let Self { connections, memory: Memory { outputs, .. }, .. } = self;
        let Connection { line, state: State::WebSocket(socket), .. } = &mut connections[index] else { return };
        if socket.is_closing() {
            return;
        }
        let output = line.output.get_or_insert_with(|| outputs.take());
        socket.close(code, reason, output.tail());
        let _ = self.flush(index);
    }

    /// Limits the time for the answer to a close that has been sent: a client has as long as one whose connection lingers.
    pub(super) fn await_close(&mut self, index: u32) {
        if let State::WebSocket(socket) = &self.connections[index].state
            && socket.is_closing()
        {
            self.deadlines.set(index, Deadline::Linger, self.backend.now());
        }
    }

    /// Closes the WebSocket of a connection, if it is one, because the server goes away.
    pub(super) fn leave_socket(&mut self, index: u32) {
        self.close_socket_at(index, GOING_AWAY, "");
    }

    /// Looks at all WebSockets. Those that have been silent for two looks are pinged, and cut off if they are silent for two more.
    pub fn look_at_sockets(&mut self) {
        if self.sockets.open == 0 {
            return;
        }
        self.tunnels().into_iter().for_each(|number| self.look_at_tunnel(number));
        let indices: Vec<u32> = self.connections.indices().collect();
        for index in indices {
            let Self { connections, memory: Memory { outputs, .. }, .. } = self;
            let Some(Connection { line, state: State::WebSocket(socket), .. }) = connections.get_mut(index) else { continue };
            // Deadlines run for a client that must answer a close, or takes its messages slowly.
            if socket.is_closing() || line.output.is_some() {
                continue;
            }
            match socket.look() {
                Silence::Nothing => {}
                Silence::Ping(frame) => {
                    line.output.get_or_insert_with(|| outputs.take()).push(&frame);
                    let _ = self.flush(index);
                }
                Silence::Cut => {
                    self.tally.count(Counter::WebsocketsSilent);
                    self.cut(index);
                }
            }
        }
    }

    /// Receives from a WebSocket.
    pub(super) fn receive_socket(&mut self, index: u32) -> Still {
        if self.connections[index].input.has_unread() && self.read_socket(index) == Still::Gone {
            return Still::Gone;
        }
        for _ in 0..RECEIVES_PER_TURN {
            let connection = &self.connections[index];
            let State::WebSocket(socket) = &connection.state else { return self.receive(index) };
            if !connection.line.readable || socket.is_paused || connection.input.has_unread() {
                return Still::Open;
            }
            match self.receive_messages(index, self.limits.http.head_bytes) {
                Attempt::Done(_) => {
                    if self.read_socket(index) == Still::Gone {
                        return Still::Gone;
                    }
                }
                Attempt::Later => return Still::Open,
                Attempt::End | Attempt::Broken => return Still::Gone,
            }
        }
        if self.connections[index].line.readable {
            self.ask_for_turn(index);
        }
        Still::Open
    }

    /// Reads the received bytes of a WebSocket.
    #[inline(never)]
    pub(super) fn read_socket(&mut self, index: u32) -> Still {
        let Self { connections, sockets, memory: Memory { outputs, inputs, .. }, .. } = self;
        let token = connections.token(index);
        let Connection { line, input, state, .. } = &mut connections[index];
        let State::WebSocket(socket) = state else { return Still::Open };
        if socket.is_paused {
            return Still::Open;
        }
        if sockets.waiting >= WAITING_BYTES && !socket.is_closing() {
            socket.is_paused = true;
            sockets.paused.push(token);
            return Still::Open;
        }
        let before = socket.held;
        let output = line.output.get_or_insert_with(|| outputs.take());
        let reading = Reading {
            limits: &sockets.limits,
            inflater: &mut sockets.inflater,
            events: &mut sockets.events,
            waiting: &mut sockets.waiting,
            unhandled: UNHANDLED,
            answers: output.waiting() < PONG_OUTPUT,
            output: output.tail(),
        };
        let (consumed, read) = socket.read(input.unread_mut(), reading);
        sockets.held = sockets.held + socket.held - before;
        input.consume(consumed);
        input.release_if_read(inputs);
        line.trim(outputs);
        match read {
            Read::All if sockets.hold_too_much() && socket.held > 0 => {
                self.tally.count(Counter::LimitWebsocketBuffer);
                log::warn!("messages that have partly arrived take too much memory: a WebSocket is closed (1013)");
                self.close_socket_at(index, TRY_LATER, "");
                if self.connections.find(token).is_some() { Still::Open } else { Still::Gone }
            }
            Read::All | Read::Paused => self.flush(index),
            Read::Closed => self.end_socket(index),
        }
    }

    /// Ends a WebSocket whose closing handshake is complete, when its output has been sent.
    fn end_socket(&mut self, index: u32) -> Still {
        self.deadlines.clear(index);
        let connection = &mut self.connections[index];
        connection.input.release(&mut self.memory.inputs);
        let has_output = connection.line.output.is_some();
        let before = std::mem::replace(&mut connection.state, State::Flushing(Fate::Linger));
        if let State::WebSocket(socket) = before {
            self.sockets.ended(&socket, &self.tally);
        }
        if has_output { self.flush(index) } else { self.go_on(index, Fate::Linger) }
    }
}

/// The code for a client that may try again later (IANA's registry of WebSocket close codes).
pub(super) const TRY_LATER: u16 = 1013;
