//! Listeners: connections that the ring accepts in advance, and connections that are reported to the caller, which accepts
//! them without the ring.
//!
//! There are multishot accepts, like receives that stay armed. But a multishot accept takes every connection, even if other
//! lanes share the listener, and does not report the peer's address. So a few single accepts are armed instead, each with room
//! for an address. Where lanes share a listener, each lane arms one. The kernel wakes these accepts in turn, because an accept
//! that has completed goes to the end of the line when it is armed again.
//!
//! A lane whose app may keep it busy arms no accept, and only gets a report that a connection waits. A connection that its ring
//! had accepted would have to wait for the app although other lanes are idle.
//!
//! The kernel reports a connection to one armed accept, of any process. It cancels the accepts of a killed process only some
//! time after the end of the process. A connection that was reported to such an accept would stay in the queue until the next
//! connection comes. So a lane that may replace a killed lane arms no accept at first, and polls the listener: the kernel
//! notifies a poll in any case.

use super::name::{GENERATIONS, Name, Operation};
use super::ring::ACCEPTS;
use super::{Socket, Uring};
use crate::{Accepted, Event, Peer};
use rustix::event::PollFlags;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// Under load, one accept is armed for this many completions of the last turn. With fewer accepts, the queue of the listener
/// would overflow while the lane is busy with its connections.
const COMPLETIONS_PER_ACCEPT: usize = 8;

/// The time for which listeners are only polled after another process may have been killed. In experiments the accepts of the
/// killed process were gone within milliseconds. A second is much longer, and costs a busy lane one more call for each
/// connection of its first second.
const CAUTION: Duration = Duration::from_secs(1);

/// All listeners, and the accepts that are armed.
#[derive(Default)]
pub(super) struct Listeners {
    all: Vec<Listener>,
    /// The listener of each armed accept.
    accepts: [Accept; ACCEPTS],
    /// No accept is armed until this time. `None` if accepts may be armed.
    cautious_until: Option<Instant>,
}

/// One listener.
struct Listener {
    descriptor: RawFd,
    generation: u32,
    /// The caller wants reports of connections.
    wanted: bool,
    /// The kernel has been asked to report waiting connections.
    polled: bool,
    /// The number of accepts that may be armed under little load.
    ahead: usize,
    /// Accepts that are armed.
    armed: usize,
    /// An accept in advance has failed: before the next one, the listener is polled until a connection waits.
    asks_first: bool,
    /// Accepted connections that the caller has not taken yet.
    taken: VecDeque<(OwnedFd, Peer)>,
}

/// One place for an accept.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Accept {
    #[default]
    Free,
    Armed(usize),
    Cancelled(usize),
}

impl Listener {
    fn new() -> Self {
        Self {
            descriptor: -1,
            generation: 0,
            wanted: false,
            polled: false,
            ahead: 0,
            armed: 0,
            asks_first: false,
            taken: VecDeque::new(),
        }
    }

    fn poll_name(&self, number: usize) -> u64 {
        Name { operation: Operation::Connection, place: number as u32, generation: self.generation }.number()
    }
}

fn accept_name(place: usize) -> u64 {
    Name { operation: Operation::Accept, place: place as u32, generation: 0 }.number()
}

impl Uring {
    pub(super) fn begin_listening(&mut self, number: usize, socket: BorrowedFd<'_>) {
        let listener = self.listener(number);
        listener.descriptor = socket.as_raw_fd();
        listener.wanted = true;
    }

    pub(super) fn set_accepts_ahead(&mut self, number: usize, most: usize) {
        self.listener(number).ahead = most.min(ACCEPTS);
    }

    pub(super) fn poll_listeners_first(&mut self) {
        self.listeners.cautious_until = Some(Instant::now() + CAUTION);
    }

    fn listener(&mut self, number: usize) -> &mut Listener {
        let all = &mut self.listeners.all;
        while all.len() <= number {
            all.push(Listener::new());
        }
        &mut all[number]
    }

    /// Stops the reports. Armed accepts are cancelled with the next turn, unless listening has begun again.
    pub(super) fn end_listening(&mut self, number: usize) {
        if let Some(listener) = self.listeners.all.get_mut(number) {
            listener.wanted = false;
        }
    }

    pub(super) fn end_all_listening(&mut self) {
        self.listeners.all.iter_mut().for_each(|listener| listener.wanted = false);
    }

