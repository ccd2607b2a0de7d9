//! Receiving for several connections before the first of their requests is looked at.
//!
//! The other half of [`super::held`]: the kernel's part of a batch and the engine's are done apart from each other, so that each
//! finds its code where it has left it, in the processor's nearest memory.

use super::Engine;
use super::connection::Phase;
use oribi_io::{Attempt, Backend, Event};

/// Connections that are received from at once, at most: each holds a buffer until its request is answered.
const MOST_CONNECTIONS: usize = 32;

impl<B: Backend> Engine<'_, B> {
    /// Receives what the next events tell of, as far as it can only be the beginning of a request.
    pub(super) fn receive_ahead(&mut self) {
        if !self.may_hold() || self.events.len() - self.handled < 2 {
            return;
        }
        let last = self.events.len().min(self.handled + MOST_CONNECTIONS);
        for place in self.handled..last {
            if let Event::Socket { token, readable: true, ended: false, .. } = self.events[place]
                && let Some(index) = self.connections.find(token)
                && let Some(connection) = self.connections.get_mut(index)
                && connection.phase == Phase::Reading
                && connection.machine.awaits_head()
                && !connection.input.has_unread()
                && !connection.ended
            {
                let room = connection.input.room(&mut self.pool, self.limits.head_bytes);
                let size = room.len();
                match self.backend.receive(&mut connection.socket, room) {
                    Attempt::Done(count) => {
                        connection.input.received(count);
                        connection.readable = count == size;
                        connection.ahead = true;
                    }
                    // Whoever handles the event finds out again.
                    Attempt::Later | Attempt::End | Attempt::Broken => connection.input.release(&mut self.pool),
                }
            }
        }
    }

    /// Goes on with what was received ahead of the event that is handled now; `true`: that was a whole request, and what may have
    /// come behind it has time until it is answered.
    #[inline]
    pub(super) fn take_ahead(&mut self, index: u32) -> bool {
        let Some(connection) = self.connections.get_mut(index) else { return false };
        let ahead = std::mem::take(&mut connection.ahead);
        if !ahead || connection.phase != Phase::Reading || !connection.input.has_unread() {
            return false;
        }
        self.advance(index);
        self.connections.get(index).is_some_and(|connection| connection.phase == Phase::Queued)
    }
}
