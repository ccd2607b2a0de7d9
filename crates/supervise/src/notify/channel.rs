//! The socket to the service manager.

use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sendmsg_addr,
    socket_with,
};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

/// The variable that names the socket: a path, or a name in the abstract namespace after `@`.
pub(super) const SOCKET: &str = "NOTIFY_SOCKET";

/// Variables that only concern the first process of a server.
pub(in super::super) const VARIABLES: [&str; 4] = [SOCKET, "WATCHDOG_USEC", "WATCHDOG_PID", super::FDSTORE];

/// The connection to the service manager.
#[derive(Debug)]
pub(super) struct Channel {
    socket: OwnedFd,
    address: SocketAddrUnix,
}

impl Channel {
    /// Opens the socket. `None` if messages cannot be sent to `address`; the log says why.
    pub(super) fn open(address: &str) -> Option<Self> {
        if address.is_empty() {
            return None;
        }
        let named = match address.strip_prefix('@') {
            Some(name) => SocketAddrUnix::new_abstract_name(name.as_bytes()),
            None if address.starts_with('/') => SocketAddrUnix::new(address),
            None => Err(rustix::io::Errno::AFNOSUPPORT),
        };
        let opened = named.and_then(|address| {
            let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
            Ok(Self { socket, address })
        });
        opened
            .inspect_err(|error| {
                log::warn!("cannot send messages to the service manager at {address}: {}", io::Error::from(*error));
            })
            .ok()
    }

    /// Sends a message, with a copy of `descriptor` if there is one; returns whether it was sent. Logs an error.
    pub(super) fn send(&self, message: &str, descriptor: Option<BorrowedFd<'_>>) -> bool {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = descriptor.as_slice();
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return false;
        }
        // A service manager that does not read must not block this server.
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let sent = sendmsg_addr(&self.socket, &self.address, &[IoSlice::new(message.as_bytes())], &mut control, flags);
        sent.inspect_err(|error| {
            let first = message.lines().next().unwrap_or_default();
            log::warn!("cannot send {first} to the service manager: {}", io::Error::from(*error));
        })
        .is_ok()
    }
}
