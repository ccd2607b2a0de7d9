//! The io_uring backend: receives that stay armed, and sends that are submitted together.
//!
//! While the backend waits for input of a socket, one receive is armed for it. The kernel puts the bytes into a buffer of a
//! group that all sockets share; the backend reports them, and `receive` copies them out. An idle socket holds no buffer.
//! Small sends are kept, and the call that waits for events hands them to the kernel, so a loop over many connections makes
//! one system call for all of them. Sends that are too large to be copied go out at once, without the ring, by the calls that
//! the epoll backend uses.
//!
//! Peculiarities:
//! * The first receive of a socket does not stay armed: many connections have one request, and cancelling the receive would
//!   cost more than arming another for those that have a second.
//! * Content in bulk is not received by the ring, which would have to copy it: the socket is polled, as with epoll, until the
//!   connection has small requests again.
//! * If the kernel could not send everything, the backend learns it only after it has taken the bytes from the caller. The
//!   backend keeps the rest, at most one send for each socket, and sends it as soon as there is room, even if the socket is
//!   closed meanwhile.

mod address;
mod buffers;
mod lent;
mod listening;
mod name;
mod refusal;
mod ring;
mod sending;
mod sockets;
mod turn;

pub use refusal::Refusal;

use crate::clock::{monotonic, wall, whole_milliseconds};
use crate::{Accepted, Attempt, Backend, Direction, Event, KernelBackend, Restricted, Token, Waiter, calls};
use buffers::Chain;
use listening::Listeners;
use name::{Name, Operation};
use ring::Ring;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use sending::Outgoing;
use sockets::{Key, Sockets, State, UNOPENED};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

/// A loop over io_uring. Only the thread that made it can use it: the kernel refuses others.
pub struct Uring {
    ring: Ring,
    sockets: Sockets,
    listeners: Listeners,
    watched: Option<RawFd>,
    doorbells: Vec<RawFd>,
    now: Duration,
    /// Sockets for which a receive must be armed.
    to_receive: Vec<Key>,
    /// Full sockets, whose room the kernel must report.
    to_watch: Vec<Key>,
    /// Sockets whose peer has ended its side, and whose break the kernel must report.
    to_break: Vec<Key>,
    /// Sends for the next call.
    outgoing: Vec<Outgoing>,
    /// Sockets closed by the caller, not yet by the kernel.
    to_close: Vec<Key>,
    /// Sockets closed by the caller with unsent bytes, and the time to give up.
    lingering: Vec<(Key, Duration)>,
    /// Names of operations that must be cancelled.
    to_cancel: Vec<u64>,
    /// Sockets with events for the next report.
    news: Vec<Key>,
    /// Events for the next report that concern no socket.
    others: Vec<Event>,
    /// Sockets of the last report.
    told: Vec<Key>,
    /// Completions of the last turn.
    completed: usize,
}

/// A connection's socket. The backend keeps its state.
#[derive(Debug)]
pub struct Socket(Key);

/// A waiter at the ring of a [`Uring`]. It may wait in another thread, but the backend stays in the thread that made it.
pub struct UringWaiter {
    ring: OwnedFd,
    found: bool,
}

impl Uring {
    /// Creates a ring.
    ///
    /// # Errors
    /// The reason why it is impossible.
    pub fn new() -> Result<Self, Refusal> {
        Ring::new().map(Self::over)
    }

    /// Creates a ring that accepts only the operations of this backend, whatever code uses the ring. So no code can use the
    /// ring to get around a filter of system calls.
    ///
    /// # Errors
    /// The reason why it is impossible.
    pub fn restricted() -> Result<Self, Refusal> {
        Ring::restricted().map(Self::over)
    }

    fn over(ring: Ring) -> Self {
        Self {
            ring,
            sockets: Sockets::default(),
            listeners: Listeners::default(),
            watched: None,
            doorbells: Vec::new(),
            now: monotonic(),
            to_receive: Vec::new(),
            to_watch: Vec::new(),
            to_break: Vec::new(),
            outgoing: Vec::new(),
            to_close: Vec::new(),
            lingering: Vec::new(),
            to_cancel: Vec::new(),
            news: Vec::new(),
            others: Vec::new(),
            told: Vec::new(),
            completed: 0,
        }
    }

