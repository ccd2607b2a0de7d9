//! The bridge between an old edge and the next one, while connections that stay open move from one to the other.
//!
//! Both servers have the same boxes, and each box has one reader: the old edge, until it hands over; then the next edge. The old edge
//! publishes nothing itself from then on. It passes commands of its workers *up* to the next edge, which carries them out as its own,
//! and passes each command *down* that connections of the old edge may need. So the next edge decides the order of all messages.
//!
//! A connection moves with the number of messages that have come down to it. The next edge has kept the later ones, and sends these
//! first: each message reaches each connection once, wherever the connection is.

use super::beats::CatchUp;
use super::{Busy, Connection, Form, Live, NO_APP};
use oribi_engine::{Engine, GOING_AWAY, MovingSocket};
use oribi_io::Backend;
use oribi_ipc::handover::{Bridge, BridgeKind, BridgeMessage, LIVE_VERSION, LiveRecord, Receiver, Sender};
use oribi_live::event::EventKind;
use oribi_live::{Command, Envelope, Kind, Wants};
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

/// The most connections that are handed over before the edge does other work.
const CONNECTIONS_BETWEEN: usize = 64;

/// The most bytes that wait for the next edge before more connections follow.
const WAITING_CONNECTIONS: usize = 64 << 10;

/// The most bytes of messages that an old edge has not confirmed, or that wait for the next one.
const WAITING_MESSAGES: usize = 64 << 20;

/// The time in which the next edge must read some of the messages that wait for it, and accept connections. Meanwhile the events of
/// connections that are to move wait.
const PATIENCE: Duration = Duration::from_secs(10);

/// The names that an old edge may still give to connections.
const LATE_NAMES: u64 = 1 << 24;

/// The bridge of an old edge.
#[derive(Default)]
pub(in super::super) struct Up {
    pub(super) bridge: Bridge,
    /// The messages that have come down, and their number when the next edge was told last.
    seen: u64,
    said: u64,
    /// The connections that have not moved yet.
    pub(super) moving: VecDeque<u64>,
    /// Whether the next edge has got all that it needs before its first connection.
    has_begun: bool,
    /// Whether the next edge is told that there is none.
    is_done: bool,
    /// Whether the next edge has said that it accepts connections.
    accepts: bool,
    /// The time since which the next edge has neither read a message nor said so; `None` if nothing of it is awaited.
    waits_since: Option<Duration>,
}

/// The bridge of the next edge.
pub(super) struct Down {
    pub(super) bridge: Bridge,
    /// Whether the old edge reads its box no longer.
    pub(super) has_begun: bool,
    /// Whether it has no connection any longer that needs messages.
    is_done: bool,
    /// The number of messages that were sent down, and those that the old edge has not confirmed.
    sent: u64,
    unconfirmed: VecDeque<(u64, Vec<u8>)>,
    unconfirmed_bytes: usize,
}

/// The work of an edge after a message of the next edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Heard {
    Nothing,
    /// The next edge reads the box, and accepts connections.
    Accepting,
}

/// The message by which an edge says that it reads [`LIVE_VERSION`], and for how many edges.
fn hello(edges: usize) -> [u8; 4] {
    let ([a, b], [c, d]) = (LIVE_VERSION.to_be_bytes(), (edges as u16).to_be_bytes());
    [a, b, c, d]
}

impl Up {
    /// Takes in a piece of the next edge, which greets if it reads these messages.
    pub(in super::super) fn greeted(piece: &[u8], edges: usize) -> Option<Self> {
        let mut up = Self::default();
        let message = up.bridge.arrive(piece, None).ok()??;
        (message.kind == BridgeKind::Hello && message.body == hello(edges)).then_some(up)
    }