    /// Hands the operations for the listeners to the kernel.
    pub(super) fn hand_over_listeners(&mut self) -> io::Result<()> {
        let listeners = &mut self.listeners;
        listeners.cautious_until.take_if(|until| Instant::now() >= *until);
        let trusts = listeners.cautious_until.is_none();
        for number in 0..listeners.all.len() {
            let listener = &mut listeners.all[number];
            let most = match listener.ahead {
                1.. if trusts && listener.wanted && !listener.asks_first => {
                    listener.ahead.max(self.completed / COMPLETIONS_PER_ACCEPT)
                }
                _ => 0,
            };
            let to_poll = listener.wanted && most == 0;
            if to_poll && !listener.polled {
                let name = listener.poll_name(number);
                self.ring.poll(listener.descriptor, PollFlags::IN.bits() as i16, false, name)?;
                listener.polled = true;
            } else if !to_poll && listener.polled {
                self.ring.cancel(listener.poll_name(number), Name::INDIFFERENT.number())?;
                listener.generation = (listener.generation + 1) % GENERATIONS;
                listener.polled = false;
            }
            if listener.armed < most {
                for (place, accept) in listeners.accepts.iter_mut().enumerate() {
                    if *accept == Accept::Free {
                        self.ring.accept(listener.descriptor, place, accept_name(place))?;
                        *accept = Accept::Armed(number);
                        listener.armed += 1;
                    }
                    if listener.armed >= most {
                        break;
                    }
                }
            } else if !listener.wanted && listener.armed > 0 {
                for (place, accept) in listeners.accepts.iter_mut().enumerate() {
                    if *accept == Accept::Armed(number) {
                        self.ring.cancel(accept_name(place), Name::INDIFFERENT.number())?;
                        *accept = Accept::Cancelled(number);
                    }
                }
            }
        }
        Ok(())
    }

    /// Handles the completion of an accept.
    pub(super) fn has_accepted(&mut self, place: usize, result: i32) {
        let (Accept::Armed(number) | Accept::Cancelled(number)) = std::mem::take(&mut self.listeners.accepts[place]) else {
            return;
        };
        let listener = &mut self.listeners.all[number];
        listener.armed -= 1;
        match self.ring.accepted(place, result) {
            Some(connection) => listener.taken.push_back(connection),
            // A lack of descriptors is an error only when a connection waits.
            None => listener.asks_first |= result != -libc::ECANCELED,
        }
    }

    /// Notes that a connection waits at a listener, unless the poll has failed.
    pub(super) fn is_waited_at(&mut self, number: usize, generation: u32, result: i32) {
        let Some(listener) = self.listeners.all.get_mut(number).filter(|listener| listener.generation == generation) else {
            return;
        };
        listener.polled = false;
        if result > 0 && listener.wanted {
            self.others.push(Event::Connection(number));
        }
    }

    /// Whether there are accepted connections that the caller wants to have reported.
    pub(super) fn has_connections(&self) -> bool {
        self.listeners.all.iter().any(|listener| listener.wanted && !listener.taken.is_empty())
    }

    pub(super) fn report_connections(&mut self) {
        for (number, listener) in self.listeners.all.iter().enumerate() {
            if listener.wanted && !listener.taken.is_empty() {
                self.others.push(Event::Connection(number));
            }
        }
    }

    pub(super) fn accept_from(&mut self, number: usize, socket: BorrowedFd<'_>) -> Accepted<Socket> {
        let trusts = self.listeners.cautious_until.is_none();
        if let Some(listener) = self.listeners.all.get_mut(number) {
            if let Some((descriptor, peer)) = listener.taken.pop_front() {
                return Accepted::Connection(Socket(self.sockets.insert(descriptor)), peer);
            }
            if trusts && listener.wanted && listener.ahead > 0 && !listener.asks_first {
                return Accepted::None;
            }
        }
        let accepted = match crate::accept::accept(socket) {
            // Closed descriptors become free only when the close has been handed to the kernel.
            Accepted::Exhausted(_) if !self.to_close.is_empty() && self.turn().is_ok() => crate::accept::accept(socket),
            other => other,
        };
        match accepted {
            Accepted::Connection(descriptor, peer) => {
                if let Some(listener) = self.listeners.all.get_mut(number) {
                    listener.asks_first = false;
                }
                Accepted::Connection(Socket(self.sockets.insert(descriptor)), peer)
            }
            Accepted::None => Accepted::None,
            Accepted::Exhausted(error) => Accepted::Exhausted(error),
        }
    }

    /// Takes a connection that was accepted in advance, after the end of listening.
    pub(super) fn take_accepted_from(&mut self, number: usize, socket: BorrowedFd<'_>) -> Accepted<Socket> {
        // If this fails, the next wait also fails.
        let _ = self.disarm_accepts(number, socket);
        match self.listeners.all.get_mut(number).and_then(|listener| listener.taken.pop_front()) {
            Some((descriptor, peer)) => Accepted::Connection(Socket(self.sockets.insert(descriptor)), peer),
            None => Accepted::None,
        }
    }

    /// Cancels all accepts of a listener.
    fn disarm_accepts(&mut self, number: usize, socket: BorrowedFd<'_>) -> io::Result<()> {
        let count = |uring: &Self| uring.listeners.all.get(number).map_or((0, 0), |all| (all.armed, all.taken.len()));
        let (armed, taken) = count(self);
        if armed == 0 {
            return Ok(());
        }
        self.hand_over_listeners()?;
        while count(self).0 > 0 {
            self.ring.enter(true, None)?;
            self.take_completions()?;
        }
        // The kernel reports a connection to one waiting accept. If that accept was cancelled at the same moment, the
        // connection is reported nowhere else. So as many connections are looked for as accepts were cancelled.
        for _ in count(self).1 - taken..armed {
            let Accepted::Connection(descriptor, peer) = crate::accept::accept(socket) else { break };
            self.listeners.all[number].taken.push_back((descriptor, peer));
        }
        Ok(())
    }
}
