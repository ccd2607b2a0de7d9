//! Which exchange is in which slot of the pool.

use super::shares::Shares;
use oribi_engine::CountedFile;
use oribi_host::ExchangeId;
use oribi_message::RequestHead;
use oribi_pool::Ticket;
use std::time::Duration;

/// How much of the method and the target is kept for the log.
const LABEL_BYTES: usize = 200;

/// What is known of a request in the pool.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) ticket: Ticket,
    /// `None`: its client has its answer, or has gone, and what the worker still says is thrown away.
    pub(super) exchange: Option<ExchangeId>,
    /// When it came into the pool.
    pub(super) submitted: Duration,
    /// When a worker was first seen to have it, or last did something for its client; `None`: it waits. Only kept if apps have
    /// deadlines.
    pub(super) progress: Option<Duration>,
    /// A worker has begun to answer.
    pub(super) begun: bool,
    /// Its client has all of the content that was announced; the app may still be running.
    pub(super) complete: bool,
    /// Its app has the client's socket, so an error page might end up in the middle of something else.
    pub(super) socket_taken: bool,
    /// See [`super::EdgeLoop::paused`].
    pub(super) paused: bool,
    /// The parts of its request that did not fit into the slot.
    pub(super) overflow: Option<Box<Overflow>>,
    /// How far deadlines have been used up.
    pub(super) stage: Stage,
    /// What replaces `--request-timeout`: an app has asked for it. `Some(None)`: no timeout.
    pub(super) asked: Option<Option<Duration>>,
    /// It was lost once already.
    pub(super) retried: bool,
    /// The number of its connection, if that carries several requests.
    pub(super) connection: Option<u32>,
}

/// The parts of a request that did not fit into a slot. They are rare, so a request without any does not move room for them.
#[derive(Debug)]
pub(super) struct Overflow {
    pub(super) content: Option<CountedFile>,
    /// The data for a filter.
    pub(super) data: Option<CountedFile>,
}

/// What was done about an app that takes long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Nothing,
    Warned,
    Interrupted,
    Killed,
}

/// What a slot keeps from one request to the next: memory.
#[derive(Debug, Default)]
struct Place {
    entry: Option<Entry>,
    /// Method, target and id, for the log.
    label: Vec<u8>,
    /// The bytes of the request, for another try.
    copy: Vec<u8>,
}

/// The table.
#[derive(Debug)]
pub(super) struct Table {
    places: Vec<Place>,
    used: usize,
    pub(super) shares: Shares,
}

impl Entry {
    pub(super) const fn new(ticket: Ticket, exchange: ExchangeId, now: Duration) -> Self {
        Self {
            ticket,
            exchange: Some(exchange),
            submitted: now,
            progress: None,
            begun: false,
            complete: false,
            socket_taken: false,
            paused: false,
            overflow: None,
            stage: Stage::Nothing,
            asked: None,
            retried: false,
            connection: None,
        }
    }
}

impl Table {
    pub(super) fn new(slots: u32) -> Self {
        Self { places: (0..slots).map(|_| Place::default()).collect(), used: 0, shares: Shares::default() }
    }

    /// How many requests are in the pool.
    pub(super) const fn used(&self) -> usize {
        self.used
    }

    #[inline(always)]
    pub(super) fn insert(&mut self, entry: Entry) {
        let place = &mut self.places[entry.ticket.slot() as usize];
        if let Some(connection) = entry.connection {
            self.shares.begin(connection);
        }
        // A request whose client had gone may have been there.
        match place.entry.replace(entry) {
            None => self.used += 1,
            Some(Entry { connection: Some(connection), ticket, .. }) => self.shares.end(connection, ticket),
            Some(_) => {}
        }
    }

    #[inline]
    pub(super) fn get(&mut self, ticket: Ticket) -> Option<&mut Entry> {
        self.places.get_mut(ticket.slot() as usize)?.entry.as_mut().filter(|entry| entry.ticket == ticket)
    }

