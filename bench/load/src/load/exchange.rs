//! One connection's requests and responses, and their possible faults.

use super::{Load, REST, SMALL_BUFFER, now};
use crate::connection::{Batch, State};
use crate::options::Pattern;
use crate::response::Step;
use crate::tally::Fault;
use crate::target::Manner;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, sockopt};

/// The time to wait when the queue of a Unix socket is full.
const NO_ROOM: u64 = 1_000_000;
const WATCHED: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);

impl Load<'_> {
    fn is_short(&self, index: u32) -> bool {
        self.options.pattern == Pattern::Short && self.connections[index as usize].active
    }

    /// Sends a batch of requests, on a new connection if there is none.
    pub(super) fn ask(&mut self, index: u32, batch: Batch) {
        let short = self.is_short(index);
        let connection = &mut self.connections[index as usize];
        connection.batch = batch;
        connection.sent = 0;
        connection.to_send = if short { self.last_request.len() } else { self.request_bytes * batch.asked as usize };
        connection.state = State::Busy;
        connection.progress = self.time;
        self.busy += 1;
        self.tally.requests += u64::from(batch.asked);
        self.begin(index);
    }

    /// Connects if there is no connection, and sends as much as may be sent at once.
    pub(super) fn begin(&mut self, index: u32) {
        if self.connections[index as usize].socket.is_none() && !self.connect(index) {
            return;
        }
        if self.is_slow(index) {
            self.pace(index);
            if self.sends.is_some() {
                return;
            }
        }
        self.send(index, usize::MAX);
    }

    /// Opens a socket. Returns `false` if that failed: the connection is tried again later, or the fault is counted.
    fn connect(&mut self, index: u32) -> bool {
        let whole = self.is_short(index) && self.options.content.is_none() && self.sends.is_none();
        let connection = &mut self.connections[index as usize];
        let manner = Manner {
            no_delay: !whole,
            sources: self.options.sources,
            receive_buffer: (connection.active && self.options.reader.is_some()).then_some(SMALL_BUFFER),
        };
        self.connects += 1;
        let data = EventData::new_u64(u64::from(connection.generation) << 32 | u64::from(index));
        let connecting = match self.options.target.connect(self.connects, manner) {
            Ok(connecting) => epoll::add(&self.epoll, &connecting.socket, data, WATCHED).map(|()| connecting),
            // This is not a fault: the client waits and tries again.
            Err(Errno::AGAIN) => {
                self.resting.add(self.time + NO_ROOM, index, connection.generation);
                return false;
            }
            Err(error) => Err(error),
        };
        match connecting {
            Ok(connecting) => {
                connection.connected = connecting.connected;
                connection.socket = Some(connecting.socket);
                true
            }
            Err(error) => {
                self.fail(index, Fault::Connect, &error.to_string());
                false
            }
        }
    }

    /// Sends up to `most` of the unsent bytes.
    fn send(&mut self, index: u32, most: usize) {
        let bytes = if self.is_short(index) { &self.last_request } else { &self.requests };
        let connection = &mut self.connections[index as usize];
        let end = connection.to_send.min(connection.sent.saturating_add(most));
        let mut watch = false;
        while connection.sent < end {
            let Some(socket) = &connection.socket else { return };
            match rustix::net::send(socket, &bytes[connection.sent..end], SendFlags::NOSIGNAL) {
                Ok(sent) => {
                    connection.sent += sent;
                    connection.progress = self.time;
                    connection.connected = true;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    watch = most == usize::MAX;
                    break;
                }
                Err(error) => return self.lost(index, error),
            }
        }
        if watch != connection.watches_output {
            connection.watches_output = watch;
            let flags = if watch { WATCHED | EventFlags::OUT } else { WATCHED };
            let data = EventData::new_u64(u64::from(connection.generation) << 32 | u64::from(index));
            let Some(socket) = &connection.socket else { return };
            if let Err(error) = epoll::modify(&self.epoll, socket, data, flags) {
                return self.lost(index, error);
            }
        }
        if !connection.has_unsent() && connection.batch.open() == 0 {
            self.settle(index);
        }
    }

    /// Handles an event of a connection.
    pub(super) fn see_to(&mut self, index: u32, flags: EventFlags) {
        let slow = self.is_slow(index);
        let connection = &mut self.connections[index as usize];
        let generation = connection.generation;
        if !connection.connected && flags.intersects(EventFlags::OUT | EventFlags::ERR | EventFlags::HUP) {
            let Some(socket) = &connection.socket else { return };
            match sockopt::socket_error(socket).and_then(|result| result) {
                Ok(()) => connection.connected = true,
                Err(error) => return self.lost(index, error),
            }
        }
        if connection.has_unsent() && flags.contains(EventFlags::OUT) && !(slow && self.sends.is_some()) {
            self.send(index, usize::MAX);
        }
        let connection = &self.connections[index as usize];
        if connection.generation != generation || (slow && self.reads.is_some() && connection.is_busy()) {
            return;
        }
        let ending = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        if ending || flags.contains(EventFlags::IN) {
            self.receive(index, ending, usize::MAX);
        }
    }

    /// A slow connection may send or receive its next bytes.
    pub(super) fn next_portion(&mut self, index: u32) {
        let connection = &mut self.connections[index as usize];
        connection.paced = false;
        let generation = connection.generation;
        match (self.sends, self.reads) {
            (Some(portion), _) if connection.has_unsent() => self.send(index, portion.bytes),
            (_, Some(portion)) => self.receive(index, false, portion.bytes),
            _ => {}
        }
        let connection = &self.connections[index as usize];
        if connection.generation == generation && connection.is_busy() {
            self.pace(index);
        }
    }

    /// Lets a slow connection wait until its next portion is due, if it is slow.
    fn pace(&mut self, index: u32) {
        let connection = &mut self.connections[index as usize];
        let portion = self.sends.filter(|_| connection.has_unsent()).or(self.reads);
        if let Some(portion) = portion.filter(|_| !connection.paced) {
            connection.paced = true;
            self.portions.add(self.time + portion.nanoseconds, index, connection.generation);
        }
    }

    /// Receives the available bytes, up to `most` at a time. With `ending`, the connection has ended, and receives until
    /// nothing is left: there may be no further event for unread bytes.
    fn receive(&mut self, index: u32, ending: bool, most: usize) {
        let mut buffer = std::mem::take(&mut self.buffer);
        let generation = self.connections[index as usize].generation;
        loop {
            let connection = &self.connections[index as usize];
            let Some(socket) = connection.socket.as_ref().filter(|_| connection.generation == generation) else { break };
            let size = buffer.len().min(most);
            match rustix::net::recv(socket, &mut buffer[..size], RecvFlags::empty()) {
                Ok((0, _)) => {
                    self.time = now();
                    self.ended(index);
                    break;
                }
                Ok((received, _)) => {
                    self.time = now();
                    self.tally.bytes += received as u64;
                    self.take(index, &buffer[..received]);
                    let awaits_end = self.connections[index as usize].state == State::Ending;
                    if most != usize::MAX || (received < size && !ending && !awaits_end) {
                        break;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(error) => {
                    self.lost(index, error);
                    break;
                }
            }
        }
        self.buffer = buffer;
    }

    /// Handles received bytes.
    fn take(&mut self, index: u32, input: &[u8]) {
        let mut rest = input;
        while !rest.is_empty() {
            let connection = &mut self.connections[index as usize];
            if connection.state != State::Busy || connection.batch.open() == 0 {
                return self.fail(index, Fault::Broken, "bytes that belong to no response");
            }
            connection.progress = self.time;
            connection.connected = true;
            let (used, fault, closes) = match connection.reader.read(&mut self.expected, rest) {
                Step::More => return,
                Step::Broken(why) => return self.fail(index, Fault::Broken, why),
                Step::Whole { used, fault, closes } => (used, fault, closes),
            };
            rest = &rest[used..];
            let latency = self.time.saturating_sub(connection.batch.due());
            connection.batch.answered += 1;
            connection.closes = closes;
            match fault {
                None => {
                    self.tally.responses += 1;
                    self.tally.latencies.record(latency);
                }
                Some(Fault::Status) => self.tally.fail(Fault::Status, 1, "a status other than 200"),
                Some(fault) => self.tally.fail(fault, 1, "content of another length, or other bytes"),
            }
            if closes && connection.batch.open() > 0 {
                return self.fail(index, Fault::Broken, "the server ends the connection, with more requests on their way");
            }
        }
        let connection = &self.connections[index as usize];
        if connection.batch.open() == 0 && !connection.has_unsent() {
            self.settle(index);
        }
    }

    /// Handles a connection whose requests are all answered.
    fn settle(&mut self, index: u32) {
        let short = self.is_short(index);
        let connection = &mut self.connections[index as usize];
        if short || connection.closes {
            connection.state = State::Ending;
            return;
        }
        connection.state = State::Idle;
        self.busy -= 1;
        self.go_on(index);
    }

    /// Handles a connection that the server has ended.
    fn ended(&mut self, index: u32) {
        let short = self.is_short(index);
        let connection = &mut self.connections[index as usize];
        match connection.state {
            State::Busy if connection.reader.is_between() => {
                self.fail(index, Fault::Broken, "the connection ended before the response");
            }
            State::Busy => self.fail(index, Fault::Short, "the connection ended within the response"),
            State::Ending => {
                connection.close();
                self.busy -= 1;
                self.tally.reopened += u64::from(!short);
                self.go_on(index);
            }
            State::Idle | State::Closed => {
                connection.close();
                self.tally.idle_lost += 1;
            }
        }
    }

    /// Handles a connection that has failed.
    fn lost(&mut self, index: u32, error: Errno) {
        let connection = &self.connections[index as usize];
        let fault = match connection.state {
            State::Idle | State::Closed => return self.ended(index),
            _ if !connection.connected => Fault::Connect,
            State::Busy if !connection.reader.is_between() => Fault::Short,
            _ => Fault::Broken,
        };
        self.fail(index, fault, &error.to_string());
    }

    /// Counts a fault for each request of a connection that was not answered, and closes the connection.
    pub(super) fn fail(&mut self, index: u32, fault: Fault, why: &str) {
        let connection = &mut self.connections[index as usize];
        self.tally.fail(fault, u64::from(connection.batch.open()).max(1), why);
        if connection.is_busy() {
            self.busy -= 1;
        }
        connection.close();
        self.resting.add(self.time + REST, index, connection.generation);
    }
}
