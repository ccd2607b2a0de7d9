//! The requests of this app's workers that have to do with live connections: see [`crate::live`].

use super::AppPool;
use super::queue::{Purpose, asks_for_upgrade, may_stay_open};
use crate::live::{Event, Opening};
use oribi_host::{Content as RequestContent, Request};
use oribi_io::Backend;
use oribi_ipc::slot::{Content, Head, Stored};
use oribi_live::Command;
use oribi_live::event::{CONNECTION, EVENT, PENDING};
use oribi_message::{FieldPair, KnownField, ResponseHead};
use oribi_pool::Ticket;

/// The code for an app that has failed (RFC 6455, section 7.4.1).
const FAILED: u16 = 1011;

/// The commands of an app during a request.
#[derive(Debug, Default)]
pub(super) struct Commands {
    /// The bytes of a command that has partly arrived.
    pending: Vec<u8>,
    /// The live connection of the request.
    connection: Option<u64>,
    /// Whether the response to the request stays open.
    holds: bool,
    /// Whether the client may have no WebSocket. The app, which does not know that, gives commands for it.
    refused: bool,
}

impl<B: Backend> AppPool<'_, '_, B> {
    /// Whether another event may enter the queue. Half of it is for other requests, so that clients of live connections cannot have
    /// those of others refused; meanwhile events wait with their connections.
    pub(in super::super) fn has_room_for_event(&self) -> bool {
        self.table.used() < (self.settings.queue_limit / 2).max(1)
    }

    /// Returns a function that tells of the place of an app whether its workers can have events now.
    pub(in super::super) fn with_workers(apps: &[Self]) -> impl Fn(usize) -> bool {
        |place| apps.get(place).is_some_and(Self::has_workers)
    }

    /// Whether workers can have events now.
    pub(in super::super) fn has_workers(&self) -> bool {
        self.pool.worker_counts().attached > 0
    }

    /// Puts an event of a connection into the queue. Returns whether there was room.
    pub(in super::super) fn submit_event(&mut self, name: u64, event: &Event) -> bool {
        let mut stored = Stored::default();
        if stored.read(&event.request).is_err() {
            return false;
        }
        let Some(request) = stored.request(None, None) else { return false };
        let request = Request { content: RequestContent::Memory(&event.content), ..request };
        let (id, pending) = (format!("{name:016x}"), event.pending.to_string());
        let fields: [FieldPair<'_>; 3] = [
            (EVENT.as_bytes(), event.kind.name().as_bytes()),
            (CONNECTION.as_bytes(), id.as_bytes()),
            (PENDING.as_bytes(), pending.as_bytes()),
        ];
        let fields = &fields[..if event.pending > 0 { 3 } else { 2 }];
        let now = u64::try_from(self.now().as_nanos()).unwrap_or_default();
        self.enqueue_request((event.exchange, now), &request, fields, Purpose::Event(name))
    }

    /// Notes that a request is about a live connection.
    pub(super) fn note_event(&mut self, ticket: Ticket, name: u64) {
        self.commands.insert(ticket, Commands { connection: Some(name), ..Commands::default() });
    }

    /// Whether a request is about a live connection.
    pub(super) fn has_event(&self, ticket: Ticket) -> bool {
        self.commands.get(&ticket).is_some_and(|commands| commands.connection.is_some())
    }

    #[cfg(test)]
    pub(in super::super) fn has_no_commands(&self) -> bool {
        self.commands.is_empty()
    }

    /// Carries out commands, of which this is a part.
    #[cold]
    pub(super) fn handle_commands(&mut self, ticket: Ticket, bytes: &[u8]) {
        let Some(entry) = self.table.get(ticket) else { return };
        if entry.exchange.is_none() && !self.has_event(ticket) {
            // The client of an ordinary request has gone. Its app may still publish.
            log::debug!("an app gives commands during a request whose client has gone");
        }
        let mut pending = std::mem::take(&mut self.commands.entry(ticket).or_default().pending);
        pending.extend_from_slice(bytes);
        let mut rest = &pending[..];
        let mut is_command = true;
        while is_command {
            match Command::read(rest) {
                Ok(Some((command, after))) => {
                    self.carry_out(ticket, &command);
                    rest = after;
                }
                Ok(None) => is_command = false,
                Err(error) => {
                    log::error!("{}{error}; it, and those behind it, are ignored", self.label);
                    rest = &[];
                    is_command = false;
                }
            }
        }
        let read = pending.len() - rest.len();
        pending.drain(..read);
        match self.commands.get_mut(&ticket) {
            Some(commands) if commands.connection.is_some() || commands.refused || !pending.is_empty() => {
                commands.pending = pending;
            }
            _ => _ = self.commands.remove(&ticket),
        }
    }

    fn carry_out(&mut self, ticket: Ticket, command: &Command<'_>) {
        match *command {
            Command::Accept { fields, data } => self.accept(ticket, fields, data),
            Command::Hold { data } => self.hold(ticket, data),
            _ => {
                let commands = self.commands.get(&ticket);
                if commands.is_some_and(|commands| commands.refused) {
                    // Nobody has come of whom others should hear.
                    return;
                }
                let own = commands.and_then(|commands| commands.connection);
                self.live.borrow_mut().carry_out(&mut self.lane.source(), own, command);
            }
        }
    }

    /// Whether a request that no worker has begun to answer may become a WebSocket.
    pub(in super::super) fn may_open_websocket(&self) -> bool {
        let mut stored = Stored::default();
        self.table.unanswered().any(|bytes| {
            let is_whole = stored.read(bytes).is_ok();
            is_whole && stored.request(None, None).is_some_and(|request| asks_for_upgrade(&request))
        })
    }