    /// The exchange of a request whose client waits for an answer.
    #[inline]
    pub(super) fn exchange(&mut self, ticket: Ticket) -> Option<ExchangeId> {
        self.get(ticket)?.exchange
    }

    /// When a request came into the pool.
    pub(super) fn submitted(&self, ticket: Ticket) -> Option<Duration> {
        let entry = self.places.get(ticket.slot() as usize)?.entry.as_ref()?;
        (entry.ticket == ticket).then_some(entry.submitted)
    }

    /// The connection of a request, if that carries several.
    pub(super) fn connection(&self, ticket: Ticket) -> Option<u32> {
        let entry = self.places.get(ticket.slot() as usize)?.entry.as_ref()?;
        entry.connection.filter(|_| entry.ticket == ticket)
    }

    #[inline]
    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<Entry> {
        let connection = self.get(ticket)?.connection;
        self.used -= 1;
        if let Some(connection) = connection {
            self.shares.end(connection, ticket);
        }
        self.places[ticket.slot() as usize].entry.take()
    }

    /// Removes a request, and returns its exchange and whether a worker had begun to answer.
    #[inline(always)]
    pub(super) fn conclude(&mut self, ticket: Ticket) -> Option<(Option<ExchangeId>, bool)> {
        let place = self.places.get_mut(ticket.slot() as usize)?;
        let entry = place.entry.as_ref().filter(|entry| entry.ticket == ticket)?;
        let concluded = (entry.exchange, entry.begun);
        if let Some(connection) = entry.connection {
            self.shares.end(connection, ticket);
        }
        place.entry = None;
        self.used -= 1;
        Some(concluded)
    }

    /// The request of an exchange.
    pub(super) fn find(&self, exchange: ExchangeId) -> Option<Ticket> {
        self.entries().find(|entry| entry.exchange == Some(exchange)).map(|entry| entry.ticket)
    }

    /// All requests in the pool. Slots are used from the lowest number on, so the look mostly ends long before the last one.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.places.iter().filter_map(|place| place.entry.as_ref()).take(self.used)
    }

    /// The requests whose clients do not wait any more.
    pub(super) fn without_clients(&self) -> Vec<Ticket> {
        self.entries().filter(|entry| entry.exchange.is_none()).map(|entry| entry.ticket).collect()
    }

    pub(super) fn tickets(&self) -> Vec<Ticket> {
        self.entries().map(|entry| entry.ticket).collect()
    }

    /// Keeps method, target and id of the request in a slot, for the log.
    pub(super) fn keep_label(&mut self, slot: u32, head: &RequestHead<'_>, id: Option<&[u8]>) {
        let label = &mut self.places[slot as usize].label;
        label.clear();
        [head.method(), b" ", head.target()].iter().for_each(|part| label.extend_from_slice(part));
        label.truncate(LABEL_BYTES);
        if let Some(id) = id {
            [b" (", id, b")"].iter().for_each(|part| label.extend_from_slice(part));
        }
    }

    /// The method and the target, as far as they are kept, and the id, if requests have ids.
    pub(super) fn label(&self, ticket: Ticket) -> String {
        String::from_utf8_lossy(&self.places[ticket.slot() as usize].label).into_owned()
    }

    /// Keeps the bytes of the request in a slot, for another try; none: there will be none.
    pub(super) fn keep_copy(&mut self, slot: u32, bytes: &[u8]) {
        let copy = &mut self.places[slot as usize].copy;
        copy.clear();
        copy.extend_from_slice(bytes);
    }

    /// Passes what is kept for the log on to another slot.
    pub(super) fn move_label(&mut self, from: u32, to: u32) {
        let label = std::mem::take(&mut self.places[from as usize].label);
        self.places[to as usize].label = label;
    }

    /// Takes the bytes of the request; empty: they were not kept.
    pub(super) fn take_copy(&mut self, slot: u32) -> Vec<u8> {
        std::mem::take(&mut self.places[slot as usize].copy)
    }
}
