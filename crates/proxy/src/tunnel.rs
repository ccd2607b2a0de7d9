//! Another protocol after a 101: bytes in both directions, until both ends have ended.

use crate::socket::{Transfer, receive, transmit};
use oribi_host::ExchangeId;
use rustix::net::{Shutdown, shutdown};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The most bytes that wait in one direction.
const ROOM: usize = 32 << 10;

/// The number of rounds in one direction before other connections have their turn.
const ROUNDS: usize = 16;

/// One direction.
#[derive(Debug, Default)]
struct Direction {
    bytes: Vec<u8>,
    sent: usize,
    ended: bool,
    shut: bool,
}

/// A client's socket, and the bytes on their way between it and the upstream.
#[derive(Debug)]
pub(crate) struct Tunnel {
    pub(crate) exchange: ExchangeId,
    pub(crate) client: OwnedFd,
    to_client: Direction,
    to_upstream: Direction,
}

/// The state of a tunnel after some work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Changes of the sockets are awaited.
    Waits,
    /// There is more to do at once.
    Busy,
    /// Both ends have ended.
    Over,
}

impl Tunnel {
    /// Begins with `head`, the answer for the client, and bytes that the upstream has sent after it.
    pub(crate) fn new(exchange: ExchangeId, client: OwnedFd, head: Vec<u8>) -> Self {
        let to_client = Direction { bytes: head, ..Direction::default() };
        Self { exchange, client, to_client, to_upstream: Direction::default() }
    }

    /// Passes on as much as can be passed on now.
    ///
    /// # Errors
    /// One of the ends has broken the connection.
    pub(crate) fn flow(&mut self, upstream: BorrowedFd<'_>) -> io::Result<Flow> {
        let client = self.client.as_fd();
        let busy = self.to_client.flow(upstream, client)? | self.to_upstream.flow(client, upstream)?;
        Ok(match (busy, self.to_client.shut && self.to_upstream.shut) {
            (_, true) => Flow::Over,
            (true, false) => Flow::Busy,
            (false, false) => Flow::Waits,
        })
    }
}

impl Direction {
    /// Returns whether there may be more to do at once.
    fn flow(&mut self, from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> io::Result<bool> {
        for _ in 0..ROUNDS {
            while self.sent < self.bytes.len() {
                match transmit(to, &self.bytes[self.sent..])? {
                    Transfer::Bytes(count) => self.sent += count,
                    Transfer::Blocked => return Ok(false),
                }
            }
            self.sent = 0;
            self.bytes.clear();
            if self.ended {
                if !self.shut {
                    self.shut = true;
                    // The other end may be gone already.
                    let _ = shutdown(to, Shutdown::Write);
                }
                return Ok(false);
            }
            self.bytes.resize(ROOM, 0);
            let received = receive(from, &mut self.bytes);
            let count = if let Ok(Transfer::Bytes(count)) = received { count } else { 0 };
            self.bytes.truncate(count);
            match received? {
                Transfer::Blocked => return Ok(false),
                Transfer::Bytes(count) => self.ended = count == 0,
            }
        }
        Ok(true)
    }
}
