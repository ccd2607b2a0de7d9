//! Requests that are lost with their workers, and responses that are given up.

use super::EdgeLoop;
use super::table::Entry;
use oribi_io::Backend;
use oribi_pool::Ticket;
use std::io::Seek;

impl<B: Backend> EdgeLoop<'_, B> {
    /// The worker that had a request is dead or broken.
    pub(super) fn handle_loss(&mut self, ticket: Ticket) {
        let copy = self.table.take_copy(ticket.slot());
        let Some(entry) = self.table.remove(ticket) else { return };
        let Some(exchange) = entry.exchange else { return };
        if !entry.begun && !entry.retried && !copy.is_empty() && self.retry(&entry, &copy) {
            return;
        }
        if entry.begun {
            self.lane.source().abandon(exchange);
        } else {
            self.refuse(exchange, 502);
        }
    }

    /// Puts a request into the queue again.
    fn retry(&mut self, entry: &Entry, copy: &[u8]) -> bool {
        let file = |file: &Option<std::fs::File>| match file {
            Some(file) => file.try_clone().and_then(|mut file| file.rewind().map(|()| Some(file))),
            None => Ok(None),
        };
        let (Some(exchange), Ok(content), Ok(data)) = (entry.exchange, file(&entry.content), file(&entry.data)) else {
            return false;
        };
        let Some(mut reserved) = self.pool.reserve() else { return false };
        let slot = reserved.slot();
        let Some(room) = self.pool.room(&mut reserved).get_mut(..copy.len()) else {
            self.pool.cancel(reserved);
            return false;
        };
        room.copy_from_slice(copy);
        self.table.move_label(entry.ticket.slot(), slot);
        let ticket = self.pool.submit(reserved, copy.len());
        let again = Entry { retried: true, content, data, ..Entry::new(ticket, exchange, entry.submitted) };
        self.table.insert(again);
        self.deadlines.submitted(ticket);
        self.timers.submitted(self.now(), self.deadlines.are_set());
        true
    }

    /// Answers with an error, or cuts off the response that has begun. What the worker still says is thrown away.
    pub(super) fn fail(&mut self, ticket: Ticket, status: u16) {
        let Some(entry) = self.table.get(ticket) else { return };
        let (begun, paused) = (entry.begun, std::mem::take(&mut entry.paused));
        let Some(exchange) = entry.exchange.take() else { return };
        if begun {
            self.lane.source().abandon(exchange);
        } else {
            self.refuse(exchange, status);
        }
        if paused {
            self.pool.resume(ticket);
        }
    }

    /// Gives a response up.
    pub(super) fn give_up(&mut self, ticket: Ticket) {
        self.fail(ticket, 500);
    }
}
