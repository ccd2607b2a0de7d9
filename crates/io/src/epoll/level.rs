//! The same loop over level-triggered epoll, for the study of I/O models: the kernel tells of a socket again and again, until it
//! has been received from or has no room left.
//!
//! A request costs the same calls as with edge triggering, as long as what is told is received at once. One that is not keeps the
//! kernel talking, so that it is muted until it has been received from, and interest in output lasts only until there is room:
//! both cost calls that edge triggering does without. Of the promises of a [`Backend`], one is not kept: while a socket has not
//! been received from, more input is no news.

use super::{blocking_copy, receive_from, send_file_to, send_gathered_to, send_to, shut_down, socket_interest};
use crate::accept::accept;
use crate::{Accepted, Attempt, Backend, Direction, Epoll, Event, Token, Waiter};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::SendFlags;
use std::io::{self, IoSlice};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

/// A loop over level-triggered epoll.
pub struct LevelEpoll {
    edge: Epoll,
    /// What is watched, by the numbers that the kernel knows it by.
    places: Vec<Option<Place>>,
    free: Vec<usize>,
    found: Vec<Event>,
}

/// A watched socket.
struct Place {
    descriptor: Rc<OwnedFd>,
    token: Token,
    opened: bool,
    /// It was reported readable and has not been received from since.
    told: bool,
    /// Input is not reported.
    muted: bool,
    /// A send has found the socket full.
    full: bool,
}

/// A connection's socket.
#[derive(Debug)]
pub struct LevelSocket {
    descriptor: Rc<OwnedFd>,
    place: Option<usize>,
}

/// Threads cannot share this loop.
#[derive(Debug)]
pub struct NoLevelWaiter;

