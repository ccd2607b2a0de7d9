//! Connections of web servers, which carry many exchanges at once (FastCGI 1.0).
//!
//! A connection that speaks HTTP *is* its present exchange. One that speaks FastCGI stays in [`Phase::Carrying`] and owns a
//! [`Carrier`]: a machine, and the places of its [`Stream`]s, which live in a table of their own and have phases, content and fates
//! of their own. What a host gets is the same [`Exchange`] in both cases, and the names of those that are carried have a bit set
//! (see [`Carried`]), by which the verbs of `respond` find their way here.
//!
//! Cancelled requests, aborted by the web server or lost with its connection, are forgotten at once: a host that goes on with one
//! is told that the client has gone.

mod receive;
mod respond;
mod settle;

use super::connection::{Fate, Phase, Remote};
use super::content::StoredContent;
use super::deadline::Deadline;
use super::record::Draft;
use super::{Engine, Exchange};
use oribi_host::{Endpoint, ExchangeId, Gateway, Request};
use oribi_io::Backend;
use oribi_message::{HeadLayout, KnownVariable, Role, Variable};
use oribi_proto::fcgi;
use std::time::Duration;

/// How long a web server may keep a connection that it does not use. The connection is the web server's to close (FastCGI 1.0,
/// section 3.2), so this is only for one that has vanished without a word.
pub(super) const KEPT: Duration = Duration::from_secs(24 * 3600);

/// Variables and layouts of requests that are over, kept for the next ones; more than these are freed.
const SPARE_PARTS: usize = 64;

/// The name of a stream where names of connections stand too: in the queue of complete requests, and in the lower half of an
/// exchange's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Carried(pub(super) u32);

impl Carried {
    /// Connections have smaller numbers: there cannot be so many descriptors.
    const BIT: u32 = 1 << 31;

    pub(super) const fn number(self) -> u32 {
        self.0 | Self::BIT
    }

    pub(super) const fn from_number(number: u32) -> Option<Self> {
        if number & Self::BIT == 0 { None } else { Some(Self(number & !Self::BIT)) }
    }

    /// The stream of an exchange, finished or not; `None`: the exchange is a connection's.
    #[inline]
    pub(super) const fn of(exchange: ExchangeId) -> Option<Self> {
        Self::from_number(exchange.0 as u32)
    }
}

/// What a connection that speaks FastCGI owns.
#[derive(Debug, Default)]
pub(super) struct Carrier {
    machine: fcgi::Machine,
    /// The requests that are not finished: id and place, in order of ids.
    streams: Vec<(u16, u32)>,
}

impl Carrier {
    fn place(&self, id: u16) -> Option<u32> {
        let found = self.streams.binary_search_by_key(&id, |&(id, _)| id).ok()?;
        Some(self.streams[found].1)
    }

    fn add(&mut self, id: u16, place: u32) {
        if let Err(position) = self.streams.binary_search_by_key(&id, |&(id, _)| id) {
            self.streams.insert(position, (id, place));
        }
    }

    fn remove(&mut self, id: u16) {
        if let Ok(position) = self.streams.binary_search_by_key(&id, |&(id, _)| id) {
            self.streams.remove(position);
        }
    }
}

/// One request of a web server, and its response.
#[derive(Debug)]
pub(super) struct Stream {
    /// The place of the connection that carries it, which outlives it.
    connection: u32,
    exchange: fcgi::Exchange,
    phase: Phase,
    /// Set when the response is finished.
    fate: Option<Fate>,
    serial: u32,
    lent: bool,
    status: u16,
    sent: u64,
    /// Content that was announced.
    content_length: Option<u64>,
    /// Content that has come.
    received: u64,
    complete_at: Duration,
    remote: Remote,
    content: StoredContent,
    /// `None` while the exchange is out.
    parts: Option<Box<Parts>>,
    draft: Option<Box<Draft>>,
}

impl Stream {
    fn new(connection: u32, id: u16, role: Role, remote: Remote, parts: Box<Parts>) -> Self {
        Self {
            connection,
            exchange: fcgi::Exchange::new(id, role),
            phase: Phase::Reading,
            fate: None,
            serial: 0,
            lent: false,
            status: 0,
            sent: 0,
            content_length: None,
            received: 0,
            complete_at: Duration::ZERO,
            remote,
            content: StoredContent::None,
            parts: Some(parts),
            draft: None,
        }
    }
}

/// What a web server says of a request: its variables, the head that was made of them, and for a filter its data.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) bytes: Vec<u8>,
    pub(super) layout: HeadLayout,
    variables: Vec<Variable>,
    role: Role,
    data: StoredContent,
}

