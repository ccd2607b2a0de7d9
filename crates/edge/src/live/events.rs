//! Passes the events of live connections to their apps, and looks after connections that are silent.

use super::{Live, NO_APP, TRY_LATER};
use crate::EdgeLoop;
use oribi_engine::{Engine, LEFT, SocketEvent};
use oribi_host::ExchangeId;
use oribi_io::Backend;
use oribi_live::event::EventKind;
use oribi_live::event_stream;
use oribi_stats::totals::Counter;
use std::io;
use std::time::Duration;

impl Live<'_> {
    /// Notes that the client of an event stream has gone. Returns whether the exchange is one.
    pub(in super::super) fn lose(&mut self, exchange: ExchangeId) -> bool {
        let Some(name) = self.streams.get(&exchange).copied() else { return false };
        self.note_end(name, LEFT.to_be_bytes().to_vec());
        true
    }

    /// Takes the events of WebSockets from the engine.
    pub(in super::super) fn take_socket_events<B: Backend>(&mut self, engine: &mut Engine<'_, B>) {
        while let Some(SocketEvent { connection, kind, payload }) = engine.take_socket_event() {
            let without_app = self.connections.get(&connection).filter(|connection| connection.app == NO_APP);
            match (kind, without_app.map(|connection| connection.exchange)) {
                (EventKind::Close, _) => self.note_end(connection, payload),
                (EventKind::Drained, _) => self.look_for_drain(engine, connection),
                (_, Some(exchange)) => engine.message_handled(exchange, payload.len()),
                _ => {
                    self.slot.account.count(Counter::LiveMessagesReceived);
                    self.note(connection, kind, payload);
                }
            }
        }
    }

    /// Looks for connections whose clients have gone without a word, if it is time to do so.
    fn look<B: Backend>(&mut self, engine: &mut Engine<'_, B>, now: Duration) {
        if self.next_look.is_none_or(|next| now < next) {
            return;
        }
        self.next_look = (!self.connections.is_empty()).then(|| now + self.ping / 2);
        engine.look_at_sockets();
        self.looks += 1;
        if self.looks % 2 == 1 {
            return;
        }
        let open = self
            .streams
            .iter()
            .filter(|(_, name)| self.connections.get(name).is_some_and(|connection| connection.early.is_none()));
        for exchange in open.map(|(exchange, _)| *exchange).collect::<Vec<_>>() {
            // The engine reports the end of a client.
            let _ = engine.write(exchange, event_stream::COMMENT);
        }
    }
}

/// The messages to clients after which an edge does other work, before it reads more commands of other processes. To send so many takes
/// some milliseconds.
const SENT_BETWEEN: usize = 1024;

impl<B: Backend> EdgeLoop<'_, '_, B> {
    /// Passes events to apps, and messages between clients.
    #[inline]
    pub(in super::super) fn serve_live_connections(&mut self) {
        if !self.live.borrow().is_idle() {
            self.serve_some();
        }
    }

    #[inline(never)]
    fn serve_some(&mut self) {
        let now = self.now();
        if self.live.borrow().is_behind {
            self.receive_posts();
        }
        {
            let (mut live, mut engine) = (self.live.borrow_mut(), self.lane.source());
            live.look(&mut engine, now);
            live.beat(&mut engine, now);
            live.take_socket_events(&mut engine);
            live.end_farewells(&mut engine, now);
            live.posts.flush();
        }
        for (index, app) in self.apps.iter_mut().enumerate() {
            while app.has_room_for_event() {
                let next = self.live.borrow_mut().take_event(&self.lane.source(), index);
                let Some((name, event)) = next else { break };
                if !app.submit_event(name, &event) {
                    self.live.borrow_mut().handled(&mut self.lane.source(), name, Some(TRY_LATER));
                }
            }
        }
    }

    /// Wakes up when other edges have sent commands, unless the old edge still reads them.
    pub(in super::super) fn reading_posts(self) -> io::Result<Self> {
        if !self.awaits_box() {
            self.watch_posts()?;
        }
        Ok(self)
    }

    /// Wakes up when other edges have sent commands.
    pub(in super::super) fn watch_posts(&self) -> io::Result<()> {
        let arrival = self.live.borrow().posts.arrival();
        if let (Some(arrival), Some(event_sources)) = (arrival, self.lane.event_sources()) {
            event_sources.watch(arrival)?;
        }
        Ok(())
    }

    /// Leaves the messages to another edge.
    pub(in super::super) fn unwatch_posts(&self) {
        if let (Some(arrival), Some(event_sources)) = (self.live.borrow().posts.arrival(), self.lane.event_sources()) {
            // The call fails if it was not watched, which is harmless.
            let _ = event_sources.unwatch(arrival);
        }
    }

    /// Whether another edge reads the commands of others: the old one, or the next one.
    fn awaits_box(&self) -> bool {
        let live = self.live.borrow();
        live.up.is_some() || live.down.as_ref().is_some_and(|down| !down.has_begun)
    }

    /// Carries out the commands that other edges and workers have sent; some of them, if there are many, so that they hold up nothing
    /// else.
    pub(in super::super) fn receive_posts(&mut self) {
        if self.awaits_box() {
            return;
        }
        let (mut live, mut engine) = (self.live.borrow_mut(), self.lane.source());
        let mut sent = 0;
        live.is_behind = true;
        while sent < SENT_BETWEEN {
            let Some(commands) = live.posts.receive() else {
                live.is_behind = false;
                return;
            };
            sent += 1 + live.carry_out_all(&mut engine, &commands);
        }
    }
}
