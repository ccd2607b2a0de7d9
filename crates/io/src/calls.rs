//! The system calls of the data path, in one form for all backends: none blocks, none raises a signal, and each is repeated
//! when a signal has interrupted it.

use crate::Direction;
use crate::process::has_forked;
use crate::vanished::notice_vanished_peer;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Result, retry_on_intr};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, sockopt};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Receives bytes; 0 means the end of the stream.
#[inline]
pub(crate) fn receive(socket: impl AsFd, buffer: &mut [u8]) -> Result<usize> {
    retry_on_intr(|| rustix::net::recv(&socket, &mut *buffer, RecvFlags::DONTWAIT).map(|(_, count)| count))
}

#[inline]
pub(crate) fn send(socket: impl AsFd, buffer: &[u8], flags: SendFlags) -> Result<usize> {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT | flags;
    retry_on_intr(|| rustix::net::send(&socket, buffer, flags))
}

pub(crate) fn send_gathered(socket: impl AsFd, buffers: &[IoSlice<'_>]) -> Result<usize> {
    let mut control = SendAncillaryBuffer::default();
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    retry_on_intr(|| rustix::net::sendmsg(&socket, buffers, &mut control, flags))
}

/// Sends bytes of a file; 0 means the end of the file.
pub(crate) fn send_file(socket: impl AsFd, file: BorrowedFd<'_>, offset: u64, size: usize) -> Result<usize> {
    retry_on_intr(|| rustix::fs::sendfile(&socket, file, Some(&mut { offset }), size))
}

pub(crate) fn shut_down(socket: impl AsFd, direction: Direction) {
    // Both calls fail only on a connection that has already ended.
    let _ = match direction {
        Direction::Send => rustix::net::shutdown(socket, Shutdown::Write),
        // Closing does not break a connection if a child has a copy of the socket; ending the association does
        // (tcp_disconnect in Linux).
        Direction::Abort if has_forked() && rustix::net::connect_unspec(&socket).is_ok() => Ok(()),
        Direction::Abort => sockopt::set_socket_linger(socket, Some(Duration::ZERO)),
    };
}

/// Returns the address of this end of a connection; `None` for a Unix socket.
pub(crate) fn local_address(socket: impl AsFd) -> Option<SocketAddr> {
    rustix::net::getsockname(socket).ok().and_then(|address| SocketAddr::try_from(address).ok())
}

/// Sets whether closing the socket resets the connection. The end of the process closes the socket, too.
pub(crate) fn guard(socket: impl AsFd, on: bool) {
    // It fails only on a connection that has already ended.
    let _ = sockopt::set_socket_linger(socket, on.then_some(Duration::ZERO));
}

/// Returns a second descriptor of the socket, in blocking mode, for an owner that may let the connection be silent for any
/// time.
pub(crate) fn blocking_copy(socket: impl AsFd) -> io::Result<OwnedFd> {
    let copy = rustix::io::fcntl_dupfd_cloexec(socket, 3)?;
    // Both descriptors share the mode. That is safe: all calls here pass DONTWAIT, except sendfile, which is no longer used
    // on a connection whose socket was given away.
    let flags = fcntl_getfl(&copy)?;
    fcntl_setfl(&copy, flags - OFlags::NONBLOCK)?;
    notice_vanished_peer(&copy);
    Ok(copy)
}