impl Parts {
    fn get(&self, wanted: KnownVariable) -> Option<&[u8]> {
        let variable = self.variables.iter().find(|variable| variable.known == Some(wanted))?;
        Some(variable.value.of(&self.bytes)).filter(|value| !value.is_empty())
    }

    /// Adds what is known from the variables. Out of the way of a request by HTTP.
    #[inline(never)]
    pub(super) fn complete<'a>(&'a self, request: &mut Request<'a>) {
        request.server = Endpoint {
            address: self.get(KnownVariable::ServerName).unwrap_or(request.server.address),
            port: self.get(KnownVariable::ServerPort).unwrap_or(request.server.port),
        };
        // "on" is what CGI programs have always been told; some web servers say "1".
        request.https = self.get(KnownVariable::Https).is_some_and(|value| value.eq_ignore_ascii_case(b"on") || value == b"1");
        // What is filtered never stands in an input buffer.
        request.gateway = Some(Gateway::new(self.role, &self.bytes, &self.variables, self.data.view(&[])));
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.layout.clear();
        self.variables.clear();
        self.data = StoredContent::None;
    }
}

impl<B: Backend> Engine<'_, B> {
    /// Makes a new connection one that carries.
    pub(super) fn carry(&mut self, index: u32) {
        if let Some(connection) = self.connections.get_mut(index) {
            connection.phase = Phase::Carrying;
            connection.carrier = Some(Box::default());
        }
    }

    fn carrier(&mut self, index: u32) -> Option<&mut Carrier> {
        self.connections.get_mut(index)?.carrier.as_deref_mut()
    }

    /// The stream of an exchange, finished or not, that is still the one it was.
    pub(super) fn present_stream(&self, carried: Carried, exchange: ExchangeId) -> Option<&Stream> {
        self.streams.get(carried.0).filter(|stream| stream.serial == (exchange.0 >> 32) as u32)
    }

    /// The same, if its response is not finished.
    pub(super) fn unfinished(&self, carried: Carried, exchange: ExchangeId) -> Option<&Stream> {
        let open = |stream: &&Stream| stream.phase == Phase::Answering && stream.fate.is_none();
        self.present_stream(carried, exchange).filter(open)
    }

    /// The names of the exchanges that are out.
    pub(super) fn carried_exchanges(&self) -> impl Iterator<Item = ExchangeId> {
        self.streams.indices().filter_map(|place| {
            let serial = self.streams.get(place)?.serial;
            Some(ExchangeId(u64::from(serial) << 32 | u64::from(Carried(place).number())))
        })
    }

    /// Hands the request of a stream out.
    pub(super) fn lend_stream(&mut self, Carried(place): Carried) -> Option<Exchange> {
        let stream = self.streams.get_mut(place)?;
        if stream.phase != Phase::Queued {
            return None;
        }
        let mut parts = stream.parts.take()?;
        self.serial = self.serial.wrapping_add(1).max(1);
        self.answering += 1;
        stream.serial = self.serial;
        stream.phase = Phase::Answering;
        stream.lent = true;
        let mut lent = self.spare_exchanges.pop().unwrap_or_default();
        std::mem::swap(&mut lent.layout, &mut parts.layout);
        lent.content = std::mem::take(&mut stream.content);
        lent.remote = stream.remote;
        lent.listener = self.connections.get(stream.connection)?.listener;
        lent.parts = Some(parts);
        Some(Exchange { id: ExchangeId(u64::from(self.serial) << 32 | u64::from(Carried(place).number())), lent })
    }

    fn spare_parts(&mut self) -> Box<Parts> {
        self.spare_parts.pop().unwrap_or_default()
    }

    fn keep_parts(&mut self, mut parts: Box<Parts>) {
        if self.spare_parts.len() < SPARE_PARTS && parts.bytes.capacity() <= self.limits.head_bytes {
            parts.clear();
            self.spare_parts.push(parts);
        }
    }

    /// Nothing goes on on a connection: from now on it is merely kept.
    pub(super) fn rest_if_idle(&mut self, index: u32) {
        let now = self.backend.now();
        let Some(connection) = self.connections.get_mut(index) else { return };
        let idle = connection.carrier.as_ref().is_some_and(|carrier| carrier.streams.is_empty());
        if idle && connection.output_is_empty() && !connection.input.has_unread() {
            connection.input.release(&mut self.pool);
            self.deadlines.set(index, Deadline::Kept, now);
            self.room_was_made();
        }
    }
}