impl Waiter for NoLevelWaiter {
    fn wait(&mut self, _timeout: Option<Duration>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl Place {
    fn interest(&self) -> EventFlags {
        let input = if self.muted { EventFlags::empty() } else { socket_interest() - EventFlags::ET };
        if self.full { input | EventFlags::OUT } else { input }
    }
}

impl LevelEpoll {
    /// Makes an epoll instance.
    ///
    /// # Errors
    /// The system's refusal.
    pub fn new() -> io::Result<Self> {
        Ok(Self { edge: Epoll::new()?, places: Vec::new(), free: Vec::new(), found: Vec::new() })
    }

    /// Tells the kernel what a place is to be watched for.
    fn watch_place(&mut self, number: usize) -> rustix::io::Result<()> {
        let Some(Some(place)) = self.places.get_mut(number) else { return Err(Errno::INVAL) };
        let data = EventData::new_u64(number as u64);
        let interest = place.interest();
        if place.opened {
            return epoll::modify(&self.edge.epoll, &place.descriptor, data, interest);
        }
        place.opened = true;
        epoll::add(&self.edge.epoll, &place.descriptor, data, interest)
    }

    fn settle(&mut self, socket: &mut LevelSocket, token: Token) -> usize {
        let place =
            Place { descriptor: Rc::clone(&socket.descriptor), token, opened: false, told: false, muted: false, full: false };
        let number = socket.place.or_else(|| self.free.pop()).unwrap_or(self.places.len());
        socket.place = Some(number);
        if number == self.places.len() {
            self.places.push(None);
        }
        self.places[number].get_or_insert(place).token = token;
        number
    }

    fn sent(&mut self, socket: &LevelSocket, result: rustix::io::Result<usize>) -> Attempt {
        match (result, socket.place) {
            (Ok(count), _) => Attempt::Done(count),
            (Err(Errno::AGAIN), Some(number)) => {
                let Some(Some(place)) = self.places.get_mut(number) else { return Attempt::Broken };
                if std::mem::replace(&mut place.full, true) {
                    return Attempt::Later;
                }
                if self.watch_place(number).is_ok() { Attempt::Later } else { Attempt::Broken }
            }
            _ => Attempt::Broken,
        }
    }

    /// What the kernel says of a place, as far as that is news.
    fn translate(&mut self, event: Event) -> io::Result<Option<Event>> {
        let Event::Socket { token: Token(number), readable, writable, ended, broken } = event else { return Ok(Some(event)) };
        let number = number as usize;
        let Some(Some(place)) = self.places.get_mut(number) else { return Ok(None) };
        let lags = readable && place.told && !broken;
        let heard = writable && place.full;
        place.muted |= lags;
        place.full &= !heard;
        place.told |= readable;
        let event = Event::Socket { token: place.token, readable: readable && !lags, writable, ended, broken };
        if lags || heard {
            self.watch_place(number)?;
        }
        Ok((!lags || heard).then_some(event))
    }
}

impl Backend for LevelEpoll {
    type Socket = LevelSocket;
    type Waiter = NoLevelWaiter;

    fn name(&self) -> &'static str {
        "epoll-level"
    }

    #[inline]
    fn now(&self) -> Duration {
        self.edge.now()
    }

    fn read_clock(&mut self) {
        self.edge.read_clock();
    }

    fn wall_clock(&self) -> Duration {
        self.edge.wall_clock()
    }

    fn listen(&mut self, listener: usize, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.edge.listen(listener, socket)
    }

    fn unlisten(&mut self, listener: usize, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.edge.unlisten(listener, socket)
    }

    /// The pipe is never read, so that this one descriptor is edge-triggered here, too.
    fn watch(&mut self, pipe: BorrowedFd<'_>) -> io::Result<()> {
        self.edge.watch(pipe)
    }

    fn accept(&mut self, _listener: usize, socket: BorrowedFd<'_>) -> Accepted<LevelSocket> {
        match accept(socket) {
            Accepted::Connection(descriptor, peer) => {
                Accepted::Connection(LevelSocket { descriptor: Rc::new(descriptor), place: None }, peer)
            }
            Accepted::None => Accepted::None,
            Accepted::Exhausted(error) => Accepted::Exhausted(error),
        }
    }

    fn adopt(&mut self, connection: OwnedFd) -> Option<LevelSocket> {
        Some(LevelSocket { descriptor: Rc::new(connection), place: None })
    }

    fn open(&mut self, socket: &mut LevelSocket, token: Token) -> io::Result<()> {
        let number = self.settle(socket, token);
        let opened = self.places[number].as_ref().is_some_and(|place| place.opened);
        if opened { Ok(()) } else { Ok(self.watch_place(number)?) }
    }

    fn put_off(&mut self, socket: &mut LevelSocket, token: Token) -> bool {
        self.settle(socket, token);
        true
    }

    #[inline]
    fn receive(&mut self, socket: &mut LevelSocket, buffer: &mut [u8]) -> Attempt {
        let size = buffer.len();
        let attempt = receive_from(&socket.descriptor, buffer);
        if let Some(number) = socket.place
            && let Some(Some(place)) = self.places.get_mut(number)
        {
            // Who has ended goes on being readable.
            place.told = attempt == Attempt::End;
            let empty = matches!(attempt, Attempt::Later) || matches!(attempt, Attempt::Done(count) if count < size);
            if empty && std::mem::take(&mut place.muted) && self.watch_place(number).is_err() {
                return Attempt::Broken;
            }
        }
        attempt
    }

    #[inline]
    fn send(&mut self, socket: &mut LevelSocket, buffer: &[u8]) -> Attempt {
        let result = send_to(&socket.descriptor, buffer, SendFlags::empty());
        self.sent(socket, result)
    }

    fn send_last(&mut self, socket: &mut LevelSocket, buffer: &[u8]) -> Attempt {
        let result = send_to(&socket.descriptor, buffer, SendFlags::MORE);
        self.sent(socket, result)
    }

    fn send_gathered(&mut self, socket: &mut LevelSocket, buffers: &[IoSlice<'_>]) -> Attempt {
        let result = send_gathered_to(&socket.descriptor, buffers);
        self.sent(socket, result)
    }

    fn send_file(&mut self, socket: &mut LevelSocket, file: BorrowedFd<'_>, offset: u64, size: usize) -> Attempt {
        match send_file_to(&socket.descriptor, file, offset, size) {
            Ok(0) => Attempt::End,
            result => self.sent(socket, result),
        }
    }

    fn shutdown(&mut self, socket: &mut LevelSocket, direction: Direction) {
        shut_down(&socket.descriptor, direction);
    }

    fn close(&mut self, socket: LevelSocket) {
        if let Some(number) = socket.place {
            // With the second reference goes the descriptor, and with it its registration.
            self.places[number] = None;
            self.free.push(number);
        }
    }

    fn duplicate(&mut self, socket: &mut LevelSocket) -> io::Result<OwnedFd> {
        blocking_copy(&socket.descriptor)
    }

    fn wait(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        let mut found = std::mem::take(&mut self.found);
        let waited = self.edge.wait(timeout, &mut found);
        for event in found.drain(..) {
            events.extend(self.translate(event)?);
        }
        self.found = found;
        waited
    }

    fn waiter(&self) -> io::Result<NoLevelWaiter> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn collect(&mut self, _waiter: &mut NoLevelWaiter, _events: &mut Vec<Event>) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn who_lags_behind_is_muted_until_he_has_caught_up() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let mut far = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
        let mut backend = LevelEpoll::new().expect("an epoll instance");
        let Accepted::Connection(mut socket, _) = backend.accept(0, listener.as_fd()) else { panic!("one waits") };
        backend.open(&mut socket, Token(77)).expect("it can be opened");
        let look = |backend: &mut LevelEpoll| {
            let mut events = Vec::new();
            backend.wait(Some(Duration::from_millis(20)), &mut events).expect("waiting works");
            (events.len(), backend.places[0].as_ref().is_some_and(|place| place.muted))
        };
        for _ in 0..3 {
            far.write_all(b"abc").expect("it is connected");
            assert_eq!(look(&mut backend), (1, false));
            assert_eq!(look(&mut backend), (0, true));
            assert_eq!(backend.receive(&mut socket, &mut [0; 3]), Attempt::Done(3));
            assert_eq!(backend.receive(&mut socket, &mut [0; 3]), Attempt::Later);
            assert_eq!(look(&mut backend), (0, false));
        }
        backend.close(socket);
    }
}
