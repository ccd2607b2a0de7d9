//! Maps the slots of the pool to exchanges.

use super::shares::Shares;
use oribi_engine::CountedFile;
use oribi_host::ExchangeId;
use oribi_message::RequestHead;
use oribi_pool::Ticket;
use std::time::Duration;

/// The most bytes of method and target that are kept for the log.
const LABEL_BYTES: usize = 200;

/// A request in the pool.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) ticket: Ticket,
    /// The exchange. `None` if its client has its answer or has disconnected: then further output of the worker is discarded.
    pub(super) exchange: Option<ExchangeId>,
    /// The time at which the request entered the pool.
    pub(super) submitted: Duration,
    /// The time at which the edge first noticed that a worker had the request, or at which the worker last made progress.
    /// `None` while no worker has the request. Kept only if apps have deadlines.
    pub(super) progress: Option<Duration>,
    /// Whether a worker has begun to answer.
    pub(super) begun: bool,
    /// Whether the client has all of the content that was announced. The app may still be running.
    pub(super) complete: bool,
    /// Whether the app has the client's socket, so that an error page might appear in the middle of other data.
    pub(super) socket_taken: bool,
    /// Whether the frames of the worker are not read, because the client is slow: see [`super::AppPool::paused`].
    pub(super) paused: bool,
    /// The parts of the request that did not fit into the slot.
    pub(super) overflow: Option<Box<Overflow>>,
    /// The last measure taken because of a deadline.
    pub(super) stage: Escalation,
    /// The timeout that the app has set in place of `--request-timeout`. `Some(None)` if the app may take any time; `None` if
    /// it has set none.
    pub(super) own_deadline: Option<Option<Duration>>,
    /// Whether the request was lost with a worker before, and is being tried again.
    pub(super) retried: bool,
    /// Whether the request is a question whether another one may go on: its answer is not for the client.
    pub(super) asking: bool,
    /// The number of the connection, if the connection may carry several requests.
    pub(super) connection: Option<u32>,
}

/// The parts of a request that did not fit into a slot. They are rare, so other requests do not reserve room for them.
#[derive(Debug)]
pub(super) struct Overflow {
    pub(super) content: Option<CountedFile>,
    /// The data for a FastCGI filter.
    pub(super) data: Option<CountedFile>,
}

/// The measures taken against an app that takes too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Escalation {
    Nothing,
    Warned,
    Interrupted,
    Killed,
}

/// Buffers of a slot that are reused for its next request.
#[derive(Debug, Default)]
struct SlotBuffers {
    entry: Option<Entry>,
    /// Method, target and id of the request, for the log.
    label: Vec<u8>,
    /// The bytes of the request, for another try. Empty if the request must not be tried again.
    copy: Vec<u8>,
}

/// The requests, by slot.
#[derive(Debug, Default)]
pub(in super::super) struct Table {
    /// The slots up to the highest one that was ever used: the pool uses the lowest free slot, and a server may have hundreds of
    /// pools.
    slots: Vec<SlotBuffers>,
    used: usize,
    pub(super) shares: Shares,
    /// Exchanges whose questions have ended without an answer.
    pub(super) unasked: Vec<ExchangeId>,
}

impl Entry {
    pub(super) const fn new(ticket: Ticket, exchange: Option<ExchangeId>, now: Duration) -> Self {
        Self {
            ticket,
            exchange,
            submitted: now,
            progress: None,
            begun: false,
            complete: false,
            socket_taken: false,
            paused: false,
            overflow: None,
            stage: Escalation::Nothing,
            own_deadline: None,
            retried: false,
            asking: false,
            connection: None,
        }
    }
}

impl Table {
    /// Returns the number of requests in the pool.
    pub(in super::super) const fn used(&self) -> usize {
        self.used
    }

    #[inline(always)]
    pub(super) fn insert(&mut self, entry: Entry) {
        let buffers = &mut self.slots[entry.ticket.slot() as usize];
        if let Some(connection) = entry.connection {
            self.shares.begin(connection);
        }
        // The slot may still contain an older request without a client.
        match buffers.entry.replace(entry) {
            None => self.used += 1,
            Some(Entry { connection: Some(connection), ticket, .. }) => self.shares.end(connection, ticket),
            Some(_) => {}
        }
    }

    #[inline]
    pub(super) fn get(&mut self, ticket: Ticket) -> Option<&mut Entry> {
        self.slots.get_mut(ticket.slot() as usize)?.entry.as_mut().filter(|entry| entry.ticket == ticket)
    }

    /// Returns the exchange of a request whose client waits for an answer.
    #[inline]
    pub(super) fn exchange(&mut self, ticket: Ticket) -> Option<ExchangeId> {
        self.get(ticket)?.exchange
    }

    /// Returns the time at which a request entered the pool.
    pub(super) fn submitted(&self, ticket: Ticket) -> Option<Duration> {
        let entry = self.slots.get(ticket.slot() as usize)?.entry.as_ref()?;
        (entry.ticket == ticket).then_some(entry.submitted)
    }

