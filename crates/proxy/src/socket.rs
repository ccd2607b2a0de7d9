//! Calls for sockets that never wait. They ask for that in each call, because the socket of a client is also the server's.

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::io;
use std::os::fd::BorrowedFd;

/// The outcome of a call for a socket that never blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transfer {
    Bytes(usize),
    /// Not now.
    Blocked,
}

/// Receives without waiting; 0 bytes are the end.
pub(crate) fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Transfer> {
    loop {
        return match recv(socket, &mut *buffer, RecvFlags::DONTWAIT) {
            Ok((count, _)) => Ok(Transfer::Bytes(count)),
            Err(Errno::AGAIN) => Ok(Transfer::Blocked),
            Err(Errno::INTR) => continue,
            Err(error) => Err(error.into()),
        };
    }
}

/// Sends without waiting.
pub(crate) fn transmit(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<Transfer> {
    loop {
        return match send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(count) => Ok(Transfer::Bytes(count)),
            Err(Errno::AGAIN) => Ok(Transfer::Blocked),
            Err(Errno::INTR) => continue,
            Err(error) => Err(error.into()),
        };
    }
}
