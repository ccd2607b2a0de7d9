//! The backend's state of each open socket.

use super::buffers::Chain;
use super::name::{GENERATIONS, Name, Operation};
use crate::Token;
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// The token of a socket before [`crate::Backend::open`]. No caller uses it.
pub(super) const UNOPENED: Token = Token(u64::MAX);

/// The number of sockets for which room is reserved at the start: as many as a worker has by default.
const ROOM: usize = 16 << 10;

/// One open socket. While idle, it owns no other memory.
#[derive(Debug)]
#[expect(clippy::box_collection, reason = "nearly every socket has neither collection, and a box takes a quarter of the room")]
pub(super) struct State {
    /// The caller's token for its events, or [`UNOPENED`].
    pub(super) token: Token,
    pub(super) descriptor: OwnedFd,
    /// Received bytes in the kernel's buffers; they follow those in `spilled`.
    pub(super) received: Chain,
    /// Received bytes that the caller did not take while they were in the kernel's buffers.
    pub(super) spilled: Option<Box<VecDeque<u8>>>,
    /// Bytes that were taken from the caller and for which the socket had no room.
    pub(super) unsent: Option<Box<VecDeque<u8>>>,
    /// A receive is armed.
    pub(super) receiving: bool,
    /// The socket has received something: the next receive stays armed.
    pub(super) lasting: bool,
    /// The kernel has been asked to report when something arrives.
    pub(super) polled: bool,
    /// If not 0: content arrives in bulk and is received without the ring, until this many receives in a row have been small.
    pub(super) in_bulk: u8,
    /// The kernel has been asked to report room.
    pub(super) watched: bool,
    /// The kernel has been asked to report a break.
    pub(super) guarded: bool,
    /// No receive must be armed: the socket has ended, the caller does not take its bytes, or it was given away.
    pub(super) paused: bool,
    /// The socket has unreceived bytes, as far as is known.
    pub(super) rest: bool,
    /// The peer has ended its side.
    pub(super) ended: bool,
    pub(super) broken: bool,
    /// The state of the far side. Bytes that the peer sent before may still have to be received.
    pub(super) far: Far,
    /// A send found the socket full, and no room has been reported since.
    pub(super) full: bool,
    /// A send of this socket is stored for the next turn.
    pub(super) queued: bool,
    /// The sending side must be ended after `unsent` has been sent.
    pub(super) end_after: bool,
    /// The caller has closed it.
    pub(super) closed: bool,
    /// Events for the next report.
    pub(super) noted: bool,
    pub(super) readable: bool,
    pub(super) writable: bool,
}

/// The state of the far side of a connection, as polling has reported it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Far {
    Open,
    Ended,
    Broken,
}

impl State {
    /// The descriptor's number, for operations.
    #[inline]
    pub(super) fn number(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    /// The operations that use the socket; it is closed only after they have ended.
    pub(super) fn pending(&self) -> impl Iterator<Item = Operation> + use<> {
        let receive = self.receiving.then_some(Operation::Receive);
        let ready = self.polled.then_some(Operation::Ready);
        let room = self.watched.then_some(Operation::Room);
        let guard = self.guarded.then_some(Operation::Break);
        [receive, ready, room, guard].into_iter().flatten()
    }

    fn new(descriptor: OwnedFd) -> Self {
        Self {
            token: UNOPENED,
            descriptor,
            received: Chain::EMPTY,
            spilled: None,
            unsent: None,
            receiving: false,
            lasting: false,
            polled: false,
            in_bulk: 0,
            watched: false,
            guarded: false,
            paused: false,
            rest: false,
            ended: false,
            broken: false,
            far: Far::Open,
            full: false,
            queued: false,
            end_after: false,
            closed: false,
            noted: false,
            readable: false,
            writable: false,
        }
    }
}

/// All open sockets, in places that are reused with a new generation.
#[derive(Default)]
pub(super) struct Sockets {
    places: Vec<SocketSlot>,
    free: Vec<u32>,
}

struct SocketSlot {
    generation: u32,
    state: Option<State>,
}

/// Names a socket: a place, and its generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) place: u32,
    pub(super) generation: u32,
}

impl Key {
    #[inline]
    pub(super) fn name(self, operation: Operation) -> u64 {
        Name { operation, place: self.place, generation: self.generation }.number()
    }
}

impl Sockets {
    pub(super) fn insert(&mut self, descriptor: OwnedFd) -> Key {
        if let Some(number) = self.free.pop() {
            let place = &mut self.places[number as usize];
            place.state = Some(State::new(descriptor));
            return Key { place: number, generation: place.generation };
        }
        if self.places.len() == self.places.capacity() {
            // At first reserve much: pages that no socket has touched cost nothing, but a table that moves leaves touched pages
            // behind. Then grow slowly: the memory for each socket should not depend on how far the number of sockets is from a
            // power of two.
            self.places.reserve_exact((self.places.len() / 4).max(ROOM));
        }
        self.places.push(SocketSlot { generation: 0, state: Some(State::new(descriptor)) });
        Key { place: (self.places.len() - 1) as u32, generation: 0 }
    }

    /// Frees a place. All its old names are invalid from now on.
    pub(super) fn remove(&mut self, key: Key) -> Option<State> {
        let place = self.places.get_mut(key.place as usize).filter(|place| place.generation == key.generation)?;
        let state = place.state.take()?;
        place.generation = (place.generation + 1) % GENERATIONS;
        self.free.push(key.place);
        Some(state)
    }

    #[inline]
    pub(super) fn find(&mut self, key: Key) -> Option<&mut State> {
        let place = self.places.get_mut(key.place as usize)?;
        if place.generation == key.generation { place.state.as_mut() } else { None }
    }

    /// The same, to look at.
    pub(super) fn get(&self, key: Key) -> Option<&State> {
        let place = self.places.get(key.place as usize)?;
        if place.generation == key.generation { place.state.as_ref() } else { None }
    }

    /// The state of a socket that its owner has not closed.
    #[inline]
    pub(super) fn find_open(&mut self, key: Key) -> Option<&mut State> {
        self.find(key).filter(|state| !state.closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_socket_costs_little() {
        // The engine's own part of a connection takes the rest of 512 bytes: see its test.
        assert!(size_of::<SocketSlot>() <= 64, "{} bytes", size_of::<SocketSlot>());
    }

    #[test]
    fn a_place_is_used_again_under_another_name() {
        let descriptor = || std::fs::File::open("/dev/null").expect("it is there").into();
        let mut sockets = Sockets::default();
        let first = sockets.insert(descriptor());
        assert!(sockets.remove(first).is_some());
        let second = sockets.insert(descriptor());
        assert_eq!(second.place, first.place);
        assert_ne!(second.generation, first.generation);
        assert!(sockets.find(first).is_none());
        assert!(sockets.remove(first).is_none(), "what is out of date removes nothing");
        assert!(sockets.find(second).is_some());
    }
}