    /// Returns the number of the connection of a request, if the connection may carry several requests.
    pub(super) fn connection(&self, ticket: Ticket) -> Option<u32> {
        let entry = self.slots.get(ticket.slot() as usize)?.entry.as_ref()?;
        entry.connection.filter(|_| entry.ticket == ticket)
    }

    #[inline]
    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<Entry> {
        let connection = self.get(ticket)?.connection;
        self.used -= 1;
        if let Some(connection) = connection {
            self.shares.end(connection, ticket);
        }
        let entry = self.slots[ticket.slot() as usize].entry.take();
        if let Some(Entry { asking: true, exchange: Some(exchange), .. }) = &entry {
            self.unasked.push(*exchange);
        }
        entry
    }

    /// Removes a request. Returns its exchange, if its client waits, and whether a worker had begun to answer.
    #[inline(always)]
    pub(super) fn conclude(&mut self, ticket: Ticket) -> Option<(Option<ExchangeId>, bool)> {
        let buffers = self.slots.get_mut(ticket.slot() as usize)?;
        let entry = buffers.entry.as_ref().filter(|entry| entry.ticket == ticket)?;
        let concluded = (entry.exchange, entry.begun);
        if let Some(connection) = entry.connection {
            self.shares.end(connection, ticket);
        }
        buffers.entry = None;
        self.used -= 1;
        Some(concluded)
    }

    /// Returns the request that belongs to an exchange.
    pub(super) fn find(&self, exchange: ExchangeId) -> Option<Ticket> {
        self.entries().find(|entry| entry.exchange == Some(exchange)).map(|entry| entry.ticket)
    }

    /// Returns the entries of all requests in the pool. Slots are used from the lowest number on, so the search mostly ends
    /// long before the last slot.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.slots.iter().filter_map(|buffers| buffers.entry.as_ref()).take(self.used)
    }

    /// Returns the requests without a waiting client.
    pub(super) fn without_clients(&self) -> Vec<Ticket> {
        self.entries().filter(|entry| entry.exchange.is_none()).map(|entry| entry.ticket).collect()
    }

    pub(super) fn tickets(&self) -> Vec<Ticket> {
        self.entries().map(|entry| entry.ticket).collect()
    }

    /// Stores method and target, cut to [`LABEL_BYTES`], and the id of the request in a slot, for the log.
    pub(super) fn keep_label(&mut self, slot: u32, head: &RequestHead<'_>, id: Option<&[u8]>) {
        let label = &mut self.slots[slot as usize].label;
        label.clear();
        [head.method(), b" ", head.target()].iter().for_each(|part| label.extend_from_slice(part));
        label.truncate(LABEL_BYTES);
        if let Some(id) = id {
            [b" (", id, b")"].iter().for_each(|part| label.extend_from_slice(part));
        }
    }

    /// Returns the method and the target of a request, as far as they are stored, and its id, if requests have ids.
    pub(super) fn label(&self, ticket: Ticket) -> String {
        String::from_utf8_lossy(&self.slots[ticket.slot() as usize].label).into_owned()
    }

    /// Returns the buffers of a slot, which is about to be used.
    #[inline]
    fn reach(&mut self, slot: u32) -> &mut SlotBuffers {
        let index = slot as usize;
        if self.slots.len() <= index {
            self.add_slots(index + 1);
        }
        &mut self.slots[index]
    }

    /// Adds slots until there are `count`.
    #[cold]
    fn add_slots(&mut self, count: usize) {
        self.slots.resize_with(count, SlotBuffers::default);
    }

    /// Stores the bytes of the request in a slot, for another try; `None` if the request must not be tried again. Must be the first
    /// call for a request in a slot.
    #[inline]
    pub(super) fn keep_copy(&mut self, slot: u32, bytes: Option<&[u8]>) {
        let copy = &mut self.reach(slot).copy;
        copy.clear();
        if let Some(bytes) = bytes {
            copy.extend_from_slice(bytes);
        }
    }

    /// Moves the label from one slot to another.
    pub(super) fn move_label(&mut self, from: u32, to: u32) {
        let label = std::mem::take(&mut self.slots[from as usize].label);
        self.reach(to).label = label;
    }

    /// The stored bytes of the requests that no worker has begun to answer.
    pub(super) fn unanswered(&self) -> impl Iterator<Item = &[u8]> {
        let is_open = |buffers: &&SlotBuffers| {
            buffers.entry.as_ref().is_some_and(|entry| !entry.begun && !entry.socket_taken && entry.exchange.is_some())
        };
        self.slots.iter().filter(is_open).map(|buffers| &buffers.copy[..]).filter(|copy| !copy.is_empty())
    }

    /// Removes and returns the stored bytes of the request in a slot. Empty if none are stored.
    pub(super) fn take_copy(&mut self, slot: u32) -> Vec<u8> {
        std::mem::take(&mut self.slots[slot as usize].copy)
    }
}