    /// Sends the messages that wait, as far as there is room.
    ///
    /// # Errors
    /// The next edge has ended, or does not read them ([`io::ErrorKind::TimedOut`]).
    fn flush(&mut self, after: &Sender, now: Duration) -> io::Result<()> {
        let before = self.bridge.waiting();
        self.bridge.flush(after)?;
        self.has_begun |= self.bridge.is_empty();
        let waits = !self.bridge.is_empty() || !self.accepts;
        if !waits || self.bridge.waiting() < before {
            self.waits_since = None;
        }
        let since = waits.then(|| *self.waits_since.get_or_insert(now));
        let is_late = since.is_some_and(|since| now.saturating_sub(since) > PATIENCE);
        if is_late || self.bridge.waiting() > WAITING_MESSAGES { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
    }
}

impl Down {
    pub(super) fn new(edges: usize) -> Self {
        let mut bridge = Bridge::default();
        bridge.push(BridgeKind::Hello, &hello(edges), None);
        Self { bridge, has_begun: false, is_done: false, sent: 0, unconfirmed: VecDeque::new(), unconfirmed_bytes: 0 }
    }

    /// Whether the old edge has connections for which messages are passed on.
    const fn passes(&self) -> bool {
        self.has_begun && !self.is_done
    }

    /// Passes commands on, and keeps them until the old edge has confirmed them.
    fn pass(&mut self, bytes: &[u8]) {
        self.sent += 1;
        self.unconfirmed.push_back((self.sent, bytes.to_vec()));
        self.unconfirmed_bytes += bytes.len();
        self.bridge.push(BridgeKind::Commands, bytes, None);
    }

    fn confirm(&mut self, seen: u64) {
        while let Some((number, bytes)) = self.unconfirmed.front()
            && *number <= seen
        {
            self.unconfirmed_bytes -= bytes.len();
            self.unconfirmed.pop_front();
        }
    }

    /// Whether the old edge does not read its messages.
    fn is_stuck(&self) -> bool {
        self.unconfirmed_bytes > WAITING_MESSAGES
    }
}

impl Live<'_> {
    /// The number of edges.
    pub(in super::super) fn edges(&self) -> usize {
        self.posts.count()
    }

    /// Greets the old edge, if this one has its box. Returns whether that is so.
    pub(in super::super) fn follow_old_edge(&mut self) -> bool {
        let follows = self.posts.are_inherited();
        self.down = follows.then(|| Down::new(self.posts.count()));
        follows
    }

    /// Forgets the old edge, which has ended, and returns `true`. If it has not left its box before, it is not forgotten.
    pub(in super::super) fn forget_old_edge(&mut self) -> bool {
        let is_over = !self.awaits_old_edge();
        if is_over {
            self.down = None;
        }
        is_over
    }

    /// Takes the box of an old edge that has ended without leaving it.
    pub(in super::super) fn take_box(&mut self) {
        self.down = None;
    }

    /// Sends the next edge the messages that wait.
    ///
    /// # Errors
    /// It has ended, or does not read them ([`io::ErrorKind::TimedOut`]).
    pub(in super::super) fn flush_up(&mut self, after: &Sender, now: Duration) -> io::Result<()> {
        self.up.as_mut().map_or(Ok(()), |up| up.flush(after, now))
    }

    /// Whether the next edge may get connections that are between two requests: not before it passes messages on.
    pub(in super::super) fn next_edge_is_prepared(&self) -> bool {
        self.up.as_ref().is_none_or(|up| up.has_begun)
    }

    /// Whether messages wait for other edges.
    pub(in super::super) fn owes_messages(&self) -> bool {
        !self.posts.is_idle()
    }

    /// Whether messages wait for the next edge.
    pub(in super::super) fn owes_next_edge(&self) -> bool {
        self.up.as_ref().is_some_and(|up| !up.bridge.is_empty())
    }

    /// Sends the old edge the messages that wait, and returns whether some are left. Its end is found when its messages are read.
    pub(in super::super) fn flush_down(&mut self, before: &Receiver) -> bool {
        let Some(down) = &mut self.down else { return false };
        _ = down.bridge.flush(before);
        !down.bridge.is_empty()
    }

