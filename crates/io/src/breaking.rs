//! Aborts connections of an app, so that an incomplete response does not look whole.
//!
//! On TCP an abort is a reset. If a thread passes on the bytes of an app, the app has one end of a pair of sockets and the
//! thread has the other. Then the app aborts by a byte that it sends together with a descriptor, which nothing else sends
//! there. A client's connection over a Unix socket has no such signal: the client sees a clean end.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, Result};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    SocketAddrAny, SocketAddrUnix, getpeername, getsockname, recvmsg, sendmsg, sockopt,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// The outcome of receiving from an app at the other end of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The number of bytes; 0 if the app sends no more.
    Bytes(usize),
    /// The number of bytes before the app aborted.
    Cut(usize),
}

/// The longest wait for room in a pair: a client that reads nothing must not keep a thread of an app.
const PATIENCE: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// Makes the connection abort when its last descriptor is closed, which is up to the caller. If a pair of sockets has no room
/// for the signal, waits for room, at most `PATIENCE`.
///
/// # Errors
/// The connection has ended already, its client reads nothing ([`Errno::AGAIN`]), or a signal has interrupted the wait
/// ([`Errno::INTR`]).
pub fn break_off(socket: BorrowedFd<'_>) -> Result<()> {
    match try_to_break_off(socket) {
        Err(Errno::AGAIN) => poll(&mut [PollFd::new(&socket, PollFlags::OUT)], Some(&PATIENCE))?,
        outcome => return outcome,
    };
    try_to_break_off(socket)
}

/// Does the same without waiting. `AGAIN`: earlier bytes fill all the room of a pair.
fn try_to_break_off(socket: BorrowedFd<'_>) -> Result<()> {
    if !is_of_pair(socket) {
        // A Unix socket ignores this option.
        return sockopt::set_socket_linger(socket, Some(Duration::ZERO));
    }
    let descriptor = eventfd(0, EventfdFlags::CLOEXEC)?;
    let descriptors = [descriptor.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(Errno::NOMEM);
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sendmsg(socket, &[IoSlice::new(b"!")], &mut control, flags).map(drop)
}

/// Whether the socket is one of a pair: neither end has a name. In a client's connection, at least the server's end has a name.
fn is_of_pair(socket: BorrowedFd<'_>) -> bool {
    let is_empty = |name: Option<&[u8]>| name.is_none_or(<[u8]>::is_empty);
    // An empty path is no name, either.
    let is_unnamed = |address: SocketAddrAny| {
        let address = SocketAddrUnix::try_from(address);
        address.is_ok_and(|address| is_empty(address.path_bytes()) && is_empty(address.abstract_name()))
    };
    getsockname(socket).is_ok_and(is_unnamed) && getpeername(socket).is_ok_and(|peer| peer.is_none_or(is_unnamed))
}

/// Receives from the app at the other end of a pair.
///
/// # Errors
/// Those of recvmsg(2).
pub fn receive_from_app(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<Sent> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let message = recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    // If this process cannot have another descriptor, the kernel reports only that there was one.
    let broken = message.flags.contains(ReturnFlags::CTRUNC)
        | control.drain().any(|message| matches!(message, RecvAncillaryMessage::ScmRights(_)));
    // The last byte is that of the signal: the kernel never returns later bytes together with a descriptor.
    Ok(if broken { Sent::Cut(message.bytes.saturating_sub(1)) } else { Sent::Bytes(message.bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn the_other_end_of_a_pair_is_told() {
        let (mut app, ours) = UnixStream::pair().expect("sockets are there");
        let mut buffer = [0; 8];
        app.write_all(b"half of it").expect("there is room");
        assert_eq!(receive_from_app(ours.as_fd(), &mut buffer), Ok(Sent::Bytes(8)));
        break_off(app.as_fd()).expect("there is room");
        drop(app);
        assert_eq!(receive_from_app(ours.as_fd(), &mut buffer), Ok(Sent::Cut(2)));
        assert_eq!(&buffer[..2], b"it");
        assert_eq!(receive_from_app(ours.as_fd(), &mut buffer), Ok(Sent::Bytes(0)));
    }

    #[test]
    fn the_word_stands_alone_if_there_was_no_room_behind_what_came_before() {
        let (mut app, ours) = UnixStream::pair().expect("sockets are there");
        app.write_all(b"half").expect("there is room");
        break_off(app.as_fd()).expect("there is room");
        let mut buffer = [0; 4];
        assert_eq!(receive_from_app(ours.as_fd(), &mut buffer), Ok(Sent::Bytes(4)));
        assert_eq!(receive_from_app(ours.as_fd(), &mut buffer), Ok(Sent::Cut(0)));
    }

    #[test]
    fn a_full_pair_has_no_room_for_the_word() {
        let (mut app, _ours) = UnixStream::pair().expect("sockets are there");
        app.set_nonblocking(true).expect("it is a socket");
        while app.write(&[0; 4096]).is_ok() {}
        while app.write(&[0; 1]).is_ok() {}
        assert_eq!(try_to_break_off(app.as_fd()), Err(Errno::AGAIN));
    }

    #[test]
    fn a_client_over_tcp_sees_a_reset_and_one_at_a_unix_socket_no_byte_more() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let mut client = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
        let (app, _) = listener.accept().expect("it has connected");
        break_off(app.as_fd()).expect("it is connected");
        drop(app);
        assert!(client.read(&mut [0; 8]).is_err());
        let folder = tempfile::tempdir().expect("a directory is to be had");
        let listener = UnixListener::bind(folder.path().join("socket")).expect("the directory is ours");
        let mut client = UnixStream::connect(folder.path().join("socket")).expect("it listens");
        let (app, _) = listener.accept().expect("it has connected");
        break_off(app.as_fd()).expect("it is connected");
        drop(app);
        assert_eq!(client.read(&mut [0; 8]).expect("it ends"), 0);
    }
}
