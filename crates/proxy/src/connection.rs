//! The connections to upstreams: non-blocking sockets with a machine each.

use crate::address::Address;
use crate::exchange::Exchange;
use crate::tunnel::Tunnel;
use oribi_proto::h1::client::Machine;
use rustix::io::Errno;
use rustix::net::sockopt::{set_tcp_nodelay, socket_error};
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// The time within which an upstream must accept a connection.
pub(crate) const CONNECT: Duration = Duration::from_secs(5);

/// A connection to an upstream.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: OwnedFd,
    pub(crate) upstream: usize,
    /// The index of its address among those of the upstream.
    pub(crate) address: usize,
    pub(crate) connecting: bool,
    /// The time until which connecting is tried again, because the queue of a Unix socket is full.
    pub(crate) tries_until: Option<Instant>,
    pub(crate) machine: Machine,
    /// Received bytes that have not been consumed: a part of a head, or content for a client without room.
    pub(crate) input: Vec<u8>,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// Whether the upstream has ended the connection, so that reading goes on until its end.
    pub(crate) ended: bool,
    /// Whether the upstream takes no more of the request.
    pub(crate) deaf: bool,
    /// The error by which sending has found the connection broken. The kernel reports it once: receiving sees an end instead.
    pub(crate) broken: Option<io::Error>,
    /// Whether an exchange on it has been completed.
    pub(crate) kept: bool,
    pub(crate) exchange: Option<Box<Exchange>>,
    pub(crate) tunnel: Option<Box<Tunnel>>,
    /// The time at which the connection, its exchange or its rest is over.
    pub(crate) deadline: Option<Instant>,
    /// The time for which the upstream keeps it, if it has said so.
    pub(crate) kept_for: Option<Duration>,
}

impl Connection {
    /// Begins to connect to an address, which comes after its index.
    ///
    /// # Errors
    /// The operating system refused, or the upstream did so at once.
    pub(crate) fn open(upstream: usize, (index, address): (usize, &Address)) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let open = |family| socket_with(family, SocketType::STREAM, flags, None);
        let (socket, outcome) = match address {
            Address::Internet(address) => {
                let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
                let socket = open(family)?;
                // Heads must not wait for acknowledgements of earlier content.
                set_tcp_nodelay(&socket, true)?;
                let outcome = match address {
                    SocketAddr::V4(address) => connect(&socket, address),
                    SocketAddr::V6(address) => connect(&socket, address),
                };
                (socket, outcome)
            }
            Address::Unix(address) => {
                let socket = open(AddressFamily::UNIX)?;
                let outcome = connect(&socket, address);
                (socket, outcome)
            }
        };
        let (connecting, tries_until) = match outcome {
            Ok(()) => (false, None),
            Err(Errno::INPROGRESS) => (true, None),
            Err(Errno::AGAIN) if matches!(address, Address::Unix(_)) => (true, Some(Instant::now() + CONNECT)),
            Err(error) => return Err(error.into()),
        };
        Ok(Self {
            socket,
            upstream,
            address: index,
            connecting,
            tries_until,
            machine: Machine::new(),
            input: Vec::new(),
            readable: false,
            writable: !connecting,
            ended: false,
            deaf: false,
            broken: None,
            kept: false,
            exchange: None,
            tunnel: None,
            deadline: None,
            kept_for: None,
        })
    }

    /// Tries to connect again. Returns whether it has succeeded; otherwise the queue of the upstream is still full.
    ///
    /// # Errors
    /// The upstream refuses.
    pub(crate) fn try_again(&mut self, address: &Address) -> io::Result<bool> {
        let Address::Unix(address) = address else { return Ok(false) };
        match connect(&self.socket, address) {
            Ok(()) => {
                (self.connecting, self.tries_until, self.writable) = (false, None, true);
                Ok(true)
            }
            Err(Errno::AGAIN) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Completes the connection, after the socket has become writable.
    ///
    /// # Errors
    /// It has failed.
    pub(crate) fn complete(&mut self) -> io::Result<()> {
        socket_error(&self.socket)??;
        self.connecting = false;
        Ok(())
    }
}

/// The connections of a context, each with a token that no later one gets.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    entries: Vec<(u32, Option<Connection>)>,
    free: Vec<u32>,
}

/// The bit of a token that says that the change is one of the client's socket.
pub(crate) const CLIENT: u64 = 1 << 31;

impl Connections {
    /// Adds a connection and returns its token.
    pub(crate) fn add(&mut self, connection: Connection) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push((0, None));
            (self.entries.len() - 1) as u32
        });
        let (serial, entry) = &mut self.entries[index as usize];
        *entry = Some(connection);
        u64::from(*serial) << 32 | u64::from(index)
    }

    fn entry(&mut self, token: u64) -> Option<&mut Option<Connection>> {
        let (serial, entry) = self.entries.get_mut((token & (CLIENT - 1)) as usize)?;
        (u64::from(*serial) == token >> 32).then_some(entry)
    }

    pub(crate) fn get(&mut self, token: u64) -> Option<&mut Connection> {
        self.entry(token)?.as_mut()
    }

    /// Takes a connection out, to work with it; see [`Connections::put_back`] and [`Connections::forget`].
    pub(crate) fn take(&mut self, token: u64) -> Option<Connection> {
        self.entry(token)?.take()
    }

    pub(crate) fn put_back(&mut self, token: u64, connection: Connection) {
        if let Some(entry) = self.entry(token) {
            *entry = Some(connection);
        }
    }

    /// Frees the place of a connection that was taken out and is closed.
    pub(crate) fn forget(&mut self, token: u64) {
        if self.entry(token).is_some() {
            let index = (token & (CLIENT - 1)) as u32;
            self.entries[index as usize].0 = self.entries[index as usize].0.wrapping_add(1);
            self.free.push(index);
        }
    }

    /// The tokens of all connections.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = (u64, &Connection)> {
        self.entries
            .iter()
            .enumerate()
            .filter_map(|(index, (serial, connection))| Some((u64::from(*serial) << 32 | index as u64, connection.as_ref()?)))
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