    /// Whether the old edge does not read its messages.
    pub(in super::super) fn old_edge_is_stuck(&self) -> bool {
        self.down.as_ref().is_some_and(Down::is_stuck)
    }

    /// Whether an old edge has not begun to hand its connections over to this one.
    pub(in super::super) fn awaits_old_edge(&self) -> bool {
        self.down.as_ref().is_some_and(|down| !down.has_begun)
    }

    /// Leaves the box to the next edge.
    pub(in super::super) fn begin_to_move(&mut self, mut up: Up, now: Duration) {
        for (sender, part) in self.posts.arriving() {
            up.bridge.push(BridgeKind::Arriving, &[&sender.to_be_bytes()[..], &part].concat(), None);
        }
        for (edge, piece) in self.posts.take_waiting() {
            up.bridge.push(BridgeKind::Waiting, &[&(edge as u16).to_be_bytes()[..], &piece].concat(), None);
        }
        up.bridge.push(BridgeKind::Begin, &self.next.to_be_bytes(), None);
        up.moving = self.names().into();
        self.begin_to_leave(now);
        (self.up, self.is_behind) = (Some(up), false);
    }

    /// Leaves the box to another edge without more.
    pub(in super::super) fn leave_box(&mut self) {
        self.posts.leave_box();
    }

    /// Whether connections move to the next edge.
    pub(in super::super) fn moves(&self) -> bool {
        self.up.is_some()
    }

    /// Whether an old edge still has connections, for which this one passes messages on.
    pub(in super::super) fn has_old_edge(&self) -> bool {
        self.down.as_ref().is_some_and(Down::passes)
    }

    /// Leaves the bridge when no connection needs it any longer, so that the next server may end before this one. From then on, this
    /// edge publishes through the boxes. `opens`: whether a request may become a WebSocket.
    pub(in super::super) fn leave_bridge(&mut self, opens: bool) {
        let is_needed = opens || !self.connections.is_empty() || self.has_old_edge();
        let Some(up) = self.up.as_mut().filter(|_| !is_needed) else { return };
        if !std::mem::replace(&mut up.is_done, true) {
            up.bridge.push(BridgeKind::Done, &[], None);
        } else if up.bridge.is_empty() {
            self.up = None;
            self.posts.leave_box();
        }
    }

    /// Carries on without the next edge: the connections that have not moved are closed, and the box has another reader.
    pub(in super::super) fn lose_next_edge<B: Backend>(
        &mut self,
        engine: &mut Engine<'_, B>,
        place_of: impl Fn(&str) -> Option<usize>,
        has_workers: &impl Fn(usize) -> bool,
    ) {
        let Some(mut up) = self.up.take() else { return };
        for BridgeMessage { kind, body, descriptor } in up.bridge.take_unsent() {
            match (kind, descriptor, body.split_first_chunk()) {
                (BridgeKind::Connection, Some(descriptor), _) => match LiveRecord::decode(&body) {
                    Ok(record) => self.adopt(engine, record, descriptor, &place_of),
                    Err(_) => log::error!("a WebSocket was lost on its way to the next server"),
                },
                (BridgeKind::Commands, ..) => self.carry_out_each(engine, &body),
                (BridgeKind::Waiting, _, Some((edge, piece))) => self.posts.wait(usize::from(u16::from_be_bytes(*edge)), piece),
                _ => {}
            }
        }
        for name in self.names() {
            self.make_ready_again(name);
            self.leave_one(engine, name, has_workers);
        }
    }

    /// Ends the connections that cannot move, because the next edge accepts others.
    pub(in super::super) fn leave_immovable<B: Backend>(
        &mut self,
        engine: &mut Engine<'_, B>,
        has_workers: impl Fn(usize) -> bool,
    ) {
        for name in self.names() {
            let Some(Connection { form, exchange, .. }) = self.connections.get(&name) else { continue };
            if matches!(form, Form::EventStream) || !engine.can_hand_over(*exchange) {
                self.leave_one(engine, name, &has_workers);
            }
        }
    }

