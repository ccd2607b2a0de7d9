//! Accepting a connection from a listener.

use crate::{Accepted, Peer};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Accepts the next connection, in non-blocking mode.
pub fn accept(listener: BorrowedFd<'_>) -> Accepted<OwnedFd> {
    match rustix::net::acceptfrom_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
        Ok((descriptor, address)) => {
            let peer = match address.map(std::net::SocketAddr::try_from) {
                Some(Ok(address)) => Peer::Internet(address),
                _ => Peer::Local,
            };
            Accepted::Connection(descriptor, peer)
        }
        Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)) => Accepted::Exhausted(error.into()),
        // No connection waits, or one broke before it was accepted: accept(2) passes on the network's errors.
        Err(_) => Accepted::None,
    }
}
