//! A message as Redis carries it. The name of its channel there is that of the channel here, after a prefix.
//!
//! A message of a server begins with a mark, the origin of the message, and a byte for its command; all others are plain: texts of
//! other programs.
//!
//! | part | bytes |
//! |---|---|
//! | mark: 0, `oribi`, 1 | 7 |
//! | origin | 16 |
//! | kind of a published message (1 text, 2 bytes, 3 event), and its payload | 1, rest |
//! | or 11, the code that closes all subscribers, and the reason | 1, 2, rest |

use oribi_live::{Command, Kind, LARGEST_CHANNEL};

/// The beginning of a message of a server. No text begins with it.
pub(crate) const MARK: &[u8; 7] = b"\0oribi\x01";

/// The byte for the command that closes all subscribers.
const CLOSE_ALL: u8 = 11;

/// The most bytes of a message, without the parts before its payload.
const LARGEST: usize = 16 << 20;

/// The number of a server, which all of its relays have, one after the other. No two are the same.
pub type Origin = [u8; 16];

/// The parts of a command that publishes or closes all: the name of its channel, and its message in three parts.
pub(crate) fn parts<'a>(command: &Command<'a>) -> Option<(&'a [u8], Vec<u8>, &'a [u8])> {
    match *command {
        Command::Publish { kind, channel, payload } => Some((channel, vec![kind as u8], payload)),
        Command::CloseAll { channel, code, reason } => {
            let [high, low] = code.to_be_bytes();
            Some((channel, vec![CLOSE_ALL, high, low], reason))
        }
        _ => None,
    }
}

/// The bytes before those parts.
pub(crate) fn beginning(origin: &Origin) -> [&[u8]; 2] {
    [MARK, origin]
}

/// A message that Redis has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received<'a> {
    /// One of others, for all who have subscribed.
    Command(Command<'a>),
    /// One of this server, which has come back.
    Own,
    /// One that no server sends, or that is too large.
    Unfit,
}

impl<'a> Received<'a> {
    /// Reads a message. `channel` is the name of its channel without the prefix.
    #[must_use]
    pub fn read(channel: &'a [u8], message: &'a [u8], own: &Origin) -> Self {
        if channel.len() > LARGEST_CHANNEL {
            return Self::Unfit;
        }
        let Some(marked) = message.strip_prefix(MARK) else {
            // An edge sends a text that is none as bytes.
            return Self::of_payload(Kind::Text, channel, message);
        };
        match marked.split_first_chunk::<16>() {
            Some((origin, _)) if origin == own => Self::Own,
            Some((_, [CLOSE_ALL, high, low, reason @ ..])) if reason.len() <= 123 => {
                Self::Command(Command::CloseAll { channel, code: u16::from_be_bytes([*high, *low]), reason })
            }
            Some((_, [1, payload @ ..])) => Self::of_payload(Kind::Text, channel, payload),
            Some((_, [2, payload @ ..])) => Self::of_payload(Kind::Binary, channel, payload),
            Some((_, [3, payload @ ..])) => Self::of_payload(Kind::Event, channel, payload),
            _ => Self::Unfit,
        }
    }

    fn of_payload(kind: Kind, channel: &'a [u8], payload: &'a [u8]) -> Self {
        if payload.len() > LARGEST { Self::Unfit } else { Self::Command(Command::Publish { kind, channel, payload }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Origin = [7; 16];

    fn sent(command: &Command<'_>, origin: &Origin) -> Vec<u8> {
        let (_, head, payload) = parts(command).expect("a command for all");
        let [mark, origin] = beginning(origin);
        [mark, origin, &head, payload].concat()
    }

    #[test]
    fn others_read_what_was_sent_and_the_sender_does_not() {
        for command in [
            Command::Publish { kind: Kind::Text, channel: b"news", payload: "hëllo".as_bytes() },
            Command::Publish { kind: Kind::Binary, channel: b"", payload: b"\0oribi\x01" },
            Command::Publish { kind: Kind::Event, channel: b"news", payload: b"id: 7\ndata: x" },
            Command::CloseAll { channel: b"ann", code: 1000, reason: b"done" },
        ] {
            let (channel, ..) = parts(&command).expect("a command for all");
            let message = sent(&command, &OWN);
            assert_eq!(Received::read(channel, &message, &[8; 16]), Received::Command(command));
            assert_eq!(Received::read(channel, &message, &OWN), Received::Own);
        }
        assert_eq!(parts(&Command::Send { connection: 1, kind: Kind::Text, payload: b"" }), None);
    }

    #[test]
    fn messages_of_other_programs_are_texts() {
        for payload in [&b"hello"[..], b"", b"\0", b"\0oribi", b"\xff"] {
            let text = Command::Publish { kind: Kind::Text, channel: b"chat", payload };
            assert_eq!(Received::read(b"chat", payload, &OWN), Received::Command(text));
        }
        let long = [b'x'; LARGEST_CHANNEL + 1];
        assert_eq!(Received::read(&long, b"", &OWN), Received::Unfit);
        assert_eq!(Received::read(b"", &vec![b'x'; LARGEST + 1], &OWN), Received::Unfit);
    }

    #[test]
    fn broken_messages_of_servers_are_dropped() {
        let [mark, origin] = beginning(&[8; 16]);
        let begun = [mark, origin].concat();
        for rest in [&b""[..], b"\x04x", b"\x0b", b"\x0b\x03", &[11; 3 + 124]] {
            assert_eq!(Received::read(b"chat", &[&begun, rest].concat(), &OWN), Received::Unfit, "{rest:?}");
        }
        assert_eq!(Received::read(b"chat", &begun[..20], &OWN), Received::Unfit);
    }
}
