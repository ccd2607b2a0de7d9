//! Carries out the commands of apps.

use super::{Busy, Connection, FAILED, Form, LARGEST_DATA, Live, MOST_CHANNELS, MOST_ENVELOPES, TRY_LATER, beats};
use oribi_config::WebSockets;
use oribi_engine::Engine;
use oribi_host::{ExchangeId, ReplyError};
use oribi_io::Backend;
use oribi_live::{Command, Envelope, LARGEST_CHANNEL, LARGEST_ENVELOPE, Refusal, Wants};
use oribi_message::{FieldPair, KnownField, RequestHead};
use oribi_websocket::{Deflate, offered_deflate};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

/// The part of a request that asks for a WebSocket.
struct Handshake {
    accept: [u8; 28],
    deflate: Option<Deflate>,
}

/// The request that opens a connection.
pub(in super::super) struct Opening {
    pub(in super::super) exchange: ExchangeId,
    pub(in super::super) app: usize,
    /// The request, as in its slot.
    pub(in super::super) request: Rc<[u8]>,
    pub(in super::super) now: Duration,
}

impl Opening {
    fn connection(self, data: &[u8], form: Form) -> (Connection, Duration) {
        let Self { exchange, app, request, now } = self;
        let early = matches!(form, Form::EventStream).then(Vec::new);
        let (data, events) = (data.to_vec(), VecDeque::new());
        let connection = Connection {
            exchange,
            app,
            request,
            data,
            form,
            events,
            busy: Busy::Opening,
            ended: false,
            stays: false,
            early,
            ends_with: None,
            is_full: false,
            wants: Wants::default(),
            unsent: 0,
            says_farewell: false,
        };
        (connection, now)
    }
}

