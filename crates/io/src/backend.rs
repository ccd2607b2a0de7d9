//! What an I/O model has to offer.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

/// The caller's name for a socket; comes back with its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token(pub u64);

impl Token {
    /// Tokens from here on are the backend's own (listeners, wake-ups).
    pub const LIMIT: u64 = 1 << 63;
}

/// What `wait` has to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A connection waits at the listener with this number.
    Connection(usize),
    /// The descriptor given to [`Backend::watch`] has news.
    Wake,
    /// Something changed for a socket.
    Socket {
        /// Whose.
        token: Token,
        /// A receive is worth trying.
        readable: bool,
        /// A send is worth trying.
        writable: bool,
        /// The peer has ended its side or the connection broke: a receive will find the end even behind a short read.
        ended: bool,
        /// The connection broke, in both directions.
        broken: bool,
    },
}

/// The outcome of trying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// So many bytes were moved, at least one.
    Done(usize),
    /// Not now; an event will say when.
    Later,
    /// Receiving: the peer has ended its side. Sending a file: the file ended early.
    End,
    /// The connection is broken.
    Broken,
}

/// Where a connection came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// An IP address and port.
    Internet(SocketAddr),
    /// A Unix socket.
    Local,
}

/// The outcome of accepting.
#[derive(Debug)]
pub enum Accepted<S> {
    /// A new connection.
    Connection(S, Peer),
    /// None waits.
    None,
    /// The process or the system has no descriptor, or no memory, for one more.
    Exhausted(io::Error),
}

/// Which side of a connection to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// No more is sent; the peer sees the end.
    Send,
    /// As [`Direction::Send`], but dropping what has not left yet, so that the peer sees a reset and never a clean end. A
    /// Unix socket knows no resets: there the peer sees the end all the same.
    Abort,
}

/// One I/O model: sockets, listeners and a clock, used by one thread.
pub trait Backend {
    /// A connection's socket.
    type Socket;

    /// Waits in the backend's place: see [`Backend::waiter`].
    type Waiter: Waiter;

    /// Whether [`Backend::send`] sends when it is called, rather than with the next [`Backend::submit`] or [`Backend::wait`].
    const SENDS_AT_ONCE: bool = true;

    /// Whether the system tells one backend of a connection where several listen at one socket. If so, whoever was told takes the
    /// connection or tells the next one: one who stops listening asks [`Backend::take_accepted`], and one who leaves a connection
    /// to others while he is busy has to wake them. Otherwise all are told.
    const TELLS_ONE: bool = false;

    /// For logs: `epoll`.
    fn name(&self) -> &'static str;

    /// Time since some fixed moment. Monotonic, and read anew only by [`Backend::wait`] and [`Backend::read_clock`]: it costs
    /// nothing.
    fn now(&self) -> Duration;

    /// Reads the clock anew, for when much time may have passed since the last [`Backend::wait`].
    fn read_clock(&mut self);

    /// Seconds since the Unix epoch, read anew.
    fn wall_clock(&self) -> Duration;