    /// Takes in a message of the next edge.
    pub(in super::super) fn hear<B: Backend>(&mut self, engine: &mut Engine<'_, B>, piece: &[u8]) -> Heard {
        let Some(Ok(Some(message))) = self.up.as_mut().map(|up| up.bridge.arrive(piece, None)) else { return Heard::Nothing };
        match message.kind {
            BridgeKind::Accepting => {
                self.up.iter_mut().for_each(|up| up.accepts = true);
                return Heard::Accepting;
            }
            BridgeKind::Commands => {
                self.up.iter_mut().for_each(|up| up.seen += 1);
                self.carry_out_all(engine, &message.body);
            }
            _ => {}
        }
        Heard::Nothing
    }

    /// Moves some connections. `name_of` returns the names of apps. Returns whether more may follow at once.
    pub(in super::super) fn move_some<B: Backend>(
        &mut self,
        engine: &mut Engine<'_, B>,
        name_of: impl Fn(usize) -> String,
    ) -> bool {
        let Some(up) = &mut self.up else { return false };
        if up.seen > up.said {
            up.said = up.seen;
            up.bridge.push(BridgeKind::Seen, &up.seen.to_be_bytes(), None);
        }
        let (mut moved, seen) = (0, up.seen);
        for _ in 0..CONNECTIONS_BETWEEN.min(up.moving.len()) {
            let Some(up) = &mut self.up else { return false };
            if up.bridge.waiting() > WAITING_CONNECTIONS {
                return false;
            }
            let Some(name) = up.moving.pop_front() else { return false };
            match self.connections.get(&name) {
                None => {}
                Some(connection) if connection.ended => self.make_ready_again(name),
                Some(_) => match self.release(engine, name, seen, &name_of) {
                    Some((record, descriptor)) => {
                        moved += 1;
                        let up = self.up.get_or_insert_default();
                        up.bridge.push(BridgeKind::Connection, &record, Some(descriptor));
                    }
                    None => {
                        self.up.get_or_insert_default().moving.push_back(name);
                        self.serve_meanwhile(name);
                    }
                },
            }
        }
        moved > 0
    }

    /// Passes the events of a connection to its app although it is to move, because it cannot move before the app has had them, or
    /// before its client has read.
    fn serve_meanwhile(&mut self, name: u64) {
        let Some(connection) = self.connections.get_mut(&name) else { return };
        if connection.busy == Busy::No && !std::mem::replace(&mut connection.stays, true) {
            self.make_ready_again(name);
        }
    }

    /// Takes a connection out of this edge. `None`: it cannot move now.
    fn release<B: Backend>(
        &mut self,
        engine: &mut Engine<'_, B>,
        name: u64,
        seen: u64,
        name_of: impl Fn(usize) -> String,
    ) -> Option<(Vec<u8>, OwnedFd)> {
        let Connection { exchange, app, form: Form::WebSocket(window), ref events, busy: Busy::No, .. } =
            *self.connections.get(&name)?
        else {
            return None;
        };
        if app == NO_APP {
            return None;
        }
        let waiting = events.iter().map(|(_, payload)| payload.len()).sum();
        let (moving, descriptor) = engine.release_socket(exchange, waiting)?;
        let MovingSocket { connection, output, reader, looks } = moving;
        let channels = self.channels.of(name).map(|(channel, envelope)| (channel.to_vec(), envelope.to_vec())).collect();
        let interval = |interval: Duration| u32::try_from(interval.as_millis()).unwrap_or(u32::MAX);
        let beat = self.beats.of(name).map(|(every, text)| (interval(every), text.to_vec()));
        self.channels.forget(name);
        self.beats.stop(name);
        let Connection { request, data, events, is_full, wants, unsent, .. } = self.connections.remove(&name)?;
        let record = LiveRecord {
            name,
            seen,
            at: engine.now().as_millis() as u64,
            connection,
            output,
            window,
            reader,
            looks,
            app: name_of(app),
            request: request.to_vec(),
            data,
            is_full,
            wants: wants.bits(),
            has_unsent: unsent > 0,
            events: events.into_iter().map(|(kind, payload)| (kind as u8, payload)).collect(),
            channels,
            beat,
        };
        let bytes = record.encode();
        if bytes.is_none() {
            log::error!("a WebSocket is lost, because its state is too large for the next server");
        }
        Some((bytes?, descriptor))
    }