impl Live<'_> {
    /// Makes the connection of a request a WebSocket, and returns its name. The app is busy with it.
    ///
    /// # Errors
    /// The status for the client, or 0 if it has gone.
    pub(in super::super) fn accept<B: Backend>(
        &mut self,
        engine: &mut Engine<'_, B>,
        settings: &WebSockets,
        head: &RequestHead<'_>,
        opening: Opening,
        (fields, data): (&[u8], &[u8]),
    ) -> Result<u64, u16> {
        let Handshake { accept, deflate } = handshake(settings, head)?;
        if data.len() > LARGEST_DATA {
            too_much(data.len());
            return Err(500);
        }
        let mut all: Vec<FieldPair<'_>> = vec![(b"Sec-WebSocket-Accept", &accept)];
        let extensions = deflate.as_ref().map(Deflate::response);
        if let Some(extensions) = &extensions {
            all.push((b"Sec-WebSocket-Extensions", extensions.as_bytes()));
        }
        if fields.split(|byte| *byte == b'\n').any(|line| !line.trim_ascii().is_empty() && !line.contains(&b':')) {
            log::error!("a WebSocket cannot be accepted: a field of its response has no colon");
            return Err(500);
        }
        all.extend(lines(fields));
        let (exchange, window) = (opening.exchange, deflate.as_ref().map(Deflate::window_bits));
        let (connection, now) = opening.connection(data, Form::WebSocket(window));
        let name = self.add(connection, now);
        match engine.upgrade(exchange, name, &all, deflate.is_some()) {
            Ok(()) => {
                let awaits = self.awaits_old_edge();
                match &mut self.up {
                    Some(up) if engine.can_hand_over(exchange) => up.moving.push_back(name),
                    _ if self.leaves => self.close(engine, name, oribi_engine::GOING_AWAY, ""),
                    // It would miss the messages that the old edge reads.
                    _ if awaits => self.close(engine, name, TRY_LATER, ""),
                    _ => {}
                }
                Ok(name)
            }
            Err(error) => {
                self.connections.remove(&name);
                let ReplyError::Invalid(why) = error else { return Err(0) };
                log::error!("a WebSocket cannot be accepted: {why}");
                Err(500)
            }
        }
    }

    /// Notes that the response to a request stays open as an event stream, and returns its name. The app is busy with it.
    /// `None`: its data is too large.
    pub(in super::super) fn hold(&mut self, opening: Opening, data: &[u8]) -> Option<u64> {
        if data.len() > LARGEST_DATA {
            too_much(data.len());
            return None;
        }
        let (connection, now) = opening.connection(data, Form::EventStream);
        Some(self.add(connection, now))
    }

    /// Sends the events that have waited for the beginning of their response.
    pub(in super::super) fn begin<B: Backend>(&mut self, engine: &mut Engine<'_, B>, name: u64) {
        let Some(connection) = self.connections.get_mut(&name) else { return };
        if let Some(early) = connection.early.take() {
            // An empty piece sends the head.
            let _ = engine.write(connection.exchange, &early);
            if let Some(code) = connection.ends_with {
                self.close(engine, name, code, "");
            }
        }
    }

    /// Keeps a response open that its app has written, unless it has been closed meanwhile.
    pub(in super::super) fn keep_open<B: Backend>(&mut self, engine: &mut Engine<'_, B>, name: u64) {
        let Some(connection) = self.connections.get(&name) else { return };
        let exchange = connection.exchange;
        if !connection.ended && (self.leaves || self.awaits_old_edge()) {
            self.note_end(name, oribi_engine::GOING_AWAY.to_be_bytes().to_vec());
        } else if !connection.ended {
            return;
        }
        // It fails if the client has gone.
        let _ = engine.finish(exchange);
    }

    /// Forgets an event stream whose response has failed.
    pub(in super::super) fn drop_stream(&mut self, name: u64) {
        self.note_end(name, FAILED.to_be_bytes().to_vec());
    }

    /// Carries out a command that opens no connection. `own`: the connection of the request during which the app gives it.
    pub(in super::super) fn carry_out<B: Backend>(
        &mut self,
        engine: &mut Engine<'_, B>,
        own: Option<u64>,
        command: &Command<'_>,
    ) {
        let named = |connection: u64| if connection == 0 { own } else { Some(connection) };
        match *command {
            Command::Send { connection, kind, payload } => match named(connection) {
                Some(name) => self.send_to(engine, name, &Command::Send { connection: name, kind, payload }),
                None => no_connection("send a message to"),
            },
            Command::Close { connection, code, reason } => match named(connection) {
                Some(name) => self.send_to(engine, name, &Command::Close { connection: name, code, reason }),
                None => no_connection("close"),
            },
            Command::Publish { .. } | Command::CloseAll { .. } => {
                let mut bytes = Vec::new();
                command.write(&mut bytes);
                if !self.pass_up(&bytes) {
                    if self.awaits_old_edge() {
                        self.posts.send(self.edge, &bytes);
                    } else {
                        self.carry_out_all(engine, &bytes);
                    }
                    self.posts.send_to_all(&bytes);
                }
            }
            Command::Subscribe(channel) => self.subscribe(own, channel, Envelope::default()),
            Command::SubscribeWith { channel, envelope } => self.subscribe(own, channel, envelope),
            Command::Unsubscribe(channel) => self.unsubscribe(own, channel, Envelope::default()),
            Command::UnsubscribeWith { channel, envelope } => self.unsubscribe(own, channel, envelope),
            Command::Beat { interval, text } => {
                self.set_beat(own, (Duration::from_millis(interval.into()), text), engine.now());
            }
            Command::Data(data) => {
                let Some(connection) = own.and_then(|name| self.connections.get_mut(&name)) else {
                    return no_connection("keep data for");
                };
                if data.len() > LARGEST_DATA {
                    return too_much(data.len());
                }
                connection.data = data.to_vec();
            }
            Command::Want(wants) => {
                let Some(connection) = own.and_then(|name| self.connections.get_mut(&name)) else {
                    return no_connection("have events of");
                };
                connection.wants = wants;
                if !wants.drained {
                    connection.unsent = 0;
                }
            }
            Command::Accept { .. } | Command::Hold { .. } => {}
        }
    }

    /// Carries out a command for one connection, wherever that is.
    pub(super) fn send_to<B: Backend>(&mut self, engine: &mut Engine<'_, B>, name: u64, command: &Command<'_>) {
        // Between edges, a command must have the name. So one of a worker is written only if it leaves this edge.
        let is_elsewhere = || self.down.is_some() || self.posts.has_left_box();
        if self.up.is_none() && self.is_here(name) && (self.connections.contains_key(&name) || !is_elsewhere()) {
            return self.carry_out_here(engine, name, command);
        }
        let mut bytes = Vec::new();
        command.write(&mut bytes);
        if self.pass_up(&bytes) {
        } else if self.is_here(name) && !self.posts.has_left_box() && !self.awaits_old_edge() {
            self.pass_down(&bytes);
        } else {
            self.posts.send((name >> 48) as usize, &bytes);
        }
    }

    fn carry_out_here<B: Backend>(&mut self, engine: &mut Engine<'_, B>, name: u64, command: &Command<'_>) {
        match *command {
            Command::Send { kind, payload, .. } => self.send(engine, name, kind, payload),
            Command::Close { code, reason, .. } => self.close(engine, name, code, str::from_utf8(reason).unwrap_or_default()),
            _ => {}
        }
    }

    /// Carries out commands that another process has passed on, or that are for all. Returns the number of messages that were sent.
    pub(super) fn carry_out_all<B: Backend>(&mut self, engine: &mut Engine<'_, B>, bytes: &[u8]) -> usize {
        let (mut sent, mut unread) = (0, bytes);
        while let Ok(Some((command, rest))) = Command::read(unread) {
            let one = &unread[..unread.len() - rest.len()];
            unread = rest;
            match command {
                Command::Publish { kind, channel, payload } => sent += self.publish(engine, channel, kind, payload),
                Command::CloseAll { channel, code, reason } => {
                    self.close_all(engine, channel, code, str::from_utf8(reason).unwrap_or_default());
                }
                Command::Send { connection, .. } | Command::Close { connection, .. } if self.is_here(connection) => {
                    if self.connections.contains_key(&connection) {
                        self.carry_out_here(engine, connection, &command);
                        continue;
                    }
                }
                _ => continue,
            }
            self.pass_down(one);
        }
        sent
    }

    fn subscribe(&mut self, own: Option<u64>, channel: &[u8], envelope: Envelope<'_>) {
        let Some(name) = own else { return no_connection("subscribe") };
        if self.connections.get(&name).is_none_or(|connection| connection.ended) {
            return;
        }
        if channel.len() > LARGEST_CHANNEL {
            return log::error!("the name of a channel has more than {LARGEST_CHANNEL} bytes");
        }
        if envelope.size() > LARGEST_ENVELOPE {
            return log::error!("an envelope of messages has more than {LARGEST_ENVELOPE} bytes");
        }
        if self.channels.count_of(name) >= MOST_CHANNELS {
            return self.refuse_channel(name, format_args!("{MOST_CHANNELS} channels"));
        }
        if self.channels.envelopes_of(name) + envelope.size() > MOST_ENVELOPES {
            return self.refuse_channel(name, format_args!("channels with {MOST_ENVELOPES} bytes of envelopes"));
        }
        self.channels.subscribe(name, channel, envelope);
    }

    fn unsubscribe(&mut self, own: Option<u64>, channel: &[u8], envelope: Envelope<'_>) {
        own.into_iter().for_each(|name| self.channels.unsubscribe(name, channel, envelope));
    }

    /// Sends a text to a connection again and again, or ends that.
    fn set_beat(&mut self, own: Option<u64>, (interval, text): (Duration, &[u8]), now: Duration) {
        let Some(name) = own else { return no_connection("beat on") };
        if interval.is_zero() || self.connections.get(&name).is_none_or(|connection| connection.ended) {
            return self.beats.stop(name);
        }
        if interval < beats::SHORTEST || text.len() > beats::LARGEST {
            let (shortest, largest) = (beats::SHORTEST, beats::LARGEST);
            return log::error!("a text may be sent again after {shortest:?} or more, and may have {largest} bytes");
        }
        self.beats.start(name, interval, text, now);
    }

    /// Logs, once for each connection, that it has too many channels.
    fn refuse_channel(&mut self, name: u64, most: std::fmt::Arguments<'_>) {
        let Some(connection) = self.connections.get_mut(&name) else { return };
        if !std::mem::replace(&mut connection.is_full, true) {
            log::error!("a connection may subscribe to {most}, and not to another one");
        }
    }

    fn is_here(&self, name: u64) -> bool {
        name >> 48 == self.edge as u64
    }
}

