//! Connections that stay open while no worker has anything to do with them: WebSockets, and responses held open as event streams.
//!
//! The engine has the connections themselves. [`Live`] knows for each the request that has opened it, the data of its app, and its
//! channels. `events` passes messages of clients to apps as requests, one after the other for each connection. `commands` carries
//! out the commands of apps, also those of other processes. `message` is a message in all the forms in which it may be sent.
//! `drains` tells apps that all their messages have been sent, and `farewells` that the server goes away. `beats` sends the texts
//! that connections get again and again. `bridge` moves connections to the next server.

mod beats;
mod bridge;
mod commands;
mod drains;
mod events;
mod farewells;
mod message;

use beats::Beats;
use bridge::Down;
use drains::Reason;
use oribi_config::Settings;
use oribi_engine::Engine;
use oribi_host::ExchangeId;
use oribi_io::Backend;
use oribi_ipc::posts::{PostBoxes, Posts};
use oribi_live::event::EventKind;
use oribi_live::{Channels, Kind, Wants};
use oribi_stats::scoreboard::WorkerSlot;
use oribi_stats::totals::Counter;
use oribi_websocket::Deflater;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

pub(super) use bridge::{Heard, Up};
pub(super) use commands::Opening;

/// The level of compression: level 6 costs three times as much for small messages.
const LEVEL: u8 = 1;

/// The most bytes of the data of a connection, which every event carries.
const LARGEST_DATA: usize = 64 << 10;

/// The most channels of a connection.
const MOST_CHANNELS: usize = 1024;

/// The most bytes of the envelopes of a connection.
const MOST_ENVELOPES: usize = 64 << 10;

/// The time after which events that wait for room in the queue of their app are looked at again.
const LOOKS_AT_QUEUE: Duration = Duration::from_millis(50);

/// The code for a server that cannot fulfil a request (RFC 6455, section 7.4.1).
const FAILED: u16 = 1011;

/// The code for a server that is too busy (IANA's registry of WebSocket close codes).
const TRY_LATER: u16 = 1013;

/// In place of the index of an app that has gone.
const NO_APP: usize = usize::MAX;

/// The live connections of an edge, of all its apps.
pub(super) struct Live<'a> {
    slot: &'a WorkerSlot,
    /// The number of this edge.
    edge: usize,
    /// The next name: the number of the edge, and a number that no edge before has used.
    next: u64,
    connections: HashMap<u64, Connection>,
    /// The names of event streams.
    streams: HashMap<ExchangeId, u64>,
    channels: Channels,
    beats: Beats,
    /// For each app, the connections with events for it, which are not busy.
    ready: Vec<VecDeque<u64>>,
    deflater: Deflater,
    posts: Posts<'a>,
    /// The bridge to the next edge, and that to the one before.
    up: Option<Up>,
    down: Option<Down>,
    /// Whether there may be more commands of other processes, which wait while this edge does other work.
    is_behind: bool,
    /// The longest silence of a WebSocket without a ping, and of an event stream: there are two looks at them in that time.
    ping: Duration,
    looks: u32,
    next_look: Option<Duration>,
    /// Whether the server goes away, so that no connection stays open.
    leaves: bool,
    /// Whether it ends all that are open.
    has_left: bool,
    /// The time for a stop, and when apps have had their part of it for last messages.
    graceful: Duration,
    farewells_until: Option<Duration>,
    /// The most bytes that may wait for the client of an event stream.
    buffer: usize,
}

/// A live connection.
#[derive(Debug)]
struct Connection {
    exchange: ExchangeId,
    /// The index of its app.
    app: usize,
    /// The request that has opened it, as in its slot.
    request: Rc<[u8]>,
    /// The bytes that come with every event.
    data: Vec<u8>,
    form: Form,
    /// Events for the app, in their order.
    events: Events,
    busy: Busy,
    /// Whether its client has gone: only its events are left.
    ended: bool,
    /// Whether its app gets its events, although it is to move to the next server.
    stays: bool,
    /// Whether it could not subscribe to another channel.
    is_full: bool,
    /// The events that its app wants besides messages and the end.
    wants: Wants,
    /// The messages of which a part may not have been sent, if its app wants to know when all have been.
    unsent: u32,
    /// Whether it ends as soon as its app has had the event that says so.
    says_farewell: bool,
    /// The events of a stream whose response has not begun.
    early: Option<Vec<u8>>,
    /// The code with which such a stream ends as soon as its response has begun.
    ends_with: Option<u16>,
}