    fn make_ready_again(&mut self, name: u64) {
        let Some(connection) = self.connections.get(&name) else { return };
        if connection.busy == Busy::No && !connection.events.is_empty() {
            self.make_ready(connection.app, name);
        }
    }

    /// Passes commands on to the next edge, if connections move there, and otherwise returns `false`.
    pub(super) fn pass_up(&mut self, bytes: &[u8]) -> bool {
        let Some(up) = &mut self.up else { return false };
        up.bridge.push(BridgeKind::Commands, bytes, None);
        true
    }

    /// Passes commands on to an old edge, whose connections may need them.
    pub(super) fn pass_down(&mut self, bytes: &[u8]) {
        self.down.iter_mut().filter(|down| down.passes()).for_each(|down| down.pass(bytes));
    }

    /// Takes in a message of the old edge. `place_of` returns the places of apps by their names. Returns whether the box is this
    /// edge's from now on.
    pub(in super::super) fn take_in<B: Backend>(
        &mut self,
        engine: &mut Engine<'_, B>,
        (piece, descriptor): (&[u8], Option<OwnedFd>),
        place_of: impl Fn(&str) -> Option<usize>,
    ) -> bool {
        let Some(down) = &mut self.down else { return false };
        let Ok(Some(BridgeMessage { kind, body, descriptor })) = down.bridge.arrive(piece, descriptor) else { return false };
        let number = body.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        match (kind, body.split_first_chunk()) {
            (BridgeKind::Arriving, Some((sender, part))) => self.posts.arrived(u16::from_be_bytes(*sender), part),
            (BridgeKind::Waiting, Some((edge, piece))) => self.posts.wait(usize::from(u16::from_be_bytes(*edge)), piece),
            (BridgeKind::Begin, _) => {
                down.has_begun = true;
                down.bridge.push(BridgeKind::Accepting, &[], None);
                self.next = self.next.max(number + LATE_NAMES);
                return true;
            }
            (BridgeKind::Seen, _) => down.confirm(number),
            (BridgeKind::Done, _) => {
                // It reads no more of them.
                down.bridge.take_unsent();
                down.confirm(u64::MAX);
                down.is_done = true;
            }
            (BridgeKind::Commands, _) => self.carry_out_each(engine, &body),
            (BridgeKind::Connection, _) => match (LiveRecord::decode(&body), descriptor) {
                (Ok(record), Some(descriptor)) => self.adopt(engine, record, descriptor, place_of),
                _ => log::error!("the old server sent a WebSocket in an unknown form, which was closed"),
            },
            _ => {}
        }
        false
    }

    /// Carries out commands of apps which no edge has carried out.
    fn carry_out_each<B: Backend>(&mut self, engine: &mut Engine<'_, B>, mut commands: &[u8]) {
        while let Ok(Some((command, rest))) = Command::read(commands) {
            self.carry_out(engine, None, &command);
            commands = rest;
        }
    }

