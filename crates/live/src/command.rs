//! The commands of apps, as bytes between processes: a byte for the command, four for the size of its body, and the body. All
//! numbers are big-endian, because hosts write them by `pack`.
//!
//! | byte | command | body |
//! |---|---|---|
//! | 1 | accept a WebSocket | size of the fields (4), fields as lines, data |
//! | 2 | send | connection (8; 0: this one), kind (1), payload |
//! | 3 | close | connection (8; 0: this one), code (2), reason |
//! | 4 | subscribe | channel |
//! | 5 | unsubscribe | channel |
//! | 6 | publish | kind (1), size of the channel (2), channel, payload |
//! | 7 | set the data | data |
//! | 8 | hold an event stream | data |
//! | 9 | subscribe with an envelope | size of the channel (2), channel, size of the prefix (2), prefix, suffix |
//! | 10 | unsubscribe with an envelope | the same |
//! | 11 | close all subscribers | code (2), size of the channel (2), channel, reason |
//! | 12 | beat | interval in milliseconds (4; 0: no more), text |
//! | 13 | want events | sum (1) of 1: drained, 2: shutdown |

use crate::Envelope;

/// The most bytes of the body of a command: a message of 16 MiB, the largest that a client may be allowed to send, and the parts
/// before it.
pub const LARGEST_COMMAND: usize = (16 << 20) + (2 << 10);

/// The bytes before a body.
const PREFIX: usize = 5;

/// Bytes that are no command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("these bytes are no command for a connection")
    }
}

impl std::error::Error for Malformed {}

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// UTF-8. An event stream gets it as the data of an event.
    Text = 1,
    /// Any bytes, for WebSockets only.
    Binary = 2,
    /// Lines of an event (fields `event`, `id`, `data`), for event streams only.
    Event = 3,
}

impl Kind {
    const fn of(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Text),
            2 => Some(Self::Binary),
            3 => Some(Self::Event),
            _ => None,
        }
    }
}

/// The events that only connections which want them have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// [`Drained`](crate::event::EventKind::Drained).
    pub drained: bool,
    /// [`Shutdown`](crate::event::EventKind::Shutdown).
    pub shutdown: bool,
}

impl Wants {
    /// As a byte.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.drained as u8 | (self.shutdown as u8) << 1
    }

    /// Reads such a byte; `None` if there is no such event.
    #[must_use]
    pub const fn of(bits: u8) -> Option<Self> {
        if bits > 3 { None } else { Some(Self { drained: bits & 1 > 0, shutdown: bits & 2 > 0 }) }
    }
}

