//! A backend without a kernel: clients are byte queues, the clock is a number. Whole-server tests run on it in virtual time.
//!
//! A [`World`] holds the clients and the clock; a [`Sim`] is a backend in that world. Tests act as the world (connect, send,
//! let time pass) and then let the engine take its turns. [`Backend::wait`] never waits: it reports the changes. Where a
//! kernel would put the server to sleep, the world may act instead: see [`World::when_idle`].

use crate::{Accepted, Attempt, Backend, Direction, Event, Peer, Token, Waiter};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::time::Duration;

/// Everything outside the server: a clock and clients.
#[derive(Clone, Debug, Default)]
pub struct World(Rc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    now: Cell<Duration>,
    wires: RefCell<Vec<Wire>>,
    queue: RefCell<VecDeque<usize>>,
    listening: Cell<bool>,
    exhausted: Cell<bool>,
    wake: Cell<bool>,
    waits: Cell<u64>,
    opens: Cell<usize>,
    receives: Cell<usize>,
    vain_receives: Cell<usize>,
    sends: Cell<usize>,
    at_waits: Script,
    when_idle: Script,
}

type Act = Box<dyn FnMut(Option<Duration>)>;

/// A callback of the world.
#[derive(Default)]
struct Script(RefCell<Option<Act>>);

impl Script {
    fn set(&self, act: impl FnMut(Option<Duration>) + 'static) {
        self.0.replace(Some(Box::new(act)));
    }

    fn play(&self, timeout: Option<Duration>) {
        let Some(mut act) = self.0.take() else { return };
        act(timeout);
        self.0.borrow_mut().get_or_insert(act);
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Script")
    }
}

/// One connection, seen from outside the server.
#[derive(Debug)]
struct Wire {
    to_server: VecDeque<u8>,
    client_ended: bool,
    client_reset: bool,
    from_server: Vec<u8>,
    /// The number of bytes that the client's side still accepts.
    window: usize,
    server_ended: bool,
    server_closed: bool,
    server_aborted: bool,
    guarded: bool,
    token: Option<Token>,
    /// The token that the socket gets if a send finds it full before it was opened.
    put_off: Option<Token>,
    readable: bool,
    writable: bool,
    blocked: bool,
    port: u16,
    /// Bytes that the client sends at the moment at which the server ends its side or closes.
    late: Vec<u8>,
}

impl Wire {
    fn take_late(&mut self) {
        self.readable |= !self.late.is_empty();
        self.to_server.extend(std::mem::take(&mut self.late));
    }

    /// Reports changes from now on, and the current state first.
    fn open(&mut self, token: Token) {
        self.token = Some(token);
        self.readable = !self.to_server.is_empty() || self.client_ended || self.client_reset;
    }
}

/// The client's end of a connection.
#[derive(Clone, Debug)]
pub struct Client {
    world: World,
    index: usize,
}

impl World {
    /// An empty world at time zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Advances the clock.
    pub fn advance(&self, time: Duration) {
        self.0.now.set(self.0.now.get() + time);
    }

    /// Connects a client; its side accepts any number of bytes until [`Client::set_window`].
    #[must_use]
    pub fn connect(&self) -> Client {
        let mut wires = self.0.wires.borrow_mut();
        let index = wires.len();
        wires.push(Wire {
            to_server: VecDeque::new(),
            client_ended: false,
            client_reset: false,
            from_server: Vec::new(),
            window: usize::MAX,
            server_ended: false,
            server_closed: false,
            server_aborted: false,
            guarded: false,
            token: None,
            put_off: None,
            readable: false,
            writable: false,
            blocked: false,
            late: Vec::new(),
            port: 10_000 + (index % 50_000) as u16,
        });
        self.0.queue.borrow_mut().push_back(index);
        Client { world: self.clone(), index }
    }

    /// Sets whether accepting fails for lack of descriptors.
    pub fn set_exhausted(&self, exhausted: bool) {
        self.0.exhausted.set(exhausted);
    }

    /// Writes to the watched pipe.
    pub fn wake(&self) {
        self.0.wake.set(true);
    }

    /// Calls `act` whenever the server would sleep, with the time until it would wake up by itself (`None`: never). The same
    /// wait reports the effects of `act`.
    pub fn when_idle(&self, act: impl FnMut(Option<Duration>) + 'static) {
        self.0.when_idle.set(act);
    }

    /// Calls `act` whenever the server looks for events, busy or not.
    pub fn before_waits(&self, mut act: impl FnMut() + 'static) {
        self.0.at_waits.set(move |_| act());
    }

    /// The number of waits of the server. A server that spins waits often.
    #[must_use]
    pub fn waits(&self) -> u64 {
        self.0.waits.get()
    }

    /// The number of connections that have been opened.
    #[must_use]
    pub fn opens(&self) -> usize {
        self.0.opens.get()
    }

    /// The number of receives that have returned bytes.
    #[must_use]
    pub fn receives(&self) -> usize {
        self.0.receives.get()
    }

    /// The number of sends, of any kind.
    #[must_use]
    pub fn sends(&self) -> usize {
        self.0.sends.get()
    }