impl Connection {
    /// Whether it can move to the next server.
    fn can_move<B: Backend>(&self, engine: &Engine<'_, B>) -> bool {
        !self.ended && matches!(self.form, Form::WebSocket(_)) && engine.can_hand_over(self.exchange)
    }
}

/// The events that wait for an app, with their payloads.
type Events = VecDeque<(EventKind, Vec<u8>)>;

/// The form of a connection.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// With the bits of the client's window, if messages are compressed.
    WebSocket(Option<u8>),
    EventStream,
}

/// Whether the app has a request of the connection. It gets the next event afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Busy {
    No,
    /// The request that opens the connection.
    Opening,
    /// A message of this many bytes.
    WithMessage(usize),
    /// The event before the end of the server.
    WithFarewell,
    /// Another event.
    WithEvent,
}

/// An event on its way to the app.
pub(super) struct Event {
    pub(super) exchange: ExchangeId,
    pub(super) request: Rc<[u8]>,
    pub(super) kind: EventKind,
    /// The messages of which a part may not have been sent.
    pub(super) pending: u32,
    pub(super) content: Vec<u8>,
}

impl<'a> Live<'a> {
    /// Creates the value for the edge with this number. `started` is the time since 1970.
    pub(super) fn new(
        settings: &Settings,
        slot: &'a WorkerSlot,
        (edge, posts): (usize, Option<&'a PostBoxes>),
        started: Duration,
    ) -> Self {
        let prefix = (edge as u64) << 48;
        Self {
            slot,
            edge,
            next: prefix | (started.as_secs() & 0xFFFF_FFFF) << 16,
            connections: HashMap::new(),
            streams: HashMap::new(),
            channels: Channels::default(),
            beats: Beats::default(),
            ready: Vec::new(),
            deflater: Deflater::new(LEVEL),
            posts: Posts::new(edge, posts),
            up: None,
            down: None,
            is_behind: false,
            ping: settings.websocket.ping,
            looks: 0,
            next_look: None,
            leaves: false,
            has_left: false,
            graceful: settings.timeouts.graceful,
            farewells_until: None,
            buffer: settings.websocket.buffer_bytes,
        }
    }

    /// Whether there is nothing to do, and nothing to wait for.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.connections.is_empty() && self.posts.is_idle() && !self.is_behind
    }

    /// Whether an app has, or will get, an event.
    pub(super) fn has_events(&self) -> bool {
        self.connections.values().any(|connection| connection.busy != Busy::No || !connection.events.is_empty())
    }

    /// The time at which it is next due.
    pub(super) fn due(&self, now: Duration) -> Option<Duration> {
        // Events wait for answers to earlier requests, which wake the edge.
        let later = self.ready.iter().any(|ready| !ready.is_empty()).then(|| now + LOOKS_AT_QUEUE);
        let of_connections = self.next_look.into_iter().chain(self.beats.due()).chain(self.farewells_until);
        let of_connections = of_connections.filter(|_| !self.connections.is_empty());
        let at_once = self.is_behind.then_some(now);
        later.into_iter().chain(self.posts.due(now)).chain(of_connections).chain(at_once).min()
    }

    fn add(&mut self, connection: Connection, now: Duration) -> u64 {
        let name = self.next;
        self.next += 1;
        if let Form::EventStream = connection.form {
            self.streams.insert(connection.exchange, name);
            self.slot.account.count(Counter::EventStreamsOpened);
        }
        if self.connections.is_empty() {
            self.next_look = (self.ping < oribi_config::Timeouts::NEVER).then(|| now + self.ping / 2);
        }
        self.connections.insert(name, connection);
        name
    }

    /// Notes an event of a connection.
    fn note(&mut self, name: u64, kind: EventKind, payload: Vec<u8>) {
        let Some(connection) = self.connections.get_mut(&name) else { return };
        connection.events.push_back((kind, payload));
        if connection.busy == Busy::No && connection.events.len() == 1 {
            let app = connection.app;
            self.make_ready(app, name);
        }
    }

    fn make_ready(&mut self, app: usize, name: u64) {
        if app == NO_APP {
            if self.connections.get(&name).is_some_and(|connection| connection.ended) {
                self.connections.remove(&name);
            }
            return;
        }
        if self.ready.len() <= app {
            self.ready.resize_with(app + 1, VecDeque::new);
        }
        self.ready[app].push_back(name);
    }