/// A command of an app. `connection` is the name of a connection; 0: the connection of the request during which the app gives the
/// command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// Makes the connection of the request a WebSocket.
    Accept {
        /// More fields for the response: lines that end with CR LF.
        fields: &'a [u8],
        /// Bytes that come with every event of the connection.
        data: &'a [u8],
    },
    /// Sends a message.
    Send {
        /// The connection.
        connection: u64,
        /// Its kind.
        kind: Kind,
        /// Its bytes.
        payload: &'a [u8],
    },
    /// Closes a connection, after all messages before.
    Close {
        /// The connection.
        connection: u64,
        /// The status code (RFC 6455, section 7.4); an event stream has none.
        code: u16,
        /// UTF-8, at most 123 bytes.
        reason: &'a [u8],
    },
    /// Makes the connection of the request get the messages of a channel.
    Subscribe(&'a [u8]),
    /// Takes that back.
    Unsubscribe(&'a [u8]),
    /// Sends a message to all connections that have subscribed to a channel.
    Publish {
        /// Its kind.
        kind: Kind,
        /// The channel.
        channel: &'a [u8],
        /// Its bytes.
        payload: &'a [u8],
    },
    /// Replaces the bytes that come with every event of the connection.
    Data(&'a [u8]),
    /// Keeps the response open when the app has ended it, as a stream of events.
    Hold {
        /// Bytes that come with every event of the connection.
        data: &'a [u8],
    },
    /// Makes the connection of the request get the messages of a channel, those of text in an envelope. A channel with another
    /// envelope is another subscription.
    SubscribeWith {
        /// The channel.
        channel: &'a [u8],
        /// The envelope.
        envelope: Envelope<'a>,
    },
    /// Takes that back.
    UnsubscribeWith {
        /// The channel.
        channel: &'a [u8],
        /// The envelope.
        envelope: Envelope<'a>,
    },
    /// Closes all connections that have subscribed to a channel, after all messages before.
    CloseAll {
        /// The channel.
        channel: &'a [u8],
        /// The status code (RFC 6455, section 7.4).
        code: u16,
        /// UTF-8, at most 123 bytes.
        reason: &'a [u8],
    },
    /// Sends a text to the connection of the request again and again; a later beat takes the place of this one.
    Beat {
        /// The time between two, in milliseconds; 0: there are no more.
        interval: u32,
        /// The text.
        text: &'a [u8],
    },
    /// Makes the connection of the request have these events, and no others that must be wanted.
    Want(Wants),
}

impl<'a> Command<'a> {
    /// Appends the command to `bytes`.
    pub fn write(&self, bytes: &mut Vec<u8>) {
        let start = bytes.len();
        bytes.extend_from_slice(&[0; PREFIX]);
        let tag = match *self {
            Self::Accept { fields, data } => {
                bytes.extend_from_slice(&(fields.len() as u32).to_be_bytes());
                bytes.extend_from_slice(fields);
                bytes.extend_from_slice(data);
                1
            }
            Self::Send { connection, kind, payload } => {
                bytes.extend_from_slice(&connection.to_be_bytes());
                bytes.push(kind as u8);
                bytes.extend_from_slice(payload);
                2
            }
            Self::Close { connection, code, reason } => {
                bytes.extend_from_slice(&connection.to_be_bytes());
                bytes.extend_from_slice(&code.to_be_bytes());
                bytes.extend_from_slice(reason);
                3
            }
            Self::Subscribe(channel) => {
                bytes.extend_from_slice(channel);
                4
            }
            Self::Unsubscribe(channel) => {
                bytes.extend_from_slice(channel);
                5
            }
            Self::Publish { kind, channel, payload } => {
                bytes.push(kind as u8);
                write_sized(channel, bytes);
                bytes.extend_from_slice(payload);
                6
            }
            Self::Data(data) => {
                bytes.extend_from_slice(data);
                7
            }
            Self::Hold { data } => {
                bytes.extend_from_slice(data);
                8
            }
            Self::SubscribeWith { channel, envelope } => {
                write_sized(channel, bytes);
                envelope.write(bytes);
                9
            }
            Self::UnsubscribeWith { channel, envelope } => {
                write_sized(channel, bytes);
                envelope.write(bytes);
                10
            }
            Self::CloseAll { channel, code, reason } => {
                bytes.extend_from_slice(&code.to_be_bytes());
                write_sized(channel, bytes);
                bytes.extend_from_slice(reason);
                11
            }
            Self::Beat { interval, text } => {
                bytes.extend_from_slice(&interval.to_be_bytes());
                bytes.extend_from_slice(text);
                12
            }
            Self::Want(wants) => {
                bytes.push(wants.bits());
                13
            }
        };
        let size = (bytes.len() - start - PREFIX) as u32;
        bytes[start] = tag;
        bytes[start + 1..start + PREFIX].copy_from_slice(&size.to_be_bytes());
    }

    /// Reads the first command, and returns it with the bytes after it; `None` if it is not whole.
    ///
    /// # Errors
    /// The bytes are no command, whatever follows.
    pub fn read(bytes: &'a [u8]) -> Result<Option<(Self, &'a [u8])>, Malformed> {
        let Some((&[tag, a, b, c, d], rest)) = bytes.split_first_chunk::<PREFIX>() else { return Ok(None) };
        let size = u32::from_be_bytes([a, b, c, d]) as usize;
        if !(1..=13).contains(&tag) || size > LARGEST_COMMAND {
            return Err(Malformed);
        }
        let Some((body, rest)) = rest.split_at_checked(size) else { return Ok(None) };
        Ok(Some((Self::parse(tag, body).ok_or(Malformed)?, rest)))
    }

    fn parse(tag: u8, body: &'a [u8]) -> Option<Self> {
        Some(match tag {
            1 => {
                let (size, rest) = body.split_first_chunk::<4>()?;
                let (fields, data) = rest.split_at_checked(u32::from_be_bytes(*size) as usize)?;
                Self::Accept { fields, data }
            }
            2 => {
                let (connection, rest) = body.split_first_chunk::<8>()?;
                let (&kind, payload) = rest.split_first()?;
                Self::Send { connection: u64::from_be_bytes(*connection), kind: Kind::of(kind)?, payload }
            }
            3 => {
                let (connection, rest) = body.split_first_chunk::<8>()?;
                let (code, reason) = rest.split_first_chunk::<2>()?;
                Self::Close { connection: u64::from_be_bytes(*connection), code: u16::from_be_bytes(*code), reason }
            }
            4 => Self::Subscribe(body),
            5 => Self::Unsubscribe(body),
            6 => {
                let (&kind, rest) = body.split_first()?;
                let (channel, payload) = read_sized(rest)?;
                Self::Publish { kind: Kind::of(kind)?, channel, payload }
            }
            7 => Self::Data(body),
            8 => Self::Hold { data: body },
            9 | 10 => {
                let (channel, rest) = read_sized(body)?;
                let envelope = Envelope::read(rest)?;
                if tag == 9 { Self::SubscribeWith { channel, envelope } } else { Self::UnsubscribeWith { channel, envelope } }
            }
            11 => {
                let (code, rest) = body.split_first_chunk::<2>()?;
                let (channel, reason) = read_sized(rest)?;
                Self::CloseAll { channel, code: u16::from_be_bytes(*code), reason }
            }
            12 => {
                let (interval, text) = body.split_first_chunk::<4>()?;
                Self::Beat { interval: u32::from_be_bytes(*interval), text }
            }
            13 => {
                let &[bits] = body else { return None };
                Self::Want(Wants::of(bits)?)
            }
            _ => return None,
        })
    }
}

/// Whether these bytes are a command for all subscribers of a channel, and for no connection of a request.
#[must_use]
pub fn are_for_all(commands: &[u8]) -> bool {
    matches!(Command::read(commands), Ok(Some((Command::Publish { .. } | Command::CloseAll { .. }, []))))
}

/// Whether these bytes are commands that an edge can carry out outside of a request: none is for the connection of the request.
#[must_use]
pub fn need_no_request(mut commands: &[u8]) -> bool {
    while let Ok(Some((command, rest))) = Command::read(commands) {
        match command {
            Command::Publish { .. } | Command::CloseAll { .. } => {}
            Command::Send { connection, .. } | Command::Close { connection, .. } if connection != 0 => {}
            _ => return false,
        }
        commands = rest;
    }
    commands.is_empty()
}

/// Appends the size of a part in two bytes, and the part.
fn write_sized(part: &[u8], bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&(part.len() as u16).to_be_bytes());
    bytes.extend_from_slice(part);
}

/// Splits such a part from the bytes after it.
fn read_sized(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (size, rest) = bytes.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*size)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Command<'_>; 15] = [
        Command::Accept { fields: b"Sec-WebSocket-Protocol: chat\r\n", data: b"of the app" },
        Command::Send { connection: 0, kind: Kind::Text, payload: b"hello" },
        Command::Send { connection: u64::MAX, kind: Kind::Binary, payload: b"" },
        Command::Close { connection: 3, code: 1000, reason: b"done" },
        Command::Subscribe(b"news"),
        Command::Unsubscribe(b""),
        Command::Publish { kind: Kind::Event, channel: b"news", payload: b"data: 1\n" },
        Command::Data(b"\0"),
        Command::Hold { data: b"x" },
        Command::SubscribeWith { channel: b"news", envelope: Envelope { prefix: b"{", suffix: b"}" } },
        Command::UnsubscribeWith { channel: b"", envelope: Envelope { prefix: b"", suffix: b"" } },
        Command::CloseAll { channel: b"ann", code: 1000, reason: b"done" },
        Command::Beat { interval: 3000, text: b"beat" },
        Command::Want(Wants { drained: true, shutdown: false }),
        Command::Want(Wants { drained: false, shutdown: true }),
    ];

    #[test]
    fn commands_are_read_as_they_were_written_once_they_are_whole() {
        let mut bytes = Vec::new();
        ALL.iter().for_each(|command| command.write(&mut bytes));
        let mut rest = &bytes[..];
        for command in ALL {
            let mut alone = Vec::new();
            command.write(&mut alone);
            for size in 0..alone.len() {
                assert_eq!(Command::read(&rest[..size]), Ok(None), "{command:?} of {size} bytes");
            }
            let (read, after) = Command::read(rest).expect("a command").expect("a whole one");
            assert_eq!(read, command);
            rest = after;
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn outside_of_a_request_there_is_no_connection_of_its_own() {
        let bytes = |command: &Command<'_>| {
            let mut bytes = Vec::new();
            command.write(&mut bytes);
            bytes
        };
        let outside = ALL.map(|command| need_no_request(&bytes(&command)));
        let expected = ALL.map(|command| match command {
            Command::Send { connection, .. } | Command::Close { connection, .. } => connection != 0,
            command => matches!(command, Command::Publish { .. } | Command::CloseAll { .. }),
        });
        assert_eq!(outside, expected);
        let publish = bytes(&Command::Publish { kind: Kind::Text, channel: b"news", payload: b"hello" });
        assert!(are_for_all(&publish) && need_no_request(&[&publish[..], &publish].concat()));
        assert!(!are_for_all(&bytes(&Command::Data(b"x"))) && !are_for_all(&[&publish[..], &publish].concat()));
        assert!(!need_no_request(b"\x06") && !need_no_request(&[&publish[..], b"\x06"].concat()));
    }

    #[test]
    fn other_bytes_are_refused() {
        for bytes in [
            &b"\0\0\0\0\0"[..],
            b"\x0e\0\0\0\0",
            b"\x04\xff\0\0\0",
            // Bodies that are too short for their parts.
            b"\x01\0\0\0\x03abc",
            b"\x01\0\0\0\x05\0\0\0\x02x",
            b"\x02\0\0\0\x08\0\0\0\0\0\0\0\0",
            b"\x02\0\0\0\x09\0\0\0\0\0\0\0\0\x04",
            b"\x03\0\0\0\x09\0\0\0\0\0\0\0\0\0",
            b"\x06\0\0\0\x04\x01\0\x02x",
            b"\x06\0\0\0\x03\x00\0\0",
            b"\x09\0\0\0\x04\0\x01a\0",
            b"\x0a\0\0\0\x05\0\x01a\0\x01",
            b"\x0b\0\0\0\x03\0\0\0",
            b"\x0c\0\0\0\x03\0\0\0",
            b"\x0d\0\0\0\0",
            b"\x0d\0\0\0\x02\x01\x01",
            // An event that there is not.
            b"\x0d\0\0\0\x01\x04",
        ] {
            assert_eq!(Command::read(bytes), Err(Malformed), "{bytes:?}");
        }
    }
}