    /// The number of receives that have returned nothing.
    #[must_use]
    pub fn vain_receives(&self) -> usize {
        self.0.vain_receives.get()
    }

    /// The number of connections that wait to be accepted.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.0.queue.borrow().len()
    }

    /// Whether the server accepts connections.
    #[must_use]
    pub fn listening(&self) -> bool {
        self.0.listening.get()
    }

    fn report(&self, events: &mut Vec<Event>) {
        if self.0.wake.take() {
            events.push(Event::Wake);
        }
        if self.0.listening.get() && !self.0.queue.borrow().is_empty() {
            events.push(Event::Connection(0));
        }
        for wire in self.0.wires.borrow_mut().iter_mut() {
            let Some(token) = wire.token else { continue };
            if !wire.readable && !wire.writable {
                continue;
            }
            events.push(Event::Socket {
                token,
                readable: std::mem::take(&mut wire.readable),
                writable: std::mem::take(&mut wire.writable),
                ended: wire.client_ended || wire.client_reset,
                broken: wire.client_reset,
            });
        }
    }

    fn wire<T>(&self, index: usize, act: impl FnOnce(&mut Wire) -> T) -> T {
        act(&mut self.0.wires.borrow_mut()[index])
    }
}

impl Client {
    /// Sends bytes to the server. If the server has closed the connection, the bytes break it.
    pub fn send(&self, bytes: &[u8]) {
        self.world.wire(self.index, |wire| {
            if wire.server_closed {
                // As with TCP without a receiver.
                wire.server_aborted = true;
                return;
            }
            wire.to_server.extend(bytes);
            wire.readable = true;
        });
    }

    /// Sends bytes at the moment at which the server ends its side or closes: this client cannot know of that yet.
    pub fn send_late(&self, bytes: &[u8]) {
        self.world.wire(self.index, |wire| wire.late.extend(bytes));
    }

    /// Ends the sending side.
    pub fn end(&self) {
        self.world.wire(self.index, |wire| {
            wire.client_ended = true;
            wire.readable = true;
        });
    }

    /// Breaks the connection.
    pub fn reset(&self) {
        self.world.wire(self.index, |wire| {
            wire.client_reset = true;
            wire.readable = true;
        });
    }

    /// Sets the number of further bytes that this side accepts.
    pub fn set_window(&self, bytes: usize) {
        self.world.wire(self.index, |wire| {
            wire.window = bytes;
            let waits = wire.blocked || wire.writable;
            wire.writable = waits && bytes > 0;
            wire.blocked = waits && bytes == 0;
        });
    }

    /// All bytes that the server has sent since the last call.
    #[must_use]
    pub fn received(&self) -> Vec<u8> {
        self.world.wire(self.index, |wire| std::mem::take(&mut wire.from_server))
    }

    /// Whether the server has ended its side cleanly, by closing or by shutting down.
    #[must_use]
    pub fn saw_end(&self) -> bool {
        self.world.wire(self.index, |wire| (wire.server_ended || wire.server_closed) && !wire.server_aborted)
    }

    /// Whether the server broke the connection.
    #[must_use]
    pub fn saw_reset(&self) -> bool {
        self.world.wire(self.index, |wire| wire.server_closed && wire.server_aborted)
    }

    /// Whether the server has closed its socket in any way.
    #[must_use]
    pub fn closed(&self) -> bool {
        self.world.wire(self.index, |wire| wire.server_closed)
    }
}

/// A backend in a [`World`].
#[derive(Debug)]
pub struct Sim {
    world: World,
    /// The time of the last read of the clock, as in a real loop.
    now: Duration,
}

impl Sim {
    /// A backend in `world`.
    #[must_use]
    pub fn new(world: &World) -> Self {
        Self { world: world.clone(), now: world.0.now.get() }
    }

    fn push(&self, index: usize, bytes: &mut dyn Iterator<Item = u8>) -> Attempt {
        self.world.0.sends.set(self.world.0.sends.get() + 1);
        self.world.wire(index, |wire| {
            if wire.client_reset {
                return Attempt::Broken;
            }
            let before = wire.from_server.len();
            let window = wire.window;
            wire.from_server.extend(bytes.take(window));
            let count = wire.from_server.len() - before;
            wire.window -= count.min(window);
            if count == 0 {
                wire.blocked = true;
                if let (None, Some(token)) = (wire.token, wire.put_off) {
                    wire.open(token);
                }
                return Attempt::Later;
            }
            Attempt::Done(count)
        })
    }
}

impl Backend for Sim {
    type Socket = usize;
    type Waiter = SimWaiter;

