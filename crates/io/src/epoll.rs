//! The epoll backend: one edge-triggered registration for the life of a connection.
//!
//! A socket is registered once for input, edge-triggered, so a request costs one receive, one send and its share of an
//! `epoll_wait`. When a send first finds the socket full, interest in output is added, and stays: edge-triggered, it costs
//! nothing while there is nothing to report. Listeners are level-triggered and exclusive (`EPOLLEXCLUSIVE`), so a connection
//! wakes few of the workers that share a listener, and no connection is lost when a worker leaves the listener.

use crate::accept::accept;
use crate::clock::{monotonic, wall, whole_milliseconds};
use crate::{Accepted, Attempt, Backend, Direction, Event, KernelBackend, Restricted, Token, Waiter, brief, calls};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::SendFlags;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// The most events that one call fetches. With more, the first event of a batch would wait longer for its answer; with fewer,
/// there would be more calls.
const BATCH: usize = 256;
const WAKE: u64 = u64::MAX;
const DOORBELL: u64 = u64::MAX - 1;

/// A loop over epoll.
pub struct Epoll {
    epoll: OwnedFd,
    batch: Vec<epoll::Event>,
    /// The numbers of the listeners that this loop has left, until `take_accepted` looks for a connection there: one may wait
    /// that was reported to no other loop.
    left: Vec<usize>,
    now: Duration,
}

/// A waiter at the epoll instance of an [`Epoll`].
pub struct EpollWaiter {
    epoll: OwnedFd,
    found: Vec<Event>,
}

/// A connection's socket.
#[derive(Debug)]
pub struct Socket {
    descriptor: OwnedFd,
    token: Token,
    opened: bool,
    output_watched: bool,
}

impl Epoll {
    /// Creates an epoll instance.
    ///
    /// # Errors
    /// The kernel's refusal of an epoll instance.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            batch: Vec::with_capacity(BATCH),
            left: Vec::new(),
            now: monotonic(),
        })
    }

    /// Watches for room after a send has found the socket full.
    fn watch_output(&self, socket: &mut Socket) -> Attempt {
        if socket.output_watched {
            return Attempt::Later;
        }
        let (data, interest) = (EventData::new_u64(socket.token.0), socket_interest() | EventFlags::OUT);
        // Both calls arm the edge: if the socket has drained in the meantime, the event arrives at once.
        let watched = if socket.opened {
            epoll::modify(&self.epoll, &socket.descriptor, data, interest)
        } else {
            epoll::add(&self.epoll, &socket.descriptor, data, interest)
        };
        match watched {
            Ok(()) => {
                socket.opened = true;
                socket.output_watched = true;
                Attempt::Later
            }
            Err(_) => Attempt::Broken,
        }
    }

    fn sent(&self, socket: &mut Socket, result: rustix::io::Result<usize>) -> Attempt {
        match result {
            Ok(count) => Attempt::Done(count),
            Err(Errno::AGAIN) => self.watch_output(socket),
            Err(_) => Attempt::Broken,
        }
    }
}

impl KernelBackend for Epoll {
    fn create(_restricted: Restricted) -> io::Result<Self> {
        Self::new()
    }
}

impl Backend for Epoll {
    type Socket = Socket;
    type Waiter = EpollWaiter;

    /// A connection wakes one sleeping loop; loops that are awake when it arrives also get its event.
    #[inline]
    fn tells_one(&self) -> bool {
        true
    }