    /// Adds a listening, non-blocking socket under the number `listener`; its events come while it is adding.
    ///
    /// # Errors
    /// The system's refusal.
    fn listen(&mut self, listener: usize, socket: BorrowedFd<'_>) -> io::Result<()>;

    /// Ends what [`Backend::listen`] began. The socket itself is left alone.
    ///
    /// # Errors
    /// The system's refusal.
    fn unlisten(&mut self, listener: usize, socket: BorrowedFd<'_>) -> io::Result<()>;

    /// Reports [`Event::Wake`] once for every time that something is written to the other end of `pipe`. It is never read.
    ///
    /// # Errors
    /// The system's refusal.
    fn watch(&mut self, pipe: BorrowedFd<'_>) -> io::Result<()>;

    /// Allows the backend to accept so many connections from `listener` ahead of [`Backend::accept`]: it may then save system
    /// calls. At first none. Such a connection waits for its caller and reaches nobody else, so this is for callers that are
    /// never busy for long. `false`: this backend accepts when it is asked to, and nothing has happened.
    fn accept_ahead(&mut self, _listener: usize, _most: usize) -> bool {
        false
    }

    /// Takes a connection that was accepted ahead, or that nobody else may have been told of, if there is one. To be called until
    /// there is none by whoever stops accepting from `listener`, after [`Backend::unlisten`], so that a backend that is gone leaves
    /// nobody waiting; one who will go on listening gets them from [`Backend::accept`] then.
    fn take_accepted(&mut self, _listener: usize, _socket: BorrowedFd<'_>) -> Accepted<Self::Socket> {
        Accepted::None
    }

    /// Takes a waiting connection. Its socket reports nothing until [`Backend::open`].
    fn accept(&mut self, listener: usize, socket: BorrowedFd<'_>) -> Accepted<Self::Socket>;

    /// Reports events of `socket` as `token` from now on.
    ///
    /// # Errors
    /// The system's refusal.
    fn open(&mut self, socket: &mut Self::Socket, token: Token) -> io::Result<()>;

    /// Puts [`Backend::open`] off: until then the socket reports nothing, but receives and sends may be tried, and a send that
    /// finds the socket full opens it as `token`. A connection that ends with its first answer need never be opened. `false`:
    /// this backend cannot do so, and nothing has happened.
    fn put_off(&mut self, _socket: &mut Self::Socket, _token: Token) -> bool {
        false
    }

    /// Receives into `buffer`. A result short of the buffer means that no more was there, unless the socket has `ended`.
    fn receive(&mut self, socket: &mut Self::Socket, buffer: &mut [u8]) -> Attempt;

    /// Sends from one buffer. What was `Done` may leave with the next [`Backend::submit`] or [`Backend::wait`], and if it turns
    /// out then that the connection is broken, an event says so.
    fn send(&mut self, socket: &mut Self::Socket, buffer: &[u8]) -> Attempt;

    /// As [`Backend::send`], of bytes that [`Backend::close`] or [`Backend::shutdown`] follows at once: they may wait for that
    /// and leave together with the end.
    fn send_last(&mut self, socket: &mut Self::Socket, buffer: &[u8]) -> Attempt {
        self.send(socket, buffer)
    }

    /// Sends from several buffers with one call.
    fn send_gathered(&mut self, socket: &mut Self::Socket, buffers: &[IoSlice<'_>]) -> Attempt;

    /// Sends up to `size` bytes of `file` from `offset` on.
    fn send_file(&mut self, socket: &mut Self::Socket, file: BorrowedFd<'_>, offset: u64, size: usize) -> Attempt;

    /// Has everything leave that was given to `send` and closes what was closed, as [`Backend::wait`] does, too. To be called
    /// before the thread does something else for long.
    fn submit(&mut self) {}

    /// Ends a side of the connection.
    fn shutdown(&mut self, socket: &mut Self::Socket, direction: Direction);

    /// Closes the socket, now or with the next [`Backend::submit`] or [`Backend::wait`]; what was sent leaves first.
    fn close(&mut self, socket: Self::Socket);

    /// Gives the connection to a host that speaks for itself: a second descriptor of it, in blocking mode, and what was received and
    /// has not been taken. Nothing of `socket` is reported from now on, except that there is room again for a send that found none.
    ///
    /// # Errors
    /// The system's refusal, that this backend has no descriptors, or that bytes which were sent have not left.
    fn give_away(&mut self, socket: &mut Self::Socket) -> io::Result<(OwnedFd, Vec<u8>)>;

    /// Waits for events until `timeout` has passed (`None`: for ever), and appends them to `events`. Returning without an
    /// event is allowed.
    ///
    /// # Errors
    /// The system's refusal.
    fn wait(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()>;

    /// Something that waits for this backend's events while the backend itself may be used by another thread. It waits for what
    /// the backend was asked to report before its last [`Backend::wait`]. Whether a backend may be used by other threads than
    /// the one that made it is its own affair.
    ///
    /// # Errors
    /// The system's refusal.
    fn waiter(&self) -> io::Result<Self::Waiter>;

    /// Appends to `events` what `waiter`, which is this backend's, has found. It costs nothing if that is nothing.
    fn collect(&mut self, waiter: &mut Self::Waiter, events: &mut Vec<Event>);
}

/// See [`Backend::waiter`].
pub trait Waiter: Send {
    /// Waits for events until `timeout` has passed (`None`: for ever) and keeps them for [`Backend::collect`]. Each event
    /// reaches either this or [`Backend::wait`]. Returning without an event is allowed.
    ///
    /// # Errors
    /// The system's refusal.
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()>;
}
