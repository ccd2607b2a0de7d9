//! Messages between an old edge and the next one about connections that stay open, in pieces, because a message of the socket between
//! them has a bounded size. Both edges send them.

use super::line::{BRIDGE_MAGIC, Room, room, send_with_descriptor};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Behind its magic bytes, a byte says whether a piece is the last one of its message, which has the descriptor, and one says the kind
/// of the message.
const HEADER: usize = BRIDGE_MAGIC.len() + 2;

/// The most bytes of a piece.
const PIECE: usize = 60 << 10;

/// The most bytes of a message that arrives.
const LARGEST_MESSAGE: usize = 256 << 20;

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BridgeKind {
    /// The next edge reads this version: [`super::LIVE_VERSION`] and the number of edges, in two bytes each.
    Hello = 1,
    /// A part of commands that has arrived at the old edge: the number of their edge in two bytes, and the part.
    Arriving = 2,
    /// A piece that waits for the box of an edge: its number in two bytes, and the piece.
    Waiting = 3,
    /// The old edge reads its box no longer: from now on the next one does. Has the next name of a connection.
    Begin = 4,
    /// The next edge reads the box, and accepts connections.
    Accepting = 5,
    /// A connection, with its descriptor: a [`super::LiveRecord`].
    Connection = 6,
    /// Commands. Those of the old edge are carried out by the next one; those of the next edge have been carried out there, and are for
    /// the connections that the old one still has.
    Commands = 7,
    /// The number of messages with commands that the old edge has carried out, in eight bytes.
    Seen = 8,
    /// The old edge has no connection that stays open, and needs no more messages.
    Done = 9,
}

impl BridgeKind {
    const ALL: [Self; 9] = [
        Self::Hello,
        Self::Arriving,
        Self::Waiting,
        Self::Begin,
        Self::Accepting,
        Self::Connection,
        Self::Commands,
        Self::Seen,
        Self::Done,
    ];
}

/// A message that has arrived.
#[derive(Debug)]
pub struct BridgeMessage {
    /// Its kind.
    pub kind: BridgeKind,
    /// Its content.
    pub body: Vec<u8>,
    /// The descriptor that comes with it.
    pub descriptor: Option<OwnedFd>,
}

/// The messages that wait to be sent, and the parts of one that arrives.
#[derive(Debug, Default)]
pub struct Bridge {
    waiting: VecDeque<(Vec<u8>, Option<OwnedFd>)>,
    waiting_bytes: usize,
    /// Whether the first piece that waits goes on with a message.
    is_within: bool,
    arriving: Vec<u8>,
}

impl Bridge {
    /// Queues a message.
    pub fn push(&mut self, kind: BridgeKind, body: &[u8], mut descriptor: Option<OwnedFd>) {
        let mut rest = body;
        loop {
            let (part, behind) = rest.split_at(rest.len().min(PIECE));
            let is_last = behind.is_empty();
            let mut piece = Vec::with_capacity(HEADER + part.len());
            piece.extend_from_slice(&BRIDGE_MAGIC);
            piece.extend_from_slice(&[u8::from(is_last), kind as u8]);
            piece.extend_from_slice(part);
            self.waiting_bytes += piece.len();
            self.waiting.push_back((piece, if is_last { descriptor.take() } else { None }));
            if is_last {
                return;
            }
            rest = behind;
        }
    }

    /// Whether nothing waits to be sent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The bytes that wait to be sent.
    #[must_use]
    pub const fn waiting(&self) -> usize {
        self.waiting_bytes
    }