fn too_much(size: usize) {
    log::error!("the data of a connection may have {LARGEST_DATA} bytes, not {size}");
}

fn no_connection(order: &str) {
    log::error!("an app wants to {order} its connection, and the request has none that stays open");
}

/// Checks a handshake, and whether its page may open a WebSocket.
///
/// # Errors
/// The status for the client.
fn handshake(settings: &WebSockets, head: &RequestHead<'_>) -> Result<Handshake, u16> {
    let accept = oribi_live::handshake(head).map_err(|refusal| match refusal {
        Refusal::NotAsked => {
            log::error!("a WebSocket cannot be accepted: its request does not ask for one");
            500
        }
        Refusal::Version => 426,
        Refusal::Key => 400u16,
    })?;
    let all = |wanted| head.fields().filter(move |(known, ..)| *known == Some(wanted)).map(|(.., value)| value);
    let origin = head.field(KnownField::Origin);
    let is_allowed = settings.origins.allow(origin, head.field(KnownField::Host));
    if !is_allowed || all(KnownField::Origin).count() > 1 {
        let origin = String::from_utf8_lossy(origin.unwrap_or_default()).escape_debug().take(200).collect::<String>();
        log::warn!("a page of {origin} may not open a WebSocket: its client gets a 403 (--websocket-origin)");
        return Err(403);
    }
    let offers = all(KnownField::SecWebsocketExtensions).collect::<Vec<_>>().join(&b","[..]);
    Ok(Handshake { accept, deflate: offered_deflate(&offers).filter(|_| settings.compression) })
}

/// The fields of an app: lines that end with CR LF. Those of the handshake are the edge's.
fn lines(fields: &[u8]) -> impl Iterator<Item = FieldPair<'_>> {
    fields.split(|byte| *byte == b'\n').filter_map(|line| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        let own: [&[u8]; 6] = [
            b"sec-websocket-accept",
            b"sec-websocket-extensions",
            b"upgrade",
            b"transfer-encoding",
            b"content-length",
            b"content-type",
        ];
        (!own.iter().any(|own| own.eq_ignore_ascii_case(name))).then_some((name, value))
    })
}
