//! Checks whether a control socket belongs to a running server.

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::path::Path;

/// Whether a process listens at the socket with this file. Also `true` if that is uncertain.
pub(super) fn answers(path: &Path) -> bool {
    let Ok(address) = SocketAddrUnix::new(path) else { return false };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let Ok(probe) = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None) else { return true };
    // After other errors it is uncertain whether a process listens.
    !matches!(connect(&probe, &address), Err(Errno::CONNREFUSED | Errno::NOENT))
}