    /// Sends what waits, as far as there is room.
    ///
    /// # Errors
    /// The other edge has ended.
    pub fn flush(&mut self, socket: impl AsFd) -> io::Result<()> {
        while let Some((piece, descriptor)) = self.waiting.front() {
            match send_with_descriptor(&socket, piece, descriptor.as_ref().map(AsFd::as_fd)) {
                Ok(()) => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock) => return Ok(()),
                // The system refuses for a while to have so many descriptors on their way.
                Err(_) if room(&socket) != Room::Gone => return Ok(()),
                Err(error) => return Err(error),
            }
            self.waiting_bytes -= piece.len();
            self.is_within = piece[BRIDGE_MAGIC.len()] == 0;
            self.waiting.pop_front();
        }
        Ok(())
    }

    /// Takes back the messages of which no part has been sent.
    pub fn take_unsent(&mut self) -> Vec<BridgeMessage> {
        let (mut back, mut found) = (Self::default(), Vec::new());
        for (piece, descriptor) in std::mem::take(&mut self.waiting) {
            let is_last = piece[BRIDGE_MAGIC.len()] == 1;
            if !self.is_within {
                found.extend(back.arrive(&piece, descriptor).ok().flatten());
            }
            self.is_within &= !is_last;
        }
        self.waiting_bytes = 0;
        found
    }

    /// Takes in a piece. Returns the message of which it is the last one.
    ///
    /// # Errors
    /// It is none.
    pub fn arrive(&mut self, piece: &[u8], descriptor: Option<OwnedFd>) -> io::Result<Option<BridgeMessage>> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        let (&[is_last, kind], part) =
            piece.strip_prefix(&BRIDGE_MAGIC[..]).and_then(<[u8]>::split_first_chunk).ok_or_else(invalid)?;
        if self.arriving.len() + part.len() > LARGEST_MESSAGE {
            return Err(invalid());
        }
        self.arriving.extend_from_slice(part);
        if is_last == 0 {
            return Ok(None);
        }
        let body = std::mem::take(&mut self.arriving);
        let kind = BridgeKind::ALL.into_iter().find(|known| *known as u8 == kind).ok_or_else(invalid)?;
        Ok(Some(BridgeMessage { kind, body, descriptor }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handover::{HandoverEvent, pair};
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    #[test]
    fn messages_of_any_size_arrive_whole_in_both_directions() {
        let (sender, receiver) = pair().expect("sockets");
        let (mut old, mut new) = (Bridge::default(), Bridge::default());
        let (mut client, server) = UnixStream::pair().expect("sockets");
        let large: Vec<u8> = (0..1_000_000_u32).map(|number| number as u8).collect();
        old.push(BridgeKind::Begin, b"", None);
        old.push(BridgeKind::Connection, &large, Some(server.into()));
        new.push(BridgeKind::Commands, b"news", None);
        let mut found = Vec::new();
        while found.len() < 2 {
            old.flush(&sender).expect("the other end is open");
            let HandoverEvent::Piece(piece, descriptor) = receiver.next() else { continue };
            found.extend(new.arrive(&piece, descriptor).expect("a piece"));
        }
        assert_eq!((found[0].kind, &found[0].body[..], found[0].descriptor.is_some()), (BridgeKind::Begin, &b""[..], false));
        assert!((found[1].kind, &found[1].body) == (BridgeKind::Connection, &large));
        assert!(old.is_empty() && old.waiting() == 0);
        drop(found);
        assert_eq!(client.read(&mut [0; 1]).expect("the connection has ended"), 0);
        new.flush(&receiver).expect("the other end is open");
        let HandoverEvent::Piece(piece, None) = sender.next() else { panic!("it was sent") };
        let message = old.arrive(&piece, None).expect("a piece").expect("a whole message");
        assert_eq!((message.kind, &message.body[..]), (BridgeKind::Commands, &b"news"[..]));
        drop(receiver);
        old.push(BridgeKind::Seen, b"", None);
        assert!(old.flush(&sender).is_err());
    }

    #[test]
    fn messages_that_have_not_left_come_back_whole() {
        let (sender, receiver) = pair().expect("sockets");
        let mut old = Bridge::default();
        for size in [10_000_000, 3, 100_000] {
            old.push(BridgeKind::Commands, &vec![7; size], None);
        }
        old.flush(&sender).expect("the other end is open");
        assert!(old.is_within, "the socket has no room for the first one");
        drop(receiver);
        let sizes: Vec<usize> = old.take_unsent().iter().map(|message| message.body.len()).collect();
        assert_eq!(sizes, [3, 100_000]);
        assert!(old.is_empty() && old.waiting() == 0);
    }

    #[test]
    fn what_is_no_piece_is_refused() {
        let mut bridge = Bridge::default();
        for bytes in [&b""[..], b"OribiLiv", b"OribiLiv\x01", b"OribiLix\x01\x01", b"OribiLiv\x01\x0a", b"OribiLiv\x01\0"] {
            assert!(bridge.arrive(bytes, None).is_err(), "{bytes:?}");
        }
    }
}