    fn name(&self) -> &'static str {
        "epoll"
    }

    #[inline]
    fn now(&self) -> Duration {
        self.now
    }

    #[inline]
    fn read_clock(&mut self) {
        self.now = monotonic();
    }

    fn wall_clock(&self) -> Duration {
        wall()
    }

    fn listen(&mut self, listener: usize, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.left.retain(|left| *left != listener);
        let data = EventData::new_u64(Token::LIMIT + listener as u64);
        Ok(epoll::add(&self.epoll, socket, data, EventFlags::IN | EventFlags::EXCLUSIVE)?)
    }

    fn unlisten(&mut self, listener: usize, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.left.push(listener);
        Ok(epoll::delete(&self.epoll, socket)?)
    }

    /// Takes at most one: the kernel wakes one sleeping loop for a connection, and reports it to others as well while that
    /// loop is awake. Taking more would take connections that were reported to those others.
    fn take_accepted(&mut self, listener: usize, socket: BorrowedFd<'_>) -> Accepted<Socket> {
        match self.left.iter().position(|left| *left == listener) {
            Some(place) => {
                self.left.swap_remove(place);
                self.accept(listener, socket)
            }
            None => Accepted::None,
        }
    }

    fn watch(&mut self, pipe: BorrowedFd<'_>) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, pipe, EventData::new_u64(WAKE), EventFlags::IN | EventFlags::ET)?)
    }

    fn watch_doorbell(&mut self, doorbell: BorrowedFd<'_>) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, doorbell, EventData::new_u64(DOORBELL), EventFlags::IN | EventFlags::ET)?)
    }

    fn accept(&mut self, _listener: usize, socket: BorrowedFd<'_>) -> Accepted<Socket> {
        match accept(socket) {
            Accepted::Connection(descriptor, peer) => Accepted::Connection(Socket::new(descriptor), peer),
            Accepted::None => Accepted::None,
            Accepted::Exhausted(error) => Accepted::Exhausted(error),
        }
    }

    fn open(&mut self, socket: &mut Socket, token: Token) -> io::Result<()> {
        socket.token = token;
        if !socket.opened {
            epoll::add(&self.epoll, &socket.descriptor, EventData::new_u64(token.0), socket_interest())?;
            socket.opened = true;
        }
        Ok(())
    }

    fn put_off(&mut self, socket: &mut Socket, token: Token) -> bool {
        socket.token = token;
        true
    }

    #[inline]
    fn receive(&mut self, socket: &mut Socket, buffer: &mut [u8]) -> Attempt {
        match calls::receive(&socket.descriptor, buffer) {
            Ok(0) => Attempt::End,
            Ok(count) => Attempt::Done(count),
            Err(Errno::AGAIN) => Attempt::Later,
            Err(_) => Attempt::Broken,
        }
    }

    #[inline]
    fn send(&mut self, socket: &mut Socket, buffer: &[u8]) -> Attempt {
        let result = calls::send(&socket.descriptor, buffer, SendFlags::empty());
        self.sent(socket, result)
    }

    /// Sends the last bytes so that the end of a connection needs no segment of its own, which saves a quarter of the
    /// kernel's work for a short connection.
    fn send_last(&mut self, socket: &mut Socket, buffer: &[u8]) -> Attempt {
        let result = calls::send(&socket.descriptor, buffer, SendFlags::MORE);
        self.sent(socket, result)
    }

    fn send_gathered(&mut self, socket: &mut Socket, buffers: &[IoSlice<'_>]) -> Attempt {
        let result = calls::send_gathered(&socket.descriptor, buffers);
        self.sent(socket, result)
    }

    fn send_file(&mut self, socket: &mut Socket, file: BorrowedFd<'_>, offset: u64, size: usize) -> Attempt {
        match calls::send_file(&socket.descriptor, file, offset, size) {
            Ok(0) => Attempt::End,
            result => self.sent(socket, result),
        }
    }

    fn guard(&mut self, socket: &mut Socket, on: bool) {
        calls::guard(&socket.descriptor, on);
    }

    fn local_address(&self, socket: &Socket) -> Option<SocketAddr> {
        calls::local_address(&socket.descriptor)
    }

    fn shutdown(&mut self, socket: &mut Socket, direction: Direction) {
        calls::shut_down(&socket.descriptor, direction);
    }

    fn close(&mut self, socket: Socket) {
        drop(socket);
    }

    fn give_away(&mut self, socket: &mut Socket) -> io::Result<(OwnedFd, Vec<u8>)> {
        let copy = calls::blocking_copy(&socket.descriptor)?;
        // Closing the descriptor would not end the registration, because epoll watches the connection, which lives on with the
        // copy.
        if socket.opened {
            epoll::delete(&self.epoll, &socket.descriptor)?;
        }
        (socket.opened, socket.output_watched) = (false, false);
        Ok((copy, Vec::new()))
    }

    fn adopt(&mut self, connection: OwnedFd) -> io::Result<Socket> {
        rustix::io::ioctl_fionbio(&connection, true)?;
        Ok(Socket::new(connection))
    }

    fn wait(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        self.batch.clear();
        let result = match timeout {
            Some(brief) if !brief.is_zero() && brief < Duration::from_millis(1) => {
                let brief = Timespec { tv_sec: 0, tv_nsec: brief.subsec_nanos().into() };
                brief::wait(self.epoll.as_fd(), &mut self.batch, brief)
            }
            timeout => {
                let timeout = timeout.map(whole_milliseconds);
                epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.batch), timeout.as_ref()).map(drop)
            }
        };
        self.now = monotonic();
        match result {
            Ok(()) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        events.extend(self.batch.iter().map(report));
        Ok(())
    }

    fn waiter(&self) -> io::Result<EpollWaiter> {
        Ok(EpollWaiter { epoll: self.epoll.try_clone()?, found: Vec::with_capacity(BATCH) })
    }

    fn collect(&mut self, waiter: &mut EpollWaiter, events: &mut Vec<Event>) {
        if !waiter.found.is_empty() {
            self.now = monotonic();
            events.append(&mut waiter.found);
        }
    }
}

impl Waiter for EpollWaiter {
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        if !self.found.is_empty() {
            return Ok(());
        }
        let mut batch = [const { MaybeUninit::uninit() }; BATCH];
        match epoll::wait(&self.epoll, &mut batch, timeout.map(whole_milliseconds).as_ref()) {
            Ok((news, _)) => self.found.extend(news.iter().map(report)),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.epoll.as_fd())
    }
}

/// Translates an event into the form of all backends.
fn report(event: &epoll::Event) -> Event {
    let flags = event.flags;
    match event.data.u64() {
        WAKE => Event::Wake,
        DOORBELL => Event::Doorbell,
        listener if listener >= Token::LIMIT => Event::Connection((listener - Token::LIMIT) as usize),
        token => {
            let ended = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
            Event::Socket {
                token: Token(token),
                readable: ended || flags.contains(EventFlags::IN),
                writable: flags.contains(EventFlags::OUT),
                ended,
                broken: flags.intersects(EventFlags::HUP | EventFlags::ERR),
            }
        }
    }
}

impl Socket {
    fn new(descriptor: OwnedFd) -> Self {
        Self { descriptor, token: Token(0), opened: false, output_watched: false }
    }

    /// The descriptor, for options of the socket itself.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

fn socket_interest() -> EventFlags {
    EventFlags::IN | EventFlags::RDHUP | EventFlags::ET
}
