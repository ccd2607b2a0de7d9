//! Ends connections because the server goes away. Those that want it have an event before, so that their apps can send a last message.
//! Apps have half of the time for a stop (`--graceful-timeout`) for that: the other half is for clients, which answer a close.

use super::{Busy, Live, NO_APP};
use oribi_engine::{Engine, GOING_AWAY};
use oribi_io::Backend;
use oribi_live::Command;
use oribi_live::event::EventKind;
use std::time::Duration;

impl Live<'_> {
    /// Ends all connections. `has_workers`: whether an app can have events.
    pub(in super::super) fn leave<B: Backend>(&mut self, engine: &mut Engine<'_, B>, has_workers: impl Fn(usize) -> bool) {
        if std::mem::replace(&mut self.has_left, true) {
            return;
        }
        self.begin_to_leave(engine.now());
        self.names().into_iter().for_each(|name| self.leave_one(engine, name, &has_workers));
    }

    /// Keeps further connections from staying open.
    pub(super) fn begin_to_leave(&mut self, now: Duration) {
        if !std::mem::replace(&mut self.leaves, true) {
            self.farewells_until = (!self.graceful.is_zero()).then(|| now + self.graceful / 2);
        }
    }

    /// Ends a connection, after its event if it wants one.
    pub(super) fn leave_one<B: Backend>(
        &mut self,
        engine: &mut Engine<'_, B>,
        name: u64,
        has_workers: &impl Fn(usize) -> bool,
    ) {
        let Some(connection) = self.connections.get_mut(&name).filter(|connection| !connection.ended) else { return };
        let app = connection.app;
        let may_say = self.farewells_until.is_some() && app != NO_APP && has_workers(app) && connection.busy != Busy::Opening;
        if !connection.wants.shutdown || !may_say {
            self.close(engine, name, GOING_AWAY, "");
        } else if !std::mem::replace(&mut connection.says_farewell, true) {
            self.note(name, EventKind::Shutdown, Vec::new());
        }
    }

    /// Closes a connection whose app has had its event. Its last messages may be on their way to the next edge and back.
    pub(super) fn close_behind_messages<B: Backend>(&mut self, engine: &mut Engine<'_, B>, name: u64) {
        self.send_to(engine, name, &Command::Close { connection: name, code: GOING_AWAY, reason: b"" });
    }

    /// Ends the connections whose apps have had their time.
    pub(super) fn end_farewells<B: Backend>(&mut self, engine: &mut Engine<'_, B>, now: Duration) {
        if self.farewells_until.take_if(|until| *until <= now).is_none() {
            return;
        }
        for name in self.names() {
            let Some(connection) = self.connections.get_mut(&name).filter(|connection| connection.says_farewell) else {
                continue;
            };
            connection.events.retain(|(kind, _)| *kind != EventKind::Shutdown);
            self.close(engine, name, GOING_AWAY, "");
        }
    }

    /// The names of all connections.
    pub(super) fn names(&self) -> Vec<u64> {
        self.connections.keys().copied().collect()
    }
}
