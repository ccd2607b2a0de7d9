//! The libevent backend: its loop is an event base of the system's libevent.
//!
//! A socket has one event for input, edge-triggered and persistent. When a send first finds the socket full, the socket gets a
//! second event, for output. Callbacks only record events, so no event is added or removed from within a callback.
//!
//! Peculiarities:
//! * libevent reports a broken connection as readable and writable. If a socket was reported and the caller did not receive
//!   from it, which would have shown the break, the next wait with a timeout other than zero checks the socket once.
//! * Some of libevent's methods report only states (`poll`, `select`; `EVENT_NOEPOLL` selects these). With them, a socket
//!   that was reported and not received from is not watched until the caller receives from it; bytes that arrive meanwhile
//!   are not reported.
//! * libevent has no exclusive waiting: a connection wakes every worker that sleeps at the listener.
//! * An event base belongs to one thread and hides its descriptor, so no waiter is possible.

mod library;
mod socket;
mod state;

pub use socket::Socket;

use crate::clock::{monotonic, wall};
use crate::{Accepted, Attempt, Backend, Direction, Event, KernelBackend, Restricted, Token, Waiter, calls};
use library::{Base, EDGE, PERSIST, READ, Watch, event_bytes};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::SendFlags;
use state::State;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::CStr;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::rc::Rc;
use std::time::Duration;

/// A loop over libevent. It stays in the thread that made it.
pub struct Libevent {
    listeners: Vec<Option<Watch>>,
    wake: Option<Watch>,
    /// The timer that ends a wait in time. It may go off early, which is cheaper than setting it again for every wait.
    alarm: Watch,
    now: Duration,
    // Declared after the events, because their callbacks use it.
    loop_: Rc<Loop>,
}

/// The data that callbacks use.
struct Loop {
    base: Rc<Base>,
    /// The size of an event in bytes.
    event_bytes: usize,
    /// Whether the base reports changes; otherwise it reports states.
    edges: bool,
    /// The events of the current wait.
    events: RefCell<Vec<Event>>,
    /// Sockets that the last wait reported and that have not been received from since.
    told: RefCell<Vec<Option<NonNull<State>>>>,
    /// Events for output, by descriptor, of the sockets that a send has found full.
    outputs: RefCell<HashMap<RawFd, Watch>>,
    /// The number of the listener with each descriptor.
    numbers: RefCell<Vec<(RawFd, usize)>>,
    /// The time at which the alarm goes off.
    alarm_at: Cell<Option<Duration>>,
    /// An epoll instance that watches the pipe, for a base that reports states only. It reports only changes: the backend never
    /// reads from the pipe, so its state would be reported again and again.
    edge_of_wake: RefCell<Option<OwnedFd>>,
}

/// The type of a waiter that does not exist: see [`Backend::waiter`].
#[derive(Debug)]
pub enum NoWaiter {}

impl Waiter for NoWaiter {
    fn wait(&mut self, _timeout: Option<Duration>) -> io::Result<()> {
        match *self {}
    }
}

impl Libevent {
    /// Creates an event base with the best method that the system offers and the environment allows.
    ///
    /// # Errors
    /// An error of the system.
    pub fn new() -> io::Result<Self> {
        Self::avoiding(&[])
    }

    /// Like [`Libevent::new`], without these methods of libevent.
    ///
    /// # Errors
    /// An error of the system, or no method is left.
    pub fn avoiding(methods: &[&CStr]) -> io::Result<Self> {
        let base = Rc::new(Base::new(methods)?);
        let loop_ = Rc::new(Loop {
            edges: base.has_edges(),
            base,
            event_bytes: event_bytes(),
            outputs: RefCell::default(),
            events: RefCell::default(),
            told: RefCell::default(),
            numbers: RefCell::default(),
            alarm_at: Cell::new(None),
            edge_of_wake: RefCell::default(),
        });
        let alarm = loop_.watch(None, 0, callback::alarm)?;
        Ok(Self { listeners: Vec::new(), wake: None, alarm, now: monotonic(), loop_ })
    }

    /// libevent's polling method: `epoll`, `poll`.
    #[must_use]
    pub fn method(&self) -> &str {
        self.loop_.base.method()
    }

    /// Whether libevent reports changes rather than states.
    #[must_use]
    pub fn is_edge_triggered(&self) -> bool {
        self.loop_.edges
    }

    /// Checks the sockets that were reported and that the caller has not received from since.
    #[allow(unsafe_code)]
    fn look_at_unreceived(&self, events: &mut Vec<Event>) {
        let mut told = self.loop_.told.borrow_mut();
        for state in told.drain(..).flatten() {
            // SAFETY: a socket that is dropped takes its state out of the list.
            events.extend(unsafe { socket::look(state) });
        }
    }

    /// Ensures that a wait ends at `due`.
    fn set_alarm(&self, due: Duration) -> io::Result<()> {
        if self.loop_.alarm_at.get().is_some_and(|at| at <= due) {
            return Ok(());
        }
        self.alarm.add_timeout(due.saturating_sub(monotonic()))?;
        self.loop_.alarm_at.set(Some(due));
        Ok(())
    }

