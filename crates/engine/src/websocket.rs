//! One WebSocket: its reader, and the state of its closing handshake.

use oribi_live::event::EventKind;
use oribi_websocket::{CLOSE_PAYLOAD, Fault, Inflater, Kind, Limits, Message, Reader, close, frame};
use std::collections::VecDeque;

/// The code for a client that has left without a word (RFC 6455, section 7.1.5). No frame has it.
pub const LEFT: u16 = 1006;

/// The code of a server that goes away.
pub const GOING_AWAY: u16 = 1001;

/// The code for a client that gave none. No frame has it.
const NO_CODE: u16 = 1005;

/// The looks without a byte in between after which a client is pinged, and after which it is cut off.
const PINGED_AT: u8 = 2;
const CUT_AT: u8 = 4;

/// The consequence of the silence of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Silence {
    Nothing,
    /// These bytes are sent: a ping.
    Ping([u8; 2]),
    /// The client has gone.
    Cut,
}

/// An event of a WebSocket.
#[derive(Debug)]
pub struct SocketEvent {
    /// The name of the connection: see [`crate::Engine::upgrade`].
    pub connection: u64,
    /// Its kind.
    pub kind: EventKind,
    /// The message; or the code in two big-endian bytes, and the reason.
    pub payload: Vec<u8>,
}

/// The state of a connection that is a WebSocket.
#[derive(Debug)]
pub(super) struct WebSocket {
    connection: u64,
    reader: Reader,
    /// The messages that wait for the app.
    pub(super) unhandled: u16,
    /// Whether nothing is read because that are too many.
    pub(super) is_paused: bool,
    /// The looks at the connection since its last byte has arrived.
    looks: u8,
    /// The code and the reason of the first close, in whichever direction.
    closing: Option<(u16, Box<str>)>,
    /// The mistake of the client that ends the connection when the app has handled the messages before it.
    fault: Option<Fault>,
    /// The bytes of a message that has partly arrived.
    pub(super) held: usize,
}

/// The parts of an engine that a WebSocket needs to read.
pub(super) struct Reading<'a> {
    pub(super) limits: &'a Limits,
    pub(super) inflater: &'a mut Inflater,
    pub(super) events: &'a mut VecDeque<SocketEvent>,
    pub(super) waiting: &'a mut usize,
    /// The most messages that may wait for the app.
    pub(super) unhandled: u16,
    /// Whether pings are answered: not while much output waits for the client.
    pub(super) answers: bool,
    pub(super) output: &'a mut Vec<u8>,
}

/// The consequence of a message that the app has handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handled {
    /// More may be read.
    GoesOn { was_paused: bool },
    /// Nothing more is read, and the app has other messages to handle.
    Waits,
    /// The connection ends because of this.
    Fails(Fault),
}

/// The outcome of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// All bytes were read.
    All,
    /// The app must handle messages before more are read.
    Paused,
    /// The closing handshake is complete.
    Closed,
}

impl WebSocket {
    pub(super) fn new(connection: u64, deflates: bool) -> Self {
        let reader = Reader::new(deflates);
        Self { connection, reader, unhandled: 0, is_paused: false, looks: 0, closing: None, fault: None, held: 0 }
    }

    /// The parts of messages that have arrived, and the looks since the last byte. `None`: it closes.
    pub(super) fn parts(&self) -> Option<(Vec<u8>, u8)> {
        if self.closing.is_some() { None } else { Some((self.reader.snapshot()?, self.looks)) }
    }