    /// Notes that the client of a connection has gone. Its app gets an event, unless it has left no data, and so expects none.
    fn note_end(&mut self, name: u64, payload: Vec<u8>) {
        self.channels.forget(name);
        self.beats.stop(name);
        let Some(connection) = self.connections.get_mut(&name).filter(|connection| !connection.ended) else { return };
        connection.ended = true;
        if let Form::EventStream = connection.form {
            self.streams.remove(&connection.exchange);
            self.slot.account.count(Counter::EventStreamsClosed);
        }
        connection.events.retain(|(kind, _)| kind.is_message());
        let is_told = !connection.data.is_empty() || connection.busy != Busy::No;
        if is_told || !connection.events.is_empty() {
            self.note(name, EventKind::Close, payload);
        } else {
            self.connections.remove(&name);
        }
    }

    /// Returns the next event for an app, which is then busy with its connection.
    pub(super) fn take_event<B: Backend>(&mut self, engine: &Engine<'_, B>, app: usize) -> Option<(u64, Event)> {
        loop {
            let name = self.ready.get_mut(app)?.pop_front()?;
            let Some(connection) = self.connections.get_mut(&name).filter(|connection| connection.busy == Busy::No) else {
                continue;
            };
            if self.up.is_some() && !connection.stays && connection.can_move(engine) {
                // The events move with it.
                continue;
            }
            let Some((kind, payload)) = connection.events.pop_front() else { continue };
            if kind == EventKind::Close && connection.data.is_empty() {
                self.connections.remove(&name);
                continue;
            }
            connection.busy = match kind {
                EventKind::Text | EventKind::Binary => Busy::WithMessage(payload.len()),
                EventKind::Shutdown => Busy::WithFarewell,
                EventKind::Close | EventKind::Drained => Busy::WithEvent,
            };
            let content = oribi_live::event::content(&connection.data, &payload);
            let Connection { exchange, ref request, unsent: pending, .. } = *connection;
            return Some((name, Event { exchange, request: Rc::clone(request), kind, pending, content }));
        }
    }

    /// Says that the app is no longer busy with a connection. `failure`: the code with which the connection is closed, because the app
    /// has failed.
    pub(super) fn handled<B: Backend>(&mut self, engine: &mut Engine<'_, B>, name: u64, failure: Option<u16>) {
        let Some(connection) = self.connections.get_mut(&name) else { return };
        let before = std::mem::replace(&mut connection.busy, Busy::No);
        if let Busy::WithMessage(size) = before {
            engine.message_handled(connection.exchange, size);
        }
        if !connection.events.is_empty() {
            let app = connection.app;
            self.make_ready(app, name);
        } else if connection.ended {
            self.connections.remove(&name);
            return;
        }
        match failure {
            Some(code) => self.close(engine, name, code, ""),
            None if before == Busy::WithFarewell => self.close_behind_messages(engine, name),
            None => self.look_for_drain(engine, name),
        }
    }

    /// Closes a connection of this edge.
    fn close<B: Backend>(&mut self, engine: &mut Engine<'_, B>, name: u64, code: u16, reason: &str) {
        let Some(connection) = self.connections.get_mut(&name).filter(|connection| !connection.ended) else { return };
        match connection.form {
            Form::WebSocket(_) => engine.close_socket(connection.exchange, code, reason),
            Form::EventStream if connection.early.is_some() => connection.ends_with = Some(code),
            Form::EventStream => {
                // While the app writes its part of the response, that ends it.
                if connection.busy != Busy::Opening {
                    let _ = engine.finish(connection.exchange);
                }
                self.note_end(name, code.to_be_bytes().to_vec());
            }
        }
    }

    /// Drops the events of a connection without an app, and returns none.
    fn drop_events<B: Backend>(&self, engine: &mut Engine<'_, B>, exchange: ExchangeId, events: Events) -> Events {
        for (kind, payload) in events {
            if kind.is_message() {
                engine.message_handled(exchange, payload.len());
            }
        }
        Events::new()
    }