    fn name(&self) -> &'static str {
        "sim"
    }

    fn now(&self) -> Duration {
        self.now
    }

    fn read_clock(&mut self) {
        self.now = self.world.0.now.get();
    }

    fn wall_clock(&self) -> Duration {
        // 21 November 2026, 00:00:00 UTC, is time zero.
        Duration::from_secs(1_795_219_200) + self.world.0.now.get()
    }

    fn listen(&mut self, _listener: usize, _socket: BorrowedFd<'_>) -> io::Result<()> {
        self.world.0.listening.set(true);
        Ok(())
    }

    fn unlisten(&mut self, _listener: usize, _socket: BorrowedFd<'_>) -> io::Result<()> {
        self.world.0.listening.set(false);
        Ok(())
    }

    fn watch(&mut self, _pipe: BorrowedFd<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Does nothing: code that rings in this world also calls [`World::wake`].
    fn watch_doorbell(&mut self, _bell: BorrowedFd<'_>) -> io::Result<()> {
        Ok(())
    }

    fn is_waited_at(&self, _listener: usize, _socket: BorrowedFd<'_>) -> bool {
        !self.world.0.queue.borrow().is_empty()
    }

    fn accept(&mut self, _listener: usize, _socket: BorrowedFd<'_>) -> Accepted<usize> {
        if self.world.0.queue.borrow().is_empty() {
            return Accepted::None;
        }
        if self.world.0.exhausted.get() {
            return Accepted::Exhausted(io::Error::other("no descriptors in this world"));
        }
        match self.world.0.queue.borrow_mut().pop_front() {
            Some(index) => {
                let port = self.world.wire(index, |wire| wire.port);
                Accepted::Connection(index, Peer::Internet(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)))
            }
            None => Accepted::None,
        }
    }

    fn open(&mut self, socket: &mut usize, token: Token) -> io::Result<()> {
        self.world.0.opens.set(self.world.0.opens.get() + 1);
        self.world.wire(*socket, |wire| wire.open(token));
        Ok(())
    }

    fn put_off(&mut self, socket: &mut usize, token: Token) -> bool {
        self.world.wire(*socket, |wire| wire.put_off = Some(token));
        true
    }

    fn receive(&mut self, socket: &mut usize, buffer: &mut [u8]) -> Attempt {
        self.world.wire(*socket, |wire| {
            if wire.client_reset {
                return Attempt::Broken;
            }
            let count = buffer.len().min(wire.to_server.len());
            if count == 0 {
                self.world.0.vain_receives.set(self.world.0.vain_receives.get() + 1);
                return if wire.client_ended { Attempt::End } else { Attempt::Later };
            }
            self.world.0.receives.set(self.world.0.receives.get() + 1);
            for (place, byte) in buffer.iter_mut().zip(wire.to_server.drain(..count)) {
                *place = byte;
            }
            if wire.to_server.is_empty() {
                // Frees the memory, because tests that count memory mean the server's.
                wire.to_server = VecDeque::new();
            }
            Attempt::Done(count)
        })
    }

    fn send(&mut self, socket: &mut usize, buffer: &[u8]) -> Attempt {
        self.push(*socket, &mut buffer.iter().copied())
    }

    fn send_gathered(&mut self, socket: &mut usize, buffers: &[IoSlice<'_>]) -> Attempt {
        self.push(*socket, &mut buffers.iter().flat_map(|buffer| buffer.iter().copied()))
    }

    fn send_file(&mut self, socket: &mut usize, file: BorrowedFd<'_>, offset: u64, size: usize) -> Attempt {
        let mut bytes = vec![0; size.min(64 << 10)];
        let Ok(file) = file.try_clone_to_owned() else { return Attempt::Broken };
        match std::fs::File::from(file).read_at(&mut bytes, offset) {
            Ok(0) => Attempt::End,
            Ok(count) => self.push(*socket, &mut bytes[..count].iter().copied()),
            Err(_) => Attempt::Broken,
        }
    }

    fn guard(&mut self, socket: &mut usize, on: bool) {
        self.world.wire(*socket, |wire| wire.guarded = on);
    }

    fn shutdown(&mut self, socket: &mut usize, direction: Direction) {
        self.world.wire(*socket, |wire| match direction {
            Direction::Send => {
                wire.server_ended = true;
                wire.take_late();
            }
            Direction::Abort => wire.server_aborted = true,
        });
    }

    fn close(&mut self, socket: usize) {
        self.world.wire(socket, |wire| {
            wire.server_closed = true;
            wire.take_late();
            // As with TCP: bytes that were received and not read turn the close into a reset.
            wire.server_aborted |= !wire.to_server.is_empty() || wire.guarded;
            wire.token = None;
        });
    }

    fn give_away(&mut self, _socket: &mut usize) -> io::Result<(OwnedFd, Vec<u8>)> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    fn wait(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        self.world.0.waits.set(self.world.0.waits.get() + 1);
        self.world.0.at_waits.play(timeout);
        let before = events.len();
        self.world.report(events);
        if events.len() == before && timeout != Some(Duration::ZERO) {
            self.world.0.when_idle.play(timeout);
            self.world.report(events);
        }
        self.read_clock();
        Ok(())
    }

    fn waiter(&self) -> io::Result<SimWaiter> {
        Ok(SimWaiter)
    }

    fn collect(&mut self, _waiter: &mut SimWaiter, _events: &mut Vec<Event>) {}
}

/// Never finds anything: the world has one thread, so all events wait for [`Backend::wait`].
#[derive(Debug)]
pub struct SimWaiter;

impl Waiter for SimWaiter {
    fn wait(&mut self, _timeout: Option<Duration>) -> io::Result<()> {
        Ok(())
    }
}
