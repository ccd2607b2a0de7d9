//! The socket pairs over which an old edge passes connections to a new edge.

use super::record::{LARGEST, Record};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    Shutdown, SocketFlags, SocketType, recvmsg, sendmsg, shutdown, socketpair,
};
use rustix::time::Timespec;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The beginning of each piece of a message between edges; other messages are connections.
pub(super) const BRIDGE_MAGIC: [u8; 8] = *b"OribiLiv";

/// The old edge's end. Several edges may have copies of this end.
#[derive(Debug)]
pub struct Sender(OwnedFd);

/// The new edge's end.
#[derive(Debug)]
pub struct Receiver(OwnedFd);

/// The state of the other end before a record is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// A record can be sent.
    Yes,
    /// The other edge has not yet read the earlier records.
    Later,
    /// The other edge has ended.
    Gone,
}

/// The result of [`Receiver::next`].
#[derive(Debug)]
pub enum HandoverEvent {
    /// A connection, with its socket.
    Connection(Record, OwnedFd),
    /// A piece for [`Bridge::arrive`](super::Bridge::arrive), and its descriptor.
    Piece(Vec<u8>, Option<OwnedFd>),
    /// An invalid message, or one without a descriptor.
    Nonsense,
    /// No message has arrived yet.
    Nothing,
    /// All senders have ended, or the socket has failed.
    End,
}

/// Creates both ends of a new line.
///
/// # Errors
/// The operating system refuses.
pub fn pair() -> io::Result<(Sender, Receiver)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (sender, receiver) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    Ok((Sender(sender), Receiver(receiver)))
}

impl Sender {
    /// Wraps the socket of one end.
    pub const fn new(socket: OwnedFd) -> Self {
        Self(socket)
    }

    /// Returns whether there is room for another connection.
    pub fn room(&self) -> Room {
        room(&self.0)
    }

    /// Receives the next message of the new edge, without waiting.
    pub fn next(&self) -> HandoverEvent {
        next(&self.0)
    }

    /// Sends the record of a connection and a copy of its descriptor.
    ///
    /// # Errors
    /// The record was not sent: there is no room now, the other edge has ended, or the record is too large.
    pub fn send(&self, record: &Record, connection: BorrowedFd<'_>) -> io::Result<()> {
        let bytes = record.encode().ok_or(io::ErrorKind::InvalidInput)?;
        send_with_descriptor(&self.0, &bytes, Some(connection))
    }
}

impl Receiver {
    /// Receives the next connection, without waiting.
    pub fn next(&self) -> HandoverEvent {
        next(&self.0)
    }

    /// Ends the line, because the old edge does not read what this one sends.
    pub fn end(&self) {
        // The socket may have ended already.
        let _ = shutdown(&self.0, Shutdown::Both);
    }
}

fn next(socket: &OwnedFd) -> HandoverEvent {
    let mut bytes = vec![0; LARGEST];
    match receive_with_descriptor(socket, &mut bytes) {
        Ok((0, _)) => HandoverEvent::End,
        Ok((size, descriptor)) if bytes.starts_with(&BRIDGE_MAGIC) => {
            bytes.truncate(size);
            HandoverEvent::Piece(bytes, descriptor)
        }
        Ok((size, Some(descriptor))) => match Record::decode(&bytes[..size]) {
            Ok(record) => HandoverEvent::Connection(record, descriptor),
            Err(_) => HandoverEvent::Nonsense,
        },
        Ok((_, None)) => HandoverEvent::Nonsense,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => HandoverEvent::Nothing,
        Err(_) => HandoverEvent::End,
    }
}

/// Returns whether a message can be sent.
pub(super) fn room(socket: impl AsFd) -> Room {
    let mut polled = [PollFd::new(&socket, PollFlags::OUT)];
    if poll(&mut polled, Some(&Timespec::default())).is_err() {
        return Room::Later;
    }
    match polled[0].revents() {
        found if found.intersects(PollFlags::HUP | PollFlags::ERR) => Room::Gone,
        found if found.contains(PollFlags::OUT) => Room::Yes,
        _ => Room::Later,
    }
}

impl AsFd for Sender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsFd for Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Sends one message, and a copy of `descriptor` with it, without waiting.
///
/// # Errors
/// The message was not sent.
pub fn send_with_descriptor(socket: impl AsFd, bytes: &[u8], descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
    send_with_descriptors(socket, bytes, descriptor.as_slice())
}

/// Receives one message and its descriptor, without waiting. Returns the size of the message, or 0 if the other end is closed,
/// and the descriptor; `None` if the message came without one.
///
/// # Errors
/// `WouldBlock`: no message has arrived yet. Any other error: the operating system refused the call.
pub fn receive_with_descriptor(socket: impl AsFd, bytes: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let (size, descriptors) = receive_with_descriptors(socket, bytes)?;
    Ok((size, descriptors.into_iter().next()))
}