    /// Waits until there are more than `known` events, or `timeout` has passed.
    fn run(&mut self, timeout: Option<Duration>, known: usize) -> io::Result<()> {
        // The timeout counts from the last reading of the clock, because callers have computed it from that time.
        let due = timeout.map(|timeout| self.now.saturating_add(timeout));
        let has_news = |loop_: &Loop| loop_.events.borrow().len() > known;
        let patient = !has_news(&self.loop_) && timeout != Some(Duration::ZERO);
        loop {
            if let Some(due) = due.filter(|_| patient) {
                self.set_alarm(due)?;
            }
            let outcome = self.loop_.base.run(patient);
            self.now = monotonic();
            outcome?;
            let overdue = due.is_some_and(|due| due <= self.now);
            if !patient || overdue || has_news(&self.loop_) {
                return Ok(());
            }
            // The alarm went off early: it was set for another wait, or by libevent's clock, which lags a few milliseconds.
        }
    }
}

impl Loop {
    /// Creates an event whose callback gets this loop as its argument. The event must be dropped before the loop.
    #[allow(unsafe_code)]
    fn watch(self: &Rc<Self>, descriptor: Option<BorrowedFd<'_>>, what: i16, callback: library::Callback) -> io::Result<Watch> {
        let argument = Rc::as_ptr(self).cast_mut().cast();
        // SAFETY: `Libevent` drops its events before its loop, and the loop does not move in memory. Only callbacks that take a
        // loop are passed here, and they only record events in cells. The descriptors stay open as long as their events exist:
        // listeners and the pipe outlive the lane, and the epoll instance for the pipe is dropped after its event.
        unsafe { Watch::new(&self.base, descriptor, what, callback, argument) }
    }

    fn tell(&self, event: Event) {
        self.events.borrow_mut().push(event);
    }
}

/// Callbacks for libevent, with the loop as their argument.
#[allow(unsafe_code)]
mod callback {
    use super::{Event, Loop, epoll};
    use rustix::event::Timespec;
    use std::ffi::{c_int, c_short, c_void};
    use std::mem::MaybeUninit;

    pub(super) unsafe extern "C" fn connection(descriptor: c_int, _what: c_short, argument: *mut c_void) {
        // SAFETY: the argument is the loop that `Loop::watch` has passed, and only shared references to it exist.
        let loop_ = unsafe { &*argument.cast::<Loop>() };
        let number = loop_.numbers.borrow().iter().find(|(known, _)| *known == descriptor).map(|(_, number)| *number);
        if let Some(number) = number {
            loop_.tell(Event::Connection(number));
        }
    }

    pub(super) unsafe extern "C" fn wake(_descriptor: c_int, _what: c_short, argument: *mut c_void) {
        // SAFETY: as above.
        let loop_ = unsafe { &*argument.cast::<Loop>() };
        if let Some(edge) = &*loop_.edge_of_wake.borrow() {
            let mut one = [const { MaybeUninit::uninit() }; 1];
            let nothing = Timespec { tv_sec: 0, tv_nsec: 0 };
            if !matches!(epoll::wait(edge, &mut one, Some(&nothing)), Ok((found, _)) if !found.is_empty()) {
                return;
            }
        }
        loop_.tell(Event::Wake);
    }

    pub(super) unsafe extern "C" fn alarm(_descriptor: c_int, _what: c_short, argument: *mut c_void) {
        // SAFETY: as above.
        let loop_ = unsafe { &*argument.cast::<Loop>() };
        loop_.alarm_at.set(None);
    }
}

impl KernelBackend for Libevent {
    fn create(_restricted: Restricted) -> io::Result<Self> {
        Self::new()
    }

    fn title(&self) -> String {
        let triggered = if self.is_edge_triggered() { "edge" } else { "level" };
        format!("{} ({}, {triggered}-triggered)", self.name(), self.method())
    }
}

impl Backend for Libevent {
    type Socket = Socket;
    type Waiter = NoWaiter;

    // libevent reports EPOLLERR as readable and writable, and only the former was asked for.
    #[inline]
    fn tells_ends(&self) -> bool {
        false
    }

    fn name(&self) -> &'static str {
        "libevent"
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

    fn listen(&mut self, listener: usize, socket: BorrowedFd<'_>) -> io::Result<()> {
        let watch = self.loop_.watch(Some(socket), READ | PERSIST, callback::connection)?;
        watch.add()?;
        self.loop_.numbers.borrow_mut().push((socket.as_raw_fd(), listener));
        if self.listeners.len() <= listener {
            self.listeners.resize_with(listener + 1, || None);
        }
        self.listeners[listener] = Some(watch);
        Ok(())
    }

