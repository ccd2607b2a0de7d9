//! Tells an app that all its messages to a client have been sent, if the connection wants that.
//!
//! There is one event after any number of messages, and the next one only after another message. It follows messages that the app sends
//! to this client, however soon they are sent, so that the app can send one part of something long after the other. A message to all
//! subscribers of a channel leads to an event only if it has to wait for the client: else each one would be as many requests as there
//! are subscribers.

use super::{Busy, Live, NO_APP};
use oribi_engine::Engine;
use oribi_io::Backend;
use oribi_live::event::EventKind;

/// The reason for a message to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// The app sends it to this client.
    Own,
    /// The client has subscribed, or gets it again and again.
    Shared,
}

impl Live<'_> {
    /// Notes a message that was sent to a connection that wants to know when all have been sent.
    pub(super) fn note_unsent<B: Backend>(&mut self, engine: &mut Engine<'_, B>, name: u64, reason: Reason) {
        let Some(connection) = self.connections.get_mut(&name).filter(|connection| !connection.ended) else { return };
        if reason == Reason::Own || connection.unsent > 0 || engine.await_drain(connection.exchange, name) {
            connection.unsent = connection.unsent.saturating_add(1);
            self.look_for_drain(engine, name);
        }
    }

    /// Notes the event if all messages to a connection have been sent and its app has nothing of it; otherwise waits for that.
    pub(super) fn look_for_drain<B: Backend>(&mut self, engine: &mut Engine<'_, B>, name: u64) {
        let Some(connection) = self.connections.get_mut(&name).filter(|connection| connection.unsent > 0) else { return };
        let has_event = || connection.events.iter().any(|(kind, _)| *kind == EventKind::Drained);
        let waits = connection.busy != Busy::No || has_event();
        if waits || connection.ended || connection.says_farewell || connection.app == NO_APP {
            return;
        }
        if !engine.await_drain(connection.exchange, name) {
            connection.unsent = 0;
            self.note(name, EventKind::Drained, Vec::new());
        }
    }
}