/// The most descriptors of a message. The kernel allows 253.
pub const MOST_DESCRIPTORS: usize = 200;

/// Sends bytes with descriptors, of which there may be [`MOST_DESCRIPTORS`]. Never blocks.
///
/// # Errors
/// The peer has ended, or the message does not fit into the socket's buffer now.
pub fn send_with_descriptors(socket: impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    loop {
        match sendmsg(&socket, &[IoSlice::new(bytes)], &mut control, flags) {
            Err(Errno::INTR) => {}
            sent => return Ok(sent.map(drop)?),
        }
    }
}

/// Receives a message of [`send_with_descriptors`]. Never blocks. Returns the number of bytes, which is 0 at the end.
///
/// # Errors
/// No message has arrived, or the system refuses.
pub fn receive_with_descriptors(socket: impl AsFd, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let mut was_reset = false;
    let size = loop {
        match recvmsg(&socket, &mut [IoSliceMut::new(bytes)], &mut control, flags) {
            Err(Errno::INTR) => {}
            // The peer has ended with unread messages. The system says so once, before the messages that the peer has sent.
            Err(Errno::CONNRESET) if !was_reset => was_reset = true,
            received => break received?.bytes,
        }
    };
    let mut all = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            all.extend(descriptors);
        }
    }
    Ok((size, all))
}

#[cfg(test)]
mod tests {
    use super::super::LARGEST_UNREAD;
    use super::*;
    use oribi_config::Protocol;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    fn record(unread: &[u8]) -> Record {
        let (address, port) = (b"192.0.2.7".to_vec(), b"1".to_vec());
        let listener = "unix:/a".to_owned();
        Record {
            protocol: Protocol::Http,
            listener,
            greeted: true,
            requests: 1,
            left: 1,
            address,
            port,
            unread: unread.to_vec(),
        }
    }

    #[test]
    fn messages_of_a_peer_that_has_ended_with_unread_ones_arrive() {
        let (sender, receiver) = pair().expect("sockets");
        let connection = UnixStream::pair().expect("sockets").0;
        for _ in 0..2 {
            sender.send(&record(b""), connection.as_fd()).expect("there is room");
        }
        send_with_descriptor(&receiver, b"unread", None).expect("there is room");
        drop(sender);
        for _ in 0..2 {
            assert!(matches!(receiver.next(), HandoverEvent::Connection(..)));
        }
        assert!(matches!(receiver.next(), HandoverEvent::End));
    }

    #[test]
    fn connections_arrive_with_their_records_and_what_makes_no_sense_is_told() {
        let _deadline = oribi_test_support::waits_for("the end of a connection");
        let (sender, receiver) = pair().expect("sockets");
        let (mut client, server) = UnixStream::pair().expect("sockets");
        assert!(matches!(receiver.next(), HandoverEvent::Nothing));
        assert_eq!(sender.room(), Room::Yes);
        sender.send(&record(b"GET"), server.as_fd()).expect("there is room");
        drop(server);
        send_with_descriptor(&sender.0, b"nonsense", Some(client.as_fd())).expect("there is room");
        send_with_descriptor(&sender.0, &record(b"").encode().expect("it is small"), None).expect("there is room");
        let HandoverEvent::Connection(found, descriptor) = receiver.next() else { panic!("it was sent") };
        assert_eq!(found, record(b"GET"));
        UnixStream::from(descriptor).write_all(b"hello").expect("the client is there");
        let mut text = String::new();
        client.read_to_string(&mut text).expect("nobody else has the connection");
        assert_eq!(text, "hello");
        assert!(matches!(receiver.next(), HandoverEvent::Nonsense) && matches!(receiver.next(), HandoverEvent::Nonsense));
        drop(sender);
        assert!(matches!(receiver.next(), HandoverEvent::End));
    }

    #[test]
    fn who_sends_learns_when_to_wait_and_when_to_give_up() {
        let (sender, receiver) = pair().expect("sockets");
        let (_client, server) = UnixStream::pair().expect("sockets");
        let large = record(&[7; LARGEST_UNREAD]);
        let mut sent = 0;
        while sender.room() == Room::Yes && sender.send(&large, server.as_fd()).is_ok() {
            sent += 1;
            assert!(sent < 1000, "it has no limit");
        }
        assert!(sent > 0);
        for _ in 0..sent {
            assert!(matches!(receiver.next(), HandoverEvent::Connection(..)));
        }
        assert_eq!(sender.room(), Room::Yes);
        drop(receiver);
        assert_eq!(sender.room(), Room::Gone);
        assert!(sender.send(&large, server.as_fd()).is_err());
    }
}
