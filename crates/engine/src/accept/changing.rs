//! Changes the listeners of an engine while it serves.

use super::{Accepting, Engine};
use crate::connection::State;
use crate::deadline::Deadline;
use crate::{HEAD_WHILE_STOPPING, IDLE_WHILE_STOPPING, ServeState};
use oribi_config::counted;
use oribi_io::{Accepted, Backend};
use oribi_listen::{ListenSocket, Listener};
use oribi_stats::totals::Counter;
use std::any::Any;
use std::os::fd::AsFd;

impl<'a, B: Backend> Engine<'a, B> {
    /// Uses these `listeners`, which continue those of before at the same indices. Accepts also at `added`, and no longer at the
    /// sockets of the listeners `left`, whose connections go on: other sockets lead to the same queues.
    pub fn change_listeners(&mut self, listeners: &'a [Listener], added: Vec<ListenSocket<'a>>, left: &[usize]) {
        self.forget_ended();
        let accepts = self.acceptance.accepting == Accepting::Yes;
        if accepts {
            // The doorbell has the number behind those of all sockets, which is about to change.
            self.unlisten();
        }
        self.listeners = listeners;
        let mut vacant: Vec<usize> = if self.connections.indices().any(|index| self.awaits_greeting(index)) {
            // Such a connection is encrypted by the number of its socket.
            Vec::new()
        } else {
            let sockets = self.acceptance.listen_sockets.iter().enumerate();
            sockets.filter(|(_, socket)| socket.is_none()).map(|(number, _)| number).collect()
        };
        for number in self.sockets_of(left) {
            self.take_accepted(number);
            self.acceptance.listen_sockets[number] = None;
        }
        for socket in added {
            let number = vacant.pop().unwrap_or(self.acceptance.listen_sockets.len());
            let Listener { display, .. } = &self.listeners[socket.listener];
            let encryption = self.listeners[socket.listener].encryption();
            if let Err(error) =
                self.backend.set_encryption(number, encryption.as_ref().map(|encryption| encryption as &dyn Any))
            {
                log::error!("cannot accept on {display}: {error}");
                continue;
            }
            if number == self.acceptance.listen_sockets.len() {
                self.acceptance.listen_sockets.push(None);
            }
            self.acceptance.listen_sockets[number] = Some(socket);
        }
        if accepts {
            self.listen();
        }
    }

    /// Ends these listeners: accepts the connections that wait there, and no others, and closes the sockets. Each connection of
    /// theirs ends after its next response, or soon if it is idle.
    pub fn end_listeners(&mut self, ended: &[usize]) {
        self.forget_ended();
        for number in self.sockets_of(ended) {
            self.empty(number);
            self.acceptance.listen_sockets[number] = None;
        }
        self.acceptance.ended.extend(ended.iter().map(|listener| *listener as u16));
        if self.stage == ServeState::Serving {
            self.stage = ServeState::Thinning;
        }
        let connections: Vec<u32> = self.connections.indices().filter(|index| self.has_ended(*index)).collect();
        for index in connections {
            self.part_soon(index);
        }
    }

    /// Whether no connection, and no socket, belongs to the listener with this index.
    #[must_use]
    pub fn is_unused(&self, listener: usize) -> bool {
        self.acceptance.sockets().all(|(_, socket)| socket.listener != listener)
            && self.connections.indices().all(|index| usize::from(self.connections[index].listener) != listener)
    }

    /// Whether the listener of a connection has ended.
    pub(crate) fn has_ended(&self, index: u32) -> bool {
        let ended = &self.acceptance.ended;
        !ended.is_empty() && self.connections.get(index).is_some_and(|connection| ended.contains(&connection.listener))
    }

    /// Forgets listeners that have ended and have no connection any more: their indices may be used again.
    fn forget_ended(&mut self) {
        let mut ended = std::mem::take(&mut self.acceptance.ended);
        ended.retain(|listener| !self.is_unused(usize::from(*listener)));
        self.acceptance.ended = ended;
        if self.acceptance.ended.is_empty() && self.stage == ServeState::Thinning {
            self.stage = ServeState::Serving;
        }
    }

    fn sockets_of(&self, listeners: &[usize]) -> Vec<usize> {
        let sockets = self.acceptance.sockets().filter(|(_, socket)| listeners.contains(&socket.listener));
        sockets.map(|(number, _)| number).collect()
    }

    fn awaits_greeting(&self, index: u32) -> bool {
        matches!(self.connections[index].state, State::Greeting)
    }

    /// Accepts all connections that wait at a socket, even beyond the limit, because no other process will take them.
    fn empty(&mut self, number: usize) {
        let Some(listening) = &self.acceptance.listen_sockets[number] else { return };
        if self.acceptance.accepting == Accepting::Yes
            && let Err(error) = self.backend.unlisten(number, listening.as_fd())
        {
            log::error!("cannot stop accepting on {}: {error}", self.listeners[listening.listener].display);
        }
        self.take_accepted(number);
        while let Some(listening) = &self.acceptance.listen_sockets[number] {
            let listener = listening.listener;
            match self.backend.accept(number, listening.as_fd()) {
                Accepted::Connection(socket, peer) => self.add(socket, listener, peer),
                Accepted::None => return,
                Accepted::Exhausted(_) if self.close_oldest_idle(Counter::LimitDescriptors) => {}
                Accepted::Exhausted(error) => {
                    let open = counted(self.connections.len(), "connection");
                    let display = &self.listeners[listener].display;
                    return log::error!("clients that wait at {display} are lost: {error}, with {open} open");
                }
            }
        }
    }

    /// Ends a connection after its next response, or soon if it is idle.
    fn part_soon(&mut self, index: u32) {
        if self.connections[index].speaks_http2() {
            let _ = self.leave_client(index);
            return;
        }
        self.leave_socket(index);
        let now = self.backend.now();
        let bounds = [
            (Deadline::Idle, IDLE_WHILE_STOPPING),
            (Deadline::Kept, IDLE_WHILE_STOPPING),
            (Deadline::Head, HEAD_WHILE_STOPPING),
        ];
        for (kind, most) in bounds {
            if self.deadlines.left(index, kind, now).is_some_and(|left| left > most) {
                self.deadlines.set_rest(index, kind, most, now);
            }
        }
    }
}