    /// The WebSocket with these [`WebSocket::parts`].
    pub(super) fn restored(connection: u64, deflates: bool, reader: &[u8], looks: u8) -> Option<Self> {
        let reader = Reader::restored(deflates, reader)?;
        let held = reader.held();
        Some(Self { reader, looks, held, ..Self::new(connection, deflates) })
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    /// Notes that the app has handled a message.
    pub(super) fn message_handled(&mut self) -> Handled {
        self.unhandled -= 1;
        match self.fault {
            Some(_) if self.unhandled > 0 => Handled::Waits,
            Some(fault) => Handled::Fails(fault),
            None => Handled::GoesOn { was_paused: std::mem::take(&mut self.is_paused) },
        }
    }

    /// Writes a close, which is the first one.
    pub(super) fn close(&mut self, code: u16, reason: &str, output: &mut Vec<u8>) {
        let mut payload = [0; CLOSE_PAYLOAD];
        let size = if code == NO_CODE { 0 } else { close(code, reason, &mut payload) };
        write(Kind::Close, &payload[..size], output);
        self.closing = Some((code, reason.into()));
    }

    /// Looks at the connection, which happens at regular intervals.
    pub(super) fn look(&mut self) -> Silence {
        if self.is_paused {
            // A client that is not read because its app is busy may have sent something: its silence begins when it is read again.
            self.looks = 0;
            return Silence::Nothing;
        }
        self.looks = self.looks.saturating_add(1);
        match self.looks {
            PINGED_AT if self.closing.is_none() => Silence::Ping([0x89, 0]),
            CUT_AT.. => Silence::Cut,
            _ => Silence::Nothing,
        }
    }

    /// The event of its end.
    pub(super) fn end(&self) -> SocketEvent {
        let (code, reason) = self.closing.as_ref().map_or((LEFT, ""), |(code, reason)| (*code, reason));
        let payload = [&code.to_be_bytes()[..], reason.as_bytes()].concat();
        SocketEvent { connection: self.connection, kind: EventKind::Close, payload }
    }

    /// Reads `bytes`; returns how many, and the outcome.
    pub(super) fn read(&mut self, bytes: &mut [u8], reading: Reading<'_>) -> (usize, Read) {
        let Reading { limits, inflater, events, waiting, unhandled: most, answers, output } = reading;
        let Self { connection, reader, unhandled, looks, closing, .. } = self;
        *looks = 0;
        let size = bytes.len();
        let mut closed = None;
        let mut is_full = false;
        let mut take = |message: Message<'_>| {
            let (kind, payload) = match message {
                Message::Text(text) => (EventKind::Text, text.as_bytes()),
                Message::Binary(bytes) => (EventKind::Binary, bytes),
                Message::Ping(payload) => {
                    if closing.is_none() && answers {
                        write(Kind::Pong, payload, output);
                    }
                    return true;
                }
                Message::Pong(_) => return true,
                Message::Close { code, reason } => {
                    closed = Some((code, Box::<str>::from(reason)));
                    return false;
                }
            };
            // Messages behind a close of this side are for nobody.
            if closing.is_none() {
                *unhandled += 1;
                *waiting += payload.len();
                events.push_back(SocketEvent { connection: *connection, kind, payload: payload.to_vec() });
                is_full = *unhandled >= most;
            }
            !is_full
        };
        let read = reader.read(bytes, limits, inflater, &mut take);
        self.held = self.reader.held();
        match (read, closed) {
            (Ok(_), Some((code, reason))) => {
                if self.closing.is_none() {
                    self.close(code, &reason, output);
                }
                (size, Read::Closed)
            }
            (Ok(consumed), None) => {
                self.is_paused = is_full;
                (consumed, if is_full { Read::Paused } else { Read::All })
            }
            (Err(fault), _) => {
                let Fault { code, reason } = fault;
                if self.fault.is_none() {
                    log::debug!("a client of a WebSocket broke a rule: {reason}");
                }
                if self.closing.is_none() && self.unhandled > 0 {
                    // The messages before it are valid, and the client gets their answers.
                    (self.fault, self.is_paused) = (Some(fault), true);
                    return (size, Read::Paused);
                }
                if self.closing.is_none() {
                    self.close(code, reason, output);
                }
                (size, Read::Closed)
            }
        }
    }
}

fn write(kind: Kind, payload: &[u8], output: &mut Vec<u8>) {
    let mut head = [0; 10];
    let length = frame(kind, payload.len(), false, &mut head);
    output.extend_from_slice(&head[..length]);
    output.extend_from_slice(payload);
}