    /// Returns the opening of a connection by a request whose client waits for its response. `None` if there is none.
    fn opening(&mut self, ticket: Ticket) -> Option<Opening> {
        self.table.get(ticket).filter(|entry| !entry.begun && !entry.asking && !entry.socket_taken)?;
        if self.has_event(ticket) {
            return None;
        }
        let request = self.table.take_copy(ticket.slot());
        let mut stored = Stored::default();
        let is_whole = !request.is_empty() && stored.read(&request).is_ok();
        if !is_whole || !stored.request(None, None).is_some_and(|request| may_stay_open(&request)) {
            self.table.keep_copy(ticket.slot(), Some(&request));
            return None;
        }
        if self.has_fetch(ticket) {
            self.stop_capture(ticket);
        }
        let exchange = self.table.exchange(ticket)?;
        self.report_wait(ticket, exchange);
        Some(Opening { exchange, app: self.index as usize, request: request.into(), now: self.now() })
    }

    fn accept(&mut self, ticket: Ticket, fields: &[u8], data: &[u8]) {
        let Some(opening) = self.opening(ticket) else {
            return log::error!(
                "{}a WebSocket cannot be accepted: its request is answered already, or does not ask for one",
                self.label
            );
        };
        let mut stored = Stored::default();
        if stored.read(&opening.request).is_err() {
            return;
        }
        let exchange = opening.exchange;
        let accepted = {
            let (mut live, mut engine) = (self.live.borrow_mut(), self.lane.source());
            live.accept(&mut engine, &self.settings.websocket, &stored.head(), opening, (fields, data))
        };
        if let Some(entry) = self.table.get(ticket) {
            entry.exchange = None;
        }
        match accepted {
            Ok(name) => return self.note_event(ticket, name),
            Err(0) => {}
            Err(status) => self.refuse(exchange, status),
        }
        self.commands.insert(ticket, Commands { refused: true, ..Commands::default() });
    }

    fn hold(&mut self, ticket: Ticket, data: &[u8]) {
        let Some(opening) = self.opening(ticket) else {
            return log::error!(
                "{}a response cannot stay open: it has begun already, or its request does not ask for a stream of events",
                self.label
            );
        };
        let Some(name) = self.live.borrow_mut().hold(opening, data) else { return };
        self.commands.insert(ticket, Commands { connection: Some(name), holds: true, ..Commands::default() });
    }

    /// Whether the response to a request stays open.
    #[cold]
    pub(super) fn holds(&self, ticket: Ticket) -> bool {
        self.commands.get(&ticket).is_some_and(|commands| commands.holds)
    }

    /// Begins a response that stays open, and that its app has finished.
    #[cold]
    pub(super) fn hold_whole(&mut self, ticket: Ticket, bytes: &[u8], head: usize) {
        let Some(entry) = self.table.remove(ticket) else { return };
        let (head, content) = bytes.split_at(head);
        let Some(exchange) = entry.exchange else { return self.drop_held(ticket) };
        let lane = &self.lane;
        let mut status = 0;
        let begun = self.heads.read(head, |Head { head, content: kind }| {
            status = head.status;
            let is_length = |name: &[u8]| KnownField::lookup(name) == Some(KnownField::ContentLength);
            let fields: Vec<FieldPair<'_>> = head.fields.iter().copied().filter(|(name, _)| !is_length(name)).collect();
            let is_whole = matches!(kind, Content::Whole { size } if size == content.len() as u64);
            let mut engine = lane.source();
            is_whole
                && engine.start_with_size(exchange, ResponseHead { fields: &fields, ..head }, None).is_ok()
                && engine.write(exchange, content).is_ok()
        });
        if begun.is_ok_and(|begun| begun) {
            self.stream_begun(ticket, status);
            if !self.holds(ticket) {
                _ = self.lane.source().finish(exchange);
            }
            self.keep_open(ticket);
        } else {
            self.lane.source().abandon(exchange);
            self.drop_held(ticket);
        }
    }

    /// Notes that the head of a response that stays open has been sent. One without content cannot stay open.
    #[cold]
    pub(super) fn stream_begun(&mut self, ticket: Ticket, status: u16) {
        if matches!(status, 204 | 205 | 304) && self.holds(ticket) {
            self.drop_held(ticket);
        } else if let Some(Commands { connection: Some(name), holds: true, .. }) = self.commands.get(&ticket) {
            self.live.borrow_mut().begin(&mut self.lane.source(), *name);
        }
    }

    /// Notes that the app has written all of its part of a response that stays open.
    #[cold]
    pub(super) fn keep_open(&mut self, ticket: Ticket) {
        if let Some(Commands { connection: Some(name), .. }) = self.commands.remove(&ticket) {
            let (mut live, mut engine) = (self.live.borrow_mut(), self.lane.source());
            live.keep_open(&mut engine, name);
            live.handled(&mut engine, name, None);
        }
    }

    /// Forgets a response that was to stay open, and has failed.
    #[cold]
    pub(super) fn drop_held(&mut self, ticket: Ticket) {
        if let Some(Commands { connection: Some(name), .. }) = self.commands.remove(&ticket) {
            self.live.borrow_mut().drop_stream(name);
            self.live.borrow_mut().handled(&mut self.lane.source(), name, None);
        }
    }

    /// Notes that a request has ended that may be about a live connection. `failed`: its app could not handle it, so the connection is
    /// closed.
    #[cold]
    pub(super) fn commands_ended(&mut self, ticket: Ticket, failed: bool) {
        if let Some(Commands { connection: Some(name), .. }) = self.commands.remove(&ticket) {
            let failure = if failed { Some(FAILED) } else { None };
            self.live.borrow_mut().handled(&mut self.lane.source(), name, failure);
        }
    }
}