    fn unlisten(&mut self, listener: usize, _socket: BorrowedFd<'_>) -> io::Result<()> {
        if let Some(watch) = self.listeners.get_mut(listener) {
            *watch = None;
        }
        self.loop_.numbers.borrow_mut().retain(|(_, number)| *number != listener);
        Ok(())
    }

    fn watch(&mut self, pipe: BorrowedFd<'_>) -> io::Result<()> {
        let watch = if self.loop_.edges {
            self.loop_.watch(Some(pipe), READ | PERSIST | EDGE, callback::wake)?
        } else {
            let edge = epoll::create(CreateFlags::CLOEXEC)?;
            epoll::add(&edge, pipe, EventData::new_u64(0), EventFlags::IN | EventFlags::ET)?;
            let watch = self.loop_.watch(Some(edge.as_fd()), READ | PERSIST, callback::wake)?;
            // The descriptor is replaced together with its event.
            self.wake = None;
            *self.loop_.edge_of_wake.borrow_mut() = Some(edge);
            watch
        };
        watch.add()?;
        self.wake = Some(watch);
        Ok(())
    }

    fn accept(&mut self, _listener: usize, socket: BorrowedFd<'_>) -> Accepted<Socket> {
        match crate::accept::accept(socket) {
            Accepted::Connection(descriptor, peer) => Accepted::Connection(Socket::new(descriptor, &self.loop_), peer),
            Accepted::None => Accepted::None,
            Accepted::Exhausted(error) => Accepted::Exhausted(error),
        }
    }

    fn open(&mut self, socket: &mut Socket, token: Token) -> io::Result<()> {
        socket.open(token)
    }

    #[inline]
    fn receive(&mut self, socket: &mut Socket, buffer: &mut [u8]) -> Attempt {
        socket.was_received_from();
        match calls::receive(&*socket, buffer) {
            Ok(0) => Attempt::End,
            Ok(count) => {
                if count < buffer.len() {
                    socket.was_emptied();
                }
                Attempt::Done(count)
            }
            Err(Errno::AGAIN) => {
                socket.was_emptied();
                Attempt::Later
            }
            Err(_) => Attempt::Broken,
        }
    }

    #[inline]
    fn send(&mut self, socket: &mut Socket, buffer: &[u8]) -> Attempt {
        sent(socket, calls::send(&*socket, buffer, SendFlags::empty()))
    }

    fn send_last(&mut self, socket: &mut Socket, buffer: &[u8]) -> Attempt {
        sent(socket, calls::send(&*socket, buffer, SendFlags::MORE))
    }

    fn send_gathered(&mut self, socket: &mut Socket, buffers: &[IoSlice<'_>]) -> Attempt {
        sent(socket, calls::send_gathered(&*socket, buffers))
    }

    fn send_file(&mut self, socket: &mut Socket, file: BorrowedFd<'_>, offset: u64, size: usize) -> Attempt {
        match calls::send_file(&*socket, file, offset, size) {
            Ok(0) => Attempt::End,
            result => sent(socket, result),
        }
    }

    fn guard(&mut self, socket: &mut Socket, on: bool) {
        calls::guard(&*socket, on);
    }

    fn local_address(&self, socket: &Socket) -> Option<SocketAddr> {
        calls::local_address(socket)
    }

    fn shutdown(&mut self, socket: &mut Socket, direction: Direction) {
        calls::shut_down(&*socket, direction);
    }

    fn close(&mut self, socket: Socket) {
        drop(socket);
    }

    fn give_away(&mut self, socket: &mut Socket) -> io::Result<(OwnedFd, Vec<u8>)> {
        let copy = calls::blocking_copy(&*socket)?;
        socket.silence();
        Ok((copy, Vec::new()))
    }

    fn adopt(&mut self, connection: OwnedFd) -> io::Result<Socket> {
        rustix::io::ioctl_fionbio(&connection, true)?;
        Ok(Socket::new(connection, &self.loop_))
    }

    fn wait(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        let before = events.len();
        // With a timeout of zero, the caller may not have handled the last report yet, so the sockets are not checked. But a
        // base that reports states would report them once more, so there the sockets are always checked.
        if timeout != Some(Duration::ZERO) || !self.loop_.edges {
            self.look_at_unreceived(events);
        }
        // Callbacks write into the caller's list, so nothing is copied.
        std::mem::swap(events, &mut self.loop_.events.borrow_mut());
        let outcome = self.run(timeout, before);
        std::mem::swap(events, &mut self.loop_.events.borrow_mut());
        outcome
    }

    fn waiter(&self) -> io::Result<NoWaiter> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "an event base of libevent is waited at by one thread"))
    }

    fn collect(&mut self, waiter: &mut NoWaiter, _events: &mut Vec<Event>) {
        match *waiter {}
    }
}

fn sent(socket: &Socket, result: rustix::io::Result<usize>) -> Attempt {
    match result {
        Ok(count) => Attempt::Done(count),
        Err(Errno::AGAIN) => socket.await_room(),
        Err(_) => Attempt::Broken,
    }
}