    /// Cancels the armed receive, so that bytes that arrive from now on stay in the socket.
    fn disarm(&mut self, key: Key) -> io::Result<()> {
        let receiving = |uring: &mut Self| uring.sockets.find(key).is_some_and(|state| state.receiving);
        if receiving(self) {
            self.ring.cancel(key.name(Operation::Receive), Name::INDIFFERENT.number())?;
        }
        while receiving(self) {
            self.ring.enter(true, None)?;
            self.take_completions()?;
        }
        Ok(())
    }
}

impl KernelBackend for Uring {
    fn create(restricted: Restricted) -> io::Result<Self> {
        let ring = match restricted {
            Restricted::No => Self::new(),
            // A ring bypasses the filter of system calls, so it has its own restriction.
            Restricted::Yes => Self::restricted(),
        };
        Ok(ring?)
    }
}

impl Backend for Uring {
    type Socket = Socket;
    type Waiter = UringWaiter;

    #[inline]
    fn sends_at_once(&self) -> bool {
        false
    }

    fn name(&self) -> &'static str {
        "io_uring"
    }

    #[inline]
    fn now(&self) -> Duration {
        self.now
    }

    fn read_clock(&mut self) {
        self.now = monotonic();
    }

    fn wall_clock(&self) -> Duration {
        wall()
    }

    fn be_cautious(&mut self) {
        self.poll_listeners_first();
    }

    fn accept_ahead(&mut self, listener: usize, most: usize) -> bool {
        self.set_accepts_ahead(listener, most);
        most > 0
    }

    fn listen(&mut self, listener: usize, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.begin_listening(listener, socket);
        Ok(())
    }

    fn unlisten(&mut self, listener: usize, _socket: BorrowedFd<'_>) -> io::Result<()> {
        self.end_listening(listener);
        Ok(())
    }

    fn take_accepted(&mut self, listener: usize, socket: BorrowedFd<'_>) -> Accepted<Socket> {
        self.take_accepted_from(listener, socket)
    }

    fn watch(&mut self, pipe: BorrowedFd<'_>) -> io::Result<()> {
        self.watched = Some(pipe.as_raw_fd());
        self.watch_again()
    }

    fn watch_doorbell(&mut self, doorbell: BorrowedFd<'_>) -> io::Result<()> {
        self.doorbells.push(doorbell.as_raw_fd());
        self.watch_doorbell_again(self.doorbells.len() - 1)
    }

    fn accept(&mut self, listener: usize, socket: BorrowedFd<'_>) -> Accepted<Socket> {
        self.accept_from(listener, socket)
    }

    fn open(&mut self, socket: &mut Socket, token: Token) -> io::Result<()> {
        let state = self.sockets.find(socket.0).ok_or(io::ErrorKind::NotConnected)?;
        state.token = token;
        self.to_receive.push(socket.0);
        Ok(())
    }

    #[inline]
    fn receive(&mut self, socket: &mut Socket, buffer: &mut [u8]) -> Attempt {
        let Some(state) = self.sockets.find(socket.0) else { return Attempt::Broken };
        let mut count = 0;
        if state.spilled.is_some() {
            count = take_spilled(state, buffer);
            if state.spilled.is_none() && state.paused && !state.ended && !state.broken {
                state.paused = false;
                self.to_receive.push(socket.0);
            }
        }
        count += self.ring.buffers.take(&mut state.received, &mut buffer[count..]);
        let finished = state.ended || state.broken;
        if count == buffer.len() || (count > 0 && (finished || !state.rest)) {
            return Attempt::Done(count);
        }
        if finished {
            return if state.ended { Attempt::End } else { Attempt::Broken };
        }
        // All bytes that the ring has received are taken: the bytes in the socket come next.
        let room = buffer.len() - count;
        match calls::receive(&state.descriptor, &mut buffer[count..]) {
            Ok(0) => state.ended = true,
            Ok(more) => {
                state.rest = more == room;
                if state.in_bulk > 0 {
                    self.received_in_bulk(socket.0, more, more < room);
                }
                return Attempt::Done(count + more);
            }
            Err(Errno::AGAIN) => state.rest = false,
            Err(_) => state.broken = true,
        }
        match (count, state.ended, state.broken) {
            (1.., false, false) => Attempt::Done(count),
            (1.., ..) => {
                // No receive will be armed that could report the end or the break, so the next report names the socket.
                state.readable = true;
                self.note(socket.0);
                Attempt::Done(count)
            }
            (0, true, _) => Attempt::End,
            (0, _, true) => Attempt::Broken,
            (0, ..) => Attempt::Later,
        }
    }

    #[inline]
    fn send(&mut self, socket: &mut Socket, buffer: &[u8]) -> Attempt {
        self.send_all(socket.0, &[IoSlice::new(buffer)], buffer.len())
    }

    fn send_gathered(&mut self, socket: &mut Socket, buffers: &[IoSlice<'_>]) -> Attempt {
        self.send_all(socket.0, buffers, buffers.iter().map(|buffer| buffer.len()).sum())
    }

    fn send_file(&mut self, socket: &mut Socket, file: BorrowedFd<'_>, offset: u64, size: usize) -> Attempt {
        self.send_file_now(socket.0, file, offset, size)
    }

    fn guard(&mut self, socket: &mut Socket, on: bool) {
        if let Some(state) = self.sockets.find(socket.0) {
            calls::guard(&state.descriptor, on);
        }
    }

    fn local_address(&self, socket: &Socket) -> Option<SocketAddr> {
        calls::local_address(&self.sockets.get(socket.0)?.descriptor)
    }

    fn shutdown(&mut self, socket: &mut Socket, direction: Direction) {
        self.end_side(socket.0, direction);
    }

    fn close(&mut self, socket: Socket) {
        let Some(state) = self.sockets.find(socket.0) else { return };
        state.closed = true;
        state.spilled = None;
        let received = std::mem::replace(&mut state.received, Chain::EMPTY);
        self.ring.buffers.drop_chain(received);
        self.to_close.push(socket.0);
    }

    fn give_away(&mut self, socket: &mut Socket) -> io::Result<(OwnedFd, Vec<u8>)> {
        self.submit();
        self.disarm(socket.0)?;
        let state = self.sockets.find(socket.0).ok_or(io::ErrorKind::NotConnected)?;
        if state.unsent.is_some() {
            self.to_receive.push(socket.0);
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, "bytes of the connection wait in the ring to be sent"));
        }
        let copy = calls::blocking_copy(&state.descriptor)?;
        // Bytes that arrive from now on belong to the owner of the copy, and are reported to no other code.
        state.paused = true;
        state.token = UNOPENED;
        self.to_cancel.extend(state.pending().map(|operation| socket.0.name(operation)));
        let mut received = state.spilled.take().map_or_else(Vec::new, |bytes| Vec::from(*bytes));
        let (before, more) = (received.len(), self.ring.buffers.size(state.received));
        received.resize(before + more, 0);
        self.ring.buffers.take(&mut state.received, &mut received[before..]);
        Ok((copy, received))
    }

    fn adopt(&mut self, connection: OwnedFd) -> io::Result<Socket> {
        rustix::io::ioctl_fionbio(&connection, true)?;
        Ok(Socket(self.sockets.insert(connection)))
    }

    fn submit(&mut self) {
        if !self.outgoing.is_empty() || !self.to_close.is_empty() {
            // If this fails, the next wait also fails.
            let _ = self.turn();
        }
    }

    fn wait(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        let patient = timeout != Some(Duration::ZERO);
        self.spill();
        let outcome = self.look(patient, timeout);
        self.now = monotonic();
        outcome?;
        self.give_up_lingering();
        self.report(events);
        Ok(())
    }

    fn waiter(&self) -> io::Result<UringWaiter> {
        Ok(UringWaiter { ring: self.ring.as_fd().try_clone_to_owned()?, found: false })
    }

    fn collect(&mut self, waiter: &mut UringWaiter, events: &mut Vec<Event>) {
        if std::mem::take(&mut waiter.found) {
            // If this fails, the next wait also fails.
            let _ = self.wait(Some(Duration::ZERO), events);
        }
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        // Sends the bytes taken from the caller, and closes the sockets that the caller has closed.
        self.end_all_listening();
        let _ = self.hand_over_listeners();
        let _ = self.turn();
    }
}

impl Waiter for UringWaiter {
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        if self.found {
            return Ok(());
        }
        let timeout = timeout.map(whole_milliseconds);
        match poll(&mut [PollFd::new(&self.ring, PollFlags::IN)], timeout.as_ref()) {
            Ok(count) => self.found = count > 0,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

/// Moves bytes from `spilled` into `buffer`, and returns their number.
#[cold]
fn take_spilled(state: &mut State, buffer: &mut [u8]) -> usize {
    let Some(spilled) = &mut state.spilled else { return 0 };
    let count = spilled.len().min(buffer.len());
    for (place, byte) in buffer.iter_mut().zip(spilled.drain(..count)) {
        *place = byte;
    }
    if spilled.is_empty() {
        state.spilled = None;
    }
    count
}