    fn adopt<B: Backend>(
        &mut self,
        engine: &mut Engine<'_, B>,
        record: LiveRecord,
        descriptor: OwnedFd,
        place_of: impl Fn(&str) -> Option<usize>,
    ) {
        let LiveRecord { name, seen, at, connection, output, window, reader, looks, events, .. } = record;
        let kinds = [EventKind::Text, EventKind::Binary, EventKind::Drained];
        let kind = |number: u8| kinds.into_iter().find(|kind| *kind as u8 == number);
        let events: VecDeque<_> = events.into_iter().filter_map(|(number, payload)| Some((kind(number)?, payload))).collect();
        let messages = events.iter().filter(|(kind, _)| kind.is_message());
        let waiting = (messages.clone().count(), messages.map(|(_, payload)| payload.len()).sum());
        let moving = MovingSocket { connection, output, reader, looks };
        let Some(exchange) = engine.adopt_socket(moving, (name, window.is_some()), waiting, descriptor) else {
            return log::error!("a WebSocket of the old server was lost");
        };
        let now = engine.now();
        if self.connections.is_empty() {
            self.next_look = (self.ping < oribi_config::Timeouts::NEVER).then(|| now + self.ping / 2);
        }
        let (app, has_events) = (place_of(&record.app).unwrap_or(NO_APP), !events.is_empty());
        let events = if app == NO_APP { self.drop_events(engine, exchange, events) } else { events };
        let connection = Connection {
            exchange,
            app,
            request: Rc::from(record.request),
            data: record.data,
            form: Form::WebSocket(window),
            events,
            busy: Busy::No,
            ended: false,
            stays: false,
            is_full: record.is_full,
            wants: Wants::of(record.wants).unwrap_or_default(),
            unsent: record.has_unsent.into(),
            says_farewell: false,
            early: None,
            ends_with: None,
        };
        self.connections.insert(name, connection);
        for (channel, envelope) in &record.channels {
            self.channels.subscribe(name, channel, Envelope::read(envelope).unwrap_or_default());
        }
        if app == NO_APP {
            return self.close(engine, name, GOING_AWAY, "");
        }
        if has_events {
            self.make_ready(app, name);
        }
        if let Some((interval, text)) = record.beat {
            let every = Duration::from_millis(interval.into());
            if self.beats.go_on(name, every, &text, (Duration::from_millis(at), now)) == CatchUp::Send {
                self.send_to_all(engine, &[name], Kind::Text, &text);
            }
        }
        self.look_for_drain(engine, name);
        let missed: Vec<Vec<u8>> = self
            .down
            .iter_mut()
            .flat_map(|down| {
                down.confirm(seen);
                down.unconfirmed.iter().map(|(_, bytes)| bytes.clone())
            })
            .collect();
        missed.iter().for_each(|commands| self.send_missed(engine, name, &record.channels, commands));
        match &mut self.up {
            Some(up) => up.moving.push_back(name),
            None if self.leaves => self.close(engine, name, GOING_AWAY, ""),
            None => {}
        }
    }

    /// Carries out commands for one connection, which has moved before they could reach it.
    fn send_missed<B: Backend>(
        &mut self,
        engine: &mut Engine<'_, B>,
        name: u64,
        channels: &[(Vec<u8>, Vec<u8>)],
        mut commands: &[u8],
    ) {
        while let Ok(Some((command, rest))) = Command::read(commands) {
            match command {
                Command::Publish { kind, channel, payload } => {
                    for (_, envelope) in channels.iter().filter(|(known, _)| known == channel) {
                        match Envelope::read(envelope).filter(|envelope| kind == Kind::Text && envelope.size() > 0) {
                            Some(envelope) => self.send_to_all(engine, &[name], kind, &envelope.around(payload)),
                            None => self.send_to_all(engine, &[name], kind, payload),
                        }
                    }
                }
                Command::CloseAll { channel, code, reason } if channels.iter().any(|(known, _)| known == channel) => {
                    self.close(engine, name, code, str::from_utf8(reason).unwrap_or_default());
                }
                Command::Send { connection, .. } | Command::Close { connection, .. } if connection == name => {
                    self.carry_out(engine, None, &command);
                }
                _ => {}
            }
            commands = rest;
        }
    }
}

#[cfg(test)]
mod tests;
