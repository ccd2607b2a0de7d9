//! The sockets from which a lane accepts connections.
//!
//! A listener has one socket that all lanes share, or as many sockets as there were lanes when it was opened. In the second
//! case a lane has the sockets of its *shard*. The number of a shard passes from a worker to the worker that replaces it, so
//! some worker always empties the queue of each socket. The process that opened the sockets keeps them open, so no connection
//! is lost between the two workers.

use super::listener::Listener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// One of several shards of the sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// The number of this shard, counted from 0.
    pub number: usize,
    /// The number of shards.
    pub of: usize,
}

impl Shard {
    /// The shard of a lane that accepts from all sockets.
    pub const ONLY: Self = Self { number: 0, of: 1 };

    /// Divides this shard into `parts` shards, and returns the one with this number.
    #[must_use]
    #[inline]
    pub const fn part(self, number: usize, parts: usize) -> Self {
        Self { number: self.number * parts + number, of: self.of * parts }
    }

    /// Whether the socket with this number, of `sockets` in all, belongs to this shard. Each socket belongs to a shard, and
    /// each shard has a socket, even if there are more or fewer sockets than shards.
    #[must_use]
    pub const fn has(self, socket: usize, sockets: usize) -> bool {
        if sockets < self.of { socket == self.number % sockets } else { socket % self.of == self.number }
    }

    /// Whether lanes of other shards also accept connections from each of these sockets of a listener.
    const fn shares(self, sockets: usize) -> bool {
        sockets == 1 || sockets < self.of
    }
}

/// A socket from which a lane accepts connections.
#[derive(Clone, Debug)]
pub struct ListenSocket<'a> {
    /// The index of its listener.
    pub listener: usize,
    /// The listening socket.
    pub socket: SocketHandle<'a>,
    /// Whether lanes of other shards also accept connections from this socket.
    pub shared: bool,
}

/// A listening socket: that of a listener, or one that is closed when its lane accepts no more connections from it.
#[derive(Clone, Debug)]
pub enum SocketHandle<'a> {
    /// The socket of a listener.
    Borrowed(BorrowedFd<'a>),
    /// A socket of the lane.
    Owned(Arc<OwnedFd>),
}

impl AsFd for ListenSocket<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            SocketHandle::Borrowed(socket) => *socket,
            SocketHandle::Owned(socket) => socket.as_fd(),
        }
    }
}

/// Returns the sockets of a lane in `shard`.
#[must_use]
pub fn listen_sockets(listeners: &[Listener], shard: Shard) -> Vec<ListenSocket<'_>> {
    let mut found = Vec::new();
    for (number, listener) in listeners.iter().enumerate() {
        let sockets = listener.sockets().count();
        let mine = listener.sockets().enumerate().filter(|(socket, _)| shard.has(*socket, sockets));
        found.extend(mine.map(|(_, socket)| ListenSocket {
            listener: number,
            socket: SocketHandle::Borrowed(socket.as_fd()),
            shared: shard.shares(sockets),
        }));
    }
    found
}

/// As [`listen_sockets`], for a lane that closes a socket when it accepts no more connections from it. The listeners lose all
/// their sockets; those of other shards are closed.
#[must_use]
pub fn take_listen_sockets(listeners: &mut [Listener], shard: Shard) -> Vec<ListenSocket<'static>> {
    let take = |(number, listener): (usize, &mut Listener)| {
        let sockets = std::mem::take(&mut listener.sockets);
        let count = sockets.len();
        let mine = sockets.into_iter().enumerate().filter(|(socket, _)| shard.has(*socket, count)).map(|(_, socket)| socket);
        owned(number, mine.collect(), shard.shares(count))
    };
    listeners.iter_mut().enumerate().flat_map(take).collect()
}

/// Returns the sockets of the listener with this index that a process has received for its lane in `shard`. `count`: the number
/// of all its sockets.
#[must_use]
pub fn received_sockets(listener: usize, sockets: Vec<OwnedFd>, count: usize, shard: Shard) -> Vec<ListenSocket<'static>> {
    owned(listener, sockets, shard.shares(count))
}

fn owned(listener: usize, sockets: Vec<OwnedFd>, shared: bool) -> Vec<ListenSocket<'static>> {
    let one = |socket| ListenSocket { listener, socket: SocketHandle::Owned(Arc::new(socket)), shared };
    sockets.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_socket_has_a_shard_and_every_shard_a_socket() {
        for (sockets, shards) in [(1, 1), (1, 4), (4, 4), (4, 2), (4, 3), (2, 4), (3, 4)] {
            let has = |number, socket| Shard { number, of: shards }.has(socket, sockets);
            for socket in 0..sockets {
                let takers = (0..shards).filter(|&number| has(number, socket)).count();
                assert!(
                    if sockets < shards { takers > 0 } else { takers == 1 },
                    "socket {socket} of {sockets}, {shards} shards"
                );
            }
            assert!((0..shards).all(|number| (0..sockets).any(|socket| has(number, socket))), "{sockets} {shards}");
        }
    }

    #[test]
    fn a_divided_shard_covers_what_it_did_before() {
        let mut parts: Vec<_> = (0..2).flat_map(|worker| (0..3).map(move |lane| (worker, lane))).collect();
        parts.sort_unstable();
        let shards: Vec<_> = parts.iter().map(|&(worker, lane)| Shard { number: worker, of: 2 }.part(lane, 3).number).collect();
        assert_eq!(shards, [0, 1, 2, 3, 4, 5]);
        assert_eq!(Shard::ONLY.part(1, 4), Shard { number: 1, of: 4 });
    }
}