    /// Closes the connections of an app that has gone from its place, which another one may get.
    pub(super) fn leave_app<B: Backend>(&mut self, engine: &mut Engine<'_, B>, app: usize) {
        let of_app = self.connections.iter().filter(|(_, connection)| connection.app == app).map(|(name, _)| *name);
        for name in of_app.collect::<Vec<_>>() {
            self.close(engine, name, oribi_engine::GOING_AWAY, "");
            if let Some(connection) = self.connections.get_mut(&name) {
                connection.app = NO_APP;
                let (exchange, events) = (connection.exchange, std::mem::take(&mut connection.events));
                self.drop_events(engine, exchange, events);
            }
            if self.connections.get(&name).is_some_and(|connection| connection.ended && connection.busy == Busy::No) {
                self.connections.remove(&name);
            }
        }
    }

    /// Sends a message to a connection of this edge, because its app sends it to this client.
    fn send<B: Backend>(&mut self, engine: &mut Engine<'_, B>, name: u64, kind: Kind, payload: &[u8]) {
        self.send_message(engine, name, &mut message::Message::new(kind, payload), Reason::Own);
    }

    fn send_message<B: Backend>(
        &mut self,
        engine: &mut Engine<'_, B>,
        name: u64,
        message: &mut message::Message<'_>,
        reason: Reason,
    ) {
        let Some(connection) = self.connections.get_mut(&name).filter(|connection| !connection.ended) else { return };
        let (exchange, wants_drained) = (connection.exchange, connection.wants.drained);
        let sent = match connection.form {
            Form::WebSocket(window) => match message.frames(window, &mut self.deflater) {
                Some(frames) => engine.send_frames(exchange, &frames),
                None => return,
            },
            Form::EventStream => match message.event() {
                Some(event) if let Some(early) = &mut connection.early => {
                    if early.len() + event.len() > self.buffer {
                        self.slot.account.count(Counter::LimitWebsocketBuffer);
                        log::info!(
                            "too many events wait for the beginning of an event stream, which ends (--websocket-buffer)"
                        );
                        return self.note_end(name, TRY_LATER.to_be_bytes().to_vec());
                    }
                    early.extend_from_slice(event);
                    Ok(())
                }
                Some(event) => {
                    // One event may be larger than the limit: the client has had no time to take it.
                    let waited = engine.unsent(exchange) > 0;
                    engine.write(exchange, event).map(|_| {
                        if waited && engine.unsent(exchange) > self.buffer {
                            self.slot.account.count(Counter::LimitWebsocketBuffer);
                            log::info!(
                                "a client of an event stream takes its events too slowly, and is cut off (--websocket-buffer)"
                            );
                            engine.abandon(exchange);
                            self.note_end(name, oribi_engine::LEFT.to_be_bytes().to_vec());
                        }
                    })
                }
                None => return,
            },
        };
        if sent.is_ok() {
            self.slot.account.count(Counter::LiveMessagesSent);
            if wants_drained {
                self.note_unsent(engine, name, reason);
            }
        }
    }

    /// Sends a message to all connections of this edge that have subscribed to a channel. Returns their number.
    fn publish<B: Backend>(&mut self, engine: &mut Engine<'_, B>, channel: &[u8], kind: Kind, payload: &[u8]) -> usize {
        let groups = self.channels.groups(channel);
        if groups.is_empty() {
            return 0;
        }
        let count = groups.iter().map(|group| group.connections.len()).sum();
        engine.gather_answers();
        for group in groups {
            let envelope = group.envelope();
            if kind == Kind::Text && envelope.size() > 0 {
                self.send_to_all(engine, &group.connections, kind, &envelope.around(payload));
            } else {
                self.send_to_all(engine, &group.connections, kind, payload);
            }
        }
        engine.send_gathered_answers();
        count
    }

    fn send_to_all<B: Backend>(&mut self, engine: &mut Engine<'_, B>, names: &[u64], kind: Kind, payload: &[u8]) {
        let mut message = message::Message::new(kind, payload);
        names.iter().for_each(|name| self.send_message(engine, *name, &mut message, Reason::Shared));
    }

    /// Closes all connections of this edge that have subscribed to a channel.
    fn close_all<B: Backend>(&mut self, engine: &mut Engine<'_, B>, channel: &[u8], code: u16, reason: &str) {
        let groups = self.channels.groups(channel);
        groups.iter().flat_map(|group| &group.connections).for_each(|name| self.close(engine, *name, code, reason));
    }

    /// Sends the texts that are due again.
    pub(super) fn beat<B: Backend>(&mut self, engine: &mut Engine<'_, B>, now: Duration) {
        for (text, names) in self.beats.take(now) {
            engine.gather_answers();
            self.send_to_all(engine, &names, Kind::Text, &text);
            engine.send_gathered_answers();
        }
    }
}
