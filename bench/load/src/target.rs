//! The address of the server, and sockets connected to it.

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;

/// The address of a server.
#[derive(Clone, Debug)]
pub enum Target {
    /// An IP address and a port.
    Internet(SocketAddr),
    /// The path of a Unix socket.
    Unix(SocketAddrUnix),
}

/// The way in which connections are made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    /// The number of source addresses, from 127.0.0.2 on; each has some 28,000 ports. 0 lets the system choose the address.
    pub sources: u8,
    /// Whether each write is sent at once, because requests may be sent in pieces, which must not wait for acknowledgements.
    pub no_delay: bool,
    /// Bytes of the receive buffer; the system's own if `None`.
    pub receive_buffer: Option<usize>,
}

/// A socket whose connection is complete or on its way.
pub struct Connecting {
    pub socket: OwnedFd,
    pub connected: bool,
}

impl Target {
    /// Parses `HOST:PORT` or `unix:PATH`.
    ///
    /// # Errors
    /// The text is neither, or the path is too long.
    pub fn parse(text: &str) -> Result<Target, String> {
        match text.strip_prefix("unix:") {
            Some(path) => SocketAddrUnix::new(path).map(Target::Unix).map_err(|e| format!("{path}: {e}")),
            None => text.parse().map(Target::Internet).map_err(|_| format!("{text} is neither IP:PORT nor unix:PATH")),
        }
    }

    /// The Host of requests.
    pub fn host(&self) -> String {
        match self {
            Target::Internet(address) => address.to_string(),
            Target::Unix(_) => "localhost".to_owned(),
        }
    }

    /// Begins to connect. `number` is the number of this attempt, which chooses the source address.
    ///
    /// # Errors
    /// An error of the system; [`Errno::AGAIN`] if the queue of a Unix socket is full.
    pub fn connect(&self, number: usize, manner: Manner) -> Result<Connecting, Errno> {
        let family = match self {
            Target::Internet(SocketAddr::V4(_)) => AddressFamily::INET,
            Target::Internet(SocketAddr::V6(_)) => AddressFamily::INET6,
            Target::Unix(_) => AddressFamily::UNIX,
        };
        let socket = net::socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)?;
        if let Some(bytes) = manner.receive_buffer {
            sockopt::set_socket_recv_buffer_size(&socket, bytes)?;
        }
        if manner.sources > 0 && family == AddressFamily::INET {
            let source = Ipv4Addr::new(127, 0, 0, 2 + (number % usize::from(manner.sources)) as u8);
            net::bind(&socket, &SocketAddrV4::new(source, 0))?;
        }
        let result = match self {
            Target::Internet(address) => {
                if manner.no_delay {
                    sockopt::set_tcp_nodelay(&socket, true)?;
                }
                net::connect(&socket, address)
            }
            Target::Unix(address) => net::connect(&socket, address),
        };
        match result {
            Ok(()) => Ok(Connecting { socket, connected: true }),
            Err(Errno::INPROGRESS) => Ok(Connecting { socket, connected: false }),
            Err(error) => Err(error),
        }
    }
}
