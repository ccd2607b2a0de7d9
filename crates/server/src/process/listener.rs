//! Sockets that connections arrive at.

use std::os::fd::OwnedFd;

/// A bound socket that accepts connections. All workers share it; nobody but its opener unlinks or shuts it down.
#[derive(Debug)]
pub struct Listener {
    /// The socket, non-blocking and listening.
    pub socket: OwnedFd,
    /// For people: `http://127.0.0.1:5000`, `unix:/run/app.sock`.
    pub display: String,
    /// SERVER_NAME of requests that arrive here.
    pub server_name: String,
    /// SERVER_PORT of requests that arrive here; `0` for a Unix socket.
    pub server_port: String,
    /// Whether it is a Unix socket.
    pub unix: bool,
}
