//! Hands connections over to an engine in another process, and takes over connections from such an engine.
//!
//! A connection can move between two requests: then its only state is its socket, the received bytes of its next request, and
//! the few facts of a [`Record`]. During a request, a connection stays. Those that stay open without a host are in `sockets`.

mod sockets;

pub use sockets::MovingSocket;

use super::accept::Accepting;
use super::connection::{Connection, Reading, State};
use super::deadline::Deadline;
use super::input::Input;
use super::remote::Remote;
use super::send::Still;
use super::{Engine, IDLE_WHILE_STOPPING};
use oribi_config::Protocol;
use oribi_io::{Backend, Peer};
use oribi_ipc::handover::{LARGEST_UNREAD, NO_LIMIT, Record};
use oribi_listen::address_in;
use oribi_stats::totals::Counter;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

impl<B: Backend> Engine<'_, B> {
    /// Stops accepting. From now on the engine is finished when it has no connection. The caller moves or closes WebSockets.
    pub fn begin_to_hand_over(&mut self) {
        if self.acceptance.accepting != Accepting::Never {
            self.stop_accepting();
        }
        self.hands_over = true;
        if self.listeners.iter().any(|listener| listener.tls.is_some()) {
            // An encrypted connection cannot be handed over, because only this process has its keys. So such a connection ends
            // after its next response.
            self.part();
            self.deadlines.shorten(Deadline::Idle, IDLE_WHILE_STOPPING, self.backend.now());
        } else {
            self.leave_clients();
        }
    }

    /// Passes the connections that are between two requests to `give`, one after the other, until `give` fails. The connection
    /// with which it fails, and all later ones, stay in this engine.
    ///
    /// # Errors
    /// The first error of `give`.
    pub fn hand_over(&mut self, mut give: impl FnMut(&Record, &OwnedFd) -> io::Result<()>) -> io::Result<()> {
        self.send_batch();
        let resting: Vec<u32> = self.connections.indices().filter(|index| self.is_between_requests(*index)).collect();
        for index in resting {
            let Some((record, descriptor, _)) = self.release(index) else { continue };
            match give(&record, &descriptor) {
                Ok(()) => self.tally.count(Counter::ConnectionsHandedOver),
                Err(error) => {
                    if !self.adopt(record, descriptor) {
                        log::error!("a connection that could not be handed over was closed");
                        self.tally.count(Counter::ConnectionsClosed);
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Whether a record has room for all the state of the connection.
    fn is_between_requests(&self, index: u32) -> bool {
        let connection = &self.connections[index];
        let waits = match &connection.state {
            State::Reading(Reading { request, .. }) => request.is_none() && connection.machine.awaits_head(),
            State::Carrying(carrier) => {
                // The state that an HTTP/2 client and its machine share does not fit into a record.
                !carrier.speaks_http2()
                    && carrier.carries() == 0
                    && carrier.is_between_messages()
                    && !carrier.must_close()
                    && !connection.input.has_unread()
            }
            State::Greeting => true,
            State::Queued(_) | State::Answering(_) | State::Flushing(_) | State::Lingering | State::WebSocket(_) => false,
        };
        let moves = self.backend.can_move(&connection.line.socket);
        waits && moves && connection.line.output.is_none() && connection.input.unread().len() <= LARGEST_UNREAD / 2
    }

    /// Removes a connection from the engine without ending it; `None` if the backend cannot give it away.
    fn release(&mut self, index: u32) -> Option<(Record, OwnedFd, State)> {
        // On failure, some of its bytes have not been sent yet.
        let (descriptor, received) = self.backend.give_away(&mut self.connections[index].line.socket).ok()?;
        let left = self.deadlines.left(index, Deadline::Head, self.backend.now());
        self.deadlines.clear(index);
        let mut connection = self.connections.remove(index)?;
        self.forget_speech(connection.speech);
        if let Some(counts) = self.acceptance.counts {
            counts.here.fetch_sub(1, Relaxed);
            counts.everywhere.fetch_sub(1, Relaxed);
        }
        let listener = &self.listeners[usize::from(connection.listener)];
        self.tally.received(received.len());
        let record = Record {
            protocol: listener.protocol,
            listener: listener.display.clone(),
            greeted: !matches!(connection.state, State::Greeting),
            requests: connection.requests,
            left: left.map_or(NO_LIMIT, |left| u32::try_from(left.as_millis()).unwrap_or(NO_LIMIT)),
            address: connection.remote.address().to_vec(),
            port: connection.remote.port().to_vec(),
            unread: [connection.input.unread(), &received].concat(),
        };
        connection.input.release(&mut self.memory.inputs);
        self.backend.close(connection.line.socket);
        Some((record, descriptor, connection.state))
    }

    /// Continues a connection that another engine has handed over. Returns `false` if the connection is lost, because the
    /// operating system refuses it or this server has no listener for its protocol.
    pub fn take_over(&mut self, record: Record, descriptor: OwnedFd) -> bool {
        let adopted = self.adopt(record, descriptor);
        if adopted {
            self.tally.count(Counter::ConnectionsTakenOver);
        }
        adopted
    }

    fn adopt(&mut self, record: Record, descriptor: OwnedFd) -> bool {
        let Record { protocol, greeted, requests, left, .. } = record;
        let begun = !record.unread.is_empty();
        let Some(index) = self.insert(record, descriptor) else { return false };
        let now = self.backend.now();
        if protocol == Protocol::FastCgi {
            self.carry(index);
            self.deadlines.set(index, Deadline::Kept, now);
        } else {
            if !greeted {
                self.await_greeting(index);
            }
            match left {
                NO_LIMIT if begun || requests == 0 => self.deadlines.set(index, Deadline::Head, now),
                NO_LIMIT => self.deadlines.set(index, Deadline::Idle, now),
                left => self.deadlines.set_rest(index, Deadline::Head, Duration::from_millis(left.into()), now),
            }
        }
        if self.open(index) == Still::Open {
            if begun && greeted {
                let _ = self.read_on(index);
            } else if begun {
                let _ = self.read_greeting(index);
            }
            self.check(index);
        }
        true
    }

    /// Puts a connection of another engine into the table. `None`: it is lost.
    fn insert(&mut self, record: Record, descriptor: OwnedFd) -> Option<u32> {
        let find = |is_it: &dyn Fn(&oribi_listen::Listener) -> bool| {
            self.listeners.iter().position(|listener| listener.protocol == record.protocol && is_it(listener))
        };
        // Other clients of the same address may have TLS now, or other PROXY headers.
        let listener = find(&|listener| listener.display == record.listener)
            .or_else(|| find(&|listener| listener.address() == address_in(&record.listener)))
            .or_else(|| find(&|_| true))?;
        let socket = match self.backend.adopt(descriptor) {
            Ok(socket) => socket,
            Err(error) => {
                log::error!("cannot take a connection over: {error}");
                return None;
            }
        };
        let mut connection = Connection::new(socket, listener as u16, Peer::Local);
        connection.remote = Remote::given(&record.address, &record.port);
        if record.protocol == Protocol::Http {
            connection.forwarding = self.forwarding_of(&connection.remote);
        }
        connection.requests = record.requests;
        connection.input = Input::holding(record.unread);
        let index = self.connections.insert(connection);
        if let Some(counts) = self.acceptance.counts {
            counts.here.fetch_add(1, Relaxed);
            counts.everywhere.fetch_add(1, Relaxed);
        }
        Some(index)
    }
}

#[cfg(test)]
mod tests;
