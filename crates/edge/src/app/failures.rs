//! Handles requests that are lost with their workers, and abandoned responses.

use super::AppPool;
use super::table::{Entry, Overflow};
use oribi_engine::CountedFile;
use oribi_io::Backend;
use oribi_pool::{Ticket, Withdrawal};
use oribi_stats::totals::Counter;
use std::io::{self, Seek};

impl<B: Backend> AppPool<'_, '_, B> {
    /// Handles a request whose worker has died, or has written invalid data: tries it again with another worker, or fails it.
    pub(super) fn handle_loss(&mut self, ticket: Ticket) {
        let copy = self.table.take_copy(ticket.slot());
        let Some(entry) = self.table.remove(ticket) else { return };
        let Some(exchange) = entry.exchange else {
            self.commands_ended(ticket, true);
            return self.handle_loss_of_fetch(ticket, &entry, &copy);
        };
        if !self.commands.is_empty() {
            self.drop_held(ticket);
        }
        let untouched = !entry.begun && !entry.socket_taken;
        // The label must be read first: it moves to another slot with a request that is tried again.
        let label = self.table.label(ticket);
        let again = self.settings.retry_lost && untouched && !entry.retried && !copy.is_empty();
        if again && self.retry(&entry, &copy).is_some() {
            if self.settings.request_id.is_some() {
                log::warn!("{label} was lost with its worker, and is given to another one");
            }
            return self.slot.account.count(Counter::RequestsRetried);
        }
        self.slot.account.count(Counter::RequestsLost);
        if self.settings.request_id.is_some() {
            let outcome = if untouched { "its client gets a 502" } else { "its response is cut off" };
            log::warn!("{label} was lost with its worker: {outcome}");
        }
        self.report_wait(ticket, exchange);
        if untouched {
            self.refuse(exchange, 502);
        } else {
            self.lane.source().abandon(exchange);
        }
    }

    /// Handles the loss of a request whose response might have been stored.
    #[cold]
    fn handle_loss_of_fetch(&mut self, ticket: Ticket, entry: &Entry, copy: &[u8]) {
        let Some(untouched) = self.fetch(ticket).map(|fetch| fetch.capture.is_none()) else { return };
        if self.settings.retry_lost
            && untouched
            && !entry.retried
            && !copy.is_empty()
            && let Some(again) = self.retry(entry, copy)
        {
            self.move_fetch(ticket, again);
            return self.slot.account.count(Counter::RequestsRetried);
        }
        self.slot.account.count(Counter::RequestsLost);
        self.fail_fetch(ticket, 502);
    }

    /// Puts a request into the queue again, from a `copy` of its bytes. Returns its ticket, if that was possible.
    fn retry(&mut self, entry: &Entry, copy: &[u8]) -> Option<Ticket> {
        let again = |file: &CountedFile| file.try_clone().and_then(|file| (&*file).rewind().map(|()| file));
        let overflow = entry.overflow.as_ref().map(|files| -> io::Result<_> {
            let (content, data) = (files.content.as_ref().map(again), files.data.as_ref().map(again));
            Ok(Box::new(Overflow { content: content.transpose()?, data: data.transpose()? }))
        });
        let overflow = overflow.transpose().ok()?;
        let mut reserved = self.pool.reserve()?;
        let slot = reserved.slot();
        let Some(room) = self.pool.room(&mut reserved).get_mut(..copy.len()) else {
            self.pool.cancel(reserved);
            return None;
        };
        room.copy_from_slice(copy);
        self.table.keep_copy(slot, Some(copy));
        self.table.move_label(entry.ticket.slot(), slot);
        let ticket = self.pool.submit(reserved, copy.len());
        self.pool.backdate(ticket, entry.submitted);
        let connection = entry.connection;
        self.note_other_try(connection, ticket);
        let again = Entry {
            retried: true,
            asking: entry.asking,
            overflow,
            connection,
            ..Entry::new(ticket, entry.exchange, entry.submitted)
        };
        self.table.insert(again);
        self.deadlines.submitted(ticket);
        self.timers.submitted(self.now(), self.deadlines.are_set());
        Some(ticket)
    }

    /// Answers a request with `status`, or cuts off the response that has begun. Further output of the worker is discarded.
    pub(super) fn fail(&mut self, ticket: Ticket, status: u16) {
        let Some(entry) = self.table.get(ticket) else { return };
        let (untouched, paused) = (!entry.begun && !entry.socket_taken, std::mem::take(&mut entry.paused));
        let Some(exchange) = entry.exchange.take() else {
            self.commands_ended(ticket, true);
            self.fail_fetch(ticket, status);
            return;
        };
        if entry.asking {
            self.table.unasked.push(exchange);
        }
        if !self.commands.is_empty() {
            self.drop_held(ticket);
        }
        self.report_wait(ticket, exchange);
        if untouched {
            self.refuse(exchange, status);
        } else {
            self.lane.source().abandon(exchange);
        }
        if paused {
            self.pool.resume(ticket);
        }
    }

    /// Fails a request with `status`, and informs its app that no client waits any longer.
    pub(super) fn give_up(&mut self, ticket: Ticket, status: u16) {
        self.fail(ticket, status);
        self.discard(ticket);
    }

    /// Removes a request without a client from the queue. If a worker has the request already, informs its app.
    pub(super) fn discard(&mut self, ticket: Ticket) {
        self.withdraw(ticket);
    }

    /// Like [`Self::discard`]. Returns whether a worker has the request, or has had it.
    pub(super) fn withdraw(&mut self, ticket: Ticket) -> bool {
        if !self.commands.is_empty() {
            self.drop_held(ticket);
        }
        let was_retried = self.table.get(ticket).is_some_and(|entry| entry.retried);
        let withdrawn = self.pool.withdraw(ticket);
        if withdrawn == Withdrawal::Running && self.deadlines.are_set() {
            // The entry stays, because the deadlines of the app still apply: it may be stuck.
            let exchange = self.table.get(ticket).and_then(|entry| entry.exchange.take().filter(|_| entry.asking));
            self.table.unasked.extend(exchange);
        } else {
            self.table.remove(ticket);
        }
        was_retried || withdrawn != Withdrawal::Unseen
    }

    /// Removes requests whose clients have disconnected and whose apps have ended since: the pool does not report the ends of
    /// such requests.
    pub(super) fn forget_ended(&mut self) {
        for ticket in self.table.without_clients() {
            // The pool reports the ends of requests with fetches, and of events.
            if self.pool.holder(ticket).is_none() && !self.has_fetch(ticket) && !self.has_event(ticket) {
                self.table.remove(ticket);
            }
        }
    }
}
