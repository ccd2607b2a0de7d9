//! The interface of an I/O model.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::any::Any;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// The caller's name for a socket; each event of the socket carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token(pub u64);

impl Token {
    /// The first value that a caller must not use: tokens from here on are the backend's own (listeners, wake-ups).
    pub const LIMIT: u64 = 1 << 63;
}

/// The events that [`Backend::wait`] reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A connection waits at the listener with this number.
    Connection(usize),
    /// The descriptor given to [`Backend::watch`] has become readable.
    Wake,
    /// A descriptor given to [`Backend::watch_doorbell`] has been written to.
    Doorbell,
    /// Something changed for a socket.
    Socket {
        /// The socket's token.
        token: Token,
        /// A receive may succeed.
        readable: bool,
        /// A send may succeed.
        writable: bool,
        /// The peer has ended its side, or the connection broke. The caller should receive until the end, even after a receive
        /// that was shorter than its buffer.
        ended: bool,
        /// The connection broke, in both directions.
        broken: bool,
    },
}

/// The result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// This many bytes were moved, at least one.
    Done(usize),
    /// Not now; an event follows when it is worth trying again.
    Later,
    /// Receiving: the peer has ended its side. Sending a file: the file ended early.
    End,
    /// The connection is broken.
    Broken,
}

/// The origin of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// An IP address and port.
    Internet(SocketAddr),
    /// A Unix socket.
    Local,
}

/// The result of accepting.
#[derive(Debug)]
pub enum Accepted<S> {
    /// A new connection.
    Connection(S, Peer),
    /// No connection waits.
    None,
    /// The process or the system has no descriptor or no memory for another connection.
    Exhausted(io::Error),
}

impl<S> Accepted<S> {
    /// The same with another socket for a connection.
    #[must_use]
    pub fn map<T>(self, wrap: impl FnOnce(S) -> T) -> Accepted<T> {
        match self {
            Self::Connection(socket, peer) => Accepted::Connection(wrap(socket), peer),
            Self::None => Accepted::None,
            Self::Exhausted(error) => Accepted::Exhausted(error),
        }
    }
}

/// The properties of an encrypted connection, beside its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encryption {
    /// Variables for apps, with their names in CGI: each name and each value ends with a NUL.
    pub variables: Box<[u8]>,
    /// The peers have agreed on HTTP/2 (ALPN, RFC 7301).
    pub http2: bool,
}

/// The side of a connection to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// No more is sent; the peer sees the end.
    Send,
    /// Like [`Direction::Send`], but drops unsent bytes, so that the peer sees a reset and never a clean end. A Unix socket has
    /// no resets: there the peer sees a clean end.
    Abort,
}

/// One I/O model: sockets, listeners and a clock, used by one thread.
pub trait Backend {
    /// A connection's socket.
    type Socket;

    /// Waits instead of the backend: see [`Backend::waiter`].
    type Waiter: Waiter;

    /// Whether [`Backend::send`] sends when it is called, rather than with the next [`Backend::submit`] or [`Backend::wait`].
    #[inline]
    fn sends_at_once(&self) -> bool {
        true
    }

    /// Whether the system reports a new connection to only one backend if several listen at the same socket. If so, this
    /// backend must take the connection or the caller must notify another backend. A caller that stops listening calls
    /// [`Backend::take_accepted`]; a caller that is busy and leaves a connection to other backends must wake them. If this is
    /// false, the system reports each connection to all backends.
    #[inline]
    fn tells_one(&self) -> bool {
        false
    }

    /// Whether every end of a connection is reported. If this is false, a break that arrives together with bytes is reported
    /// only as readable. A caller that waits for more bytes must then receive until there are none.
    #[inline]
    fn tells_ends(&self) -> bool {
        true
    }

    /// The name for logs: `epoll`.
    fn name(&self) -> &'static str;

    /// The time since some fixed moment, monotonic. Only [`Backend::wait`] and [`Backend::read_clock`] read the clock; this
    /// call costs nothing.
    fn now(&self) -> Duration;

    /// Reads the clock; for callers that have worked for long since the last [`Backend::wait`].
    fn read_clock(&mut self);

    /// The time since the Unix epoch, read at each call.
    fn wall_clock(&self) -> Duration;

    /// Begins to listen at `socket`, which is listening and non-blocking. [`Event::Connection`] reports its connections with
    /// the number `listener`.
    ///
    /// # Errors
    /// An error of the system.
    fn listen(&mut self, listener: usize, socket: BorrowedFd<'_>) -> io::Result<()>;

    /// Sets how connections of the listener with this number are encrypted from now on, before it listens. `encryption` is the
    /// value of the backend that encrypts; `None` for clear text.
    ///
    /// # Errors
    /// `Unsupported`: this backend does not encrypt. Or the value is refused.
    fn set_encryption(&mut self, _listener: usize, encryption: Option<&dyn Any>) -> io::Result<()> {
        encryption.map_or(Ok(()), |_| Err(io::ErrorKind::Unsupported.into()))
    }

    /// Stops listening. The socket itself is not touched.
    ///
    /// # Errors
    /// An error of the system.
    fn unlisten(&mut self, listener: usize, socket: BorrowedFd<'_>) -> io::Result<()>;

    /// Reports [`Event::Wake`] once for each write to the other end of `pipe`. The backend never reads from the pipe.
    ///
    /// # Errors
    /// An error of the system.
    fn watch(&mut self, pipe: BorrowedFd<'_>) -> io::Result<()>;

    /// Reports [`Event::Doorbell`] for writes to `doorbell`, an eventfd, and ends a wait for each of them. The backend never
    /// reads from it. There may be several doorbells; the event does not say which was written to.
    ///
    /// # Errors
    /// An error of the system; `Unsupported`: this backend watches only one descriptor beside its sockets.
    fn watch_doorbell(&mut self, doorbell: BorrowedFd<'_>) -> io::Result<()> {
        let _ = doorbell;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Permits the backend to accept up to `most` connections from `listener` before [`Backend::accept`] asks for them, which
    /// may save system calls. Initially it accepts none in advance. A connection accepted in advance waits for this caller and
    /// cannot go to another process, so permit it only to callers that are never busy for long. Returns whether the backend
    /// will accept in advance.
    fn accept_ahead(&mut self, _listener: usize, _most: usize) -> bool {
        false
    }

    /// Tells the backend that another process, which accepted in advance from the same listeners, may have been killed just
    /// now. For a moment the kernel may report a connection only to an accept that the dead process has left. So for a second
    /// this backend accepts nothing in advance.
    fn be_cautious(&mut self) {}

    /// Takes a connection that was accepted in advance, or that may have been reported to this backend only; [`Accepted::None`]
    /// if there is none. A caller that stops accepting from `listener` must call this after [`Backend::unlisten`] until it
    /// returns none, so that no connection is lost with the backend. A caller that will listen again need not:
    /// [`Backend::accept`] returns such connections later.
    fn take_accepted(&mut self, _listener: usize, _socket: BorrowedFd<'_>) -> Accepted<Self::Socket> {
        Accepted::None
    }

    /// Whether a connection waits to be accepted at this socket.
    fn is_waited_at(&self, _listener: usize, socket: BorrowedFd<'_>) -> bool {
        let mut polled = [PollFd::new(&socket, PollFlags::IN)];
        matches!(poll(&mut polled, Some(&Timespec::default())), Ok(1..))
    }

    /// Accepts a waiting connection. Its socket reports nothing until [`Backend::open`].
    fn accept(&mut self, listener: usize, socket: BorrowedFd<'_>) -> Accepted<Self::Socket>;

    /// Reports events of `socket` as `token` from now on.
    ///
    /// # Errors
    /// An error of the system.
    fn open(&mut self, socket: &mut Self::Socket, token: Token) -> io::Result<()>;

    /// Postpones [`Backend::open`]: the socket reports nothing yet, but the caller may already try to receive and to send. A
    /// send that finds the socket full opens the socket as `token`. So a connection that ends with its first response need not
    /// be opened at all. Returns `false`, and changes nothing, if this backend cannot postpone.
    fn put_off(&mut self, _socket: &mut Self::Socket, _token: Token) -> bool {
        false
    }

    /// Receives into `buffer`. If the result is shorter than the buffer, the socket is empty, unless it has `ended`.
    fn receive(&mut self, socket: &mut Self::Socket, buffer: &mut [u8]) -> Attempt;

    /// Sends from one buffer. `Done` bytes may be sent only with the next [`Backend::submit`] or [`Backend::wait`]; if the
    /// connection turns out to be broken then, an event reports it.
    fn send(&mut self, socket: &mut Self::Socket, buffer: &[u8]) -> Attempt;

    /// Like [`Backend::send`], for bytes that [`Backend::close`] or [`Backend::shutdown`] follows at once: they may wait for
    /// that call and leave in one segment with the end.
    fn send_last(&mut self, socket: &mut Self::Socket, buffer: &[u8]) -> Attempt {
        self.send(socket, buffer)
    }

    /// Sends from several buffers with one call.
    fn send_gathered(&mut self, socket: &mut Self::Socket, buffers: &[IoSlice<'_>]) -> Attempt;

    /// Sends up to `size` bytes of `file` from `offset` on.
    fn send_file(&mut self, socket: &mut Self::Socket, file: BorrowedFd<'_>, offset: u64, size: usize) -> Attempt;

    /// Carries out the sends and the closes that this backend has postponed, as [`Backend::wait`] also does. Call it before the
    /// thread does something else for long.
    fn submit(&mut self) {}

    /// Sets whether the peer sees a reset, and never a clean end, if this process dies from now on. A Unix socket has no
    /// resets. Turn this off before a regular end of the connection: otherwise closing would drop the bytes that the peer does
    /// not have yet.
    fn guard(&mut self, socket: &mut Self::Socket, on: bool);

    /// Ends a side of the connection.
    fn shutdown(&mut self, socket: &mut Self::Socket, direction: Direction);

    /// Closes the socket, now or with the next [`Backend::submit`] or [`Backend::wait`], after everything given to `send` has
    /// been sent.
    fn close(&mut self, socket: Self::Socket);

    /// Gives the connection to a host that uses the socket itself: returns a second descriptor of the socket, in blocking mode,
    /// and the bytes that the backend has received and the caller has not taken. From now on the backend reports nothing about
    /// `socket`, except room after a send that found the socket full. If the peer vanishes, the connection fails, even if
    /// nothing is sent: see [`crate::notice_vanished_peer`].
    ///
    /// # Errors
    /// An error of the system, the backend has no descriptors, or bytes have not been sent yet.
    fn give_away(&mut self, socket: &mut Self::Socket) -> io::Result<(OwnedFd, Vec<u8>)>;

    /// Continues a connection that another backend has given away, perhaps in another process. As after [`Backend::accept`],
    /// its socket reports nothing until [`Backend::open`].
    ///
    /// # Errors
    /// An error of the system; `Unsupported`: the backend has no descriptors.
    fn adopt(&mut self, connection: OwnedFd) -> io::Result<Self::Socket> {
        drop(connection);
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The properties of the connection if it is encrypted and bytes have arrived; otherwise `None`.
    fn encryption<'s>(&self, _socket: &'s Self::Socket) -> Option<&'s Arc<Encryption>> {
        None
    }

    /// Whether a request for `host`, as the Host field names it, belongs on another connection: this one was encrypted for a
    /// server with another name, and `host` has a certificate of its own here.
    fn is_misdirected(&self, _socket: &Self::Socket, _host: &[u8]) -> bool {
        false
    }

    /// Begins to encrypt a connection that was accepted in clear text, because it begins with a header in clear text.
    /// `received` are the first bytes of the client's handshake. Returns `false` if the connection stays in clear text.
    fn encrypt(&mut self, _socket: &mut Self::Socket, _received: &[u8]) -> bool {
        false
    }

    /// The address of this end of the connection, for which the system is asked; `None` for a Unix socket, and if the backend
    /// does not know it.
    fn local_address(&self, _socket: &Self::Socket) -> Option<SocketAddr> {
        None
    }

    /// Whether another process can continue the connection with its descriptor alone.
    fn can_move(&self, _socket: &Self::Socket) -> bool {
        true
    }

    /// Whether [`Backend::wait`] has something to report that [`Backend::waiter`] would not find.
    fn has_news(&self) -> bool {
        false
    }

    /// Waits for events for at most `timeout` (`None` for no limit), and appends them to `events`. May return without an event.
    ///
    /// # Errors
    /// An error of the system.
    fn wait(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()>;

    /// Creates an object that waits for this backend's events while another thread may use the backend itself. The object waits
    /// for everything that the backend was asked to report before its last [`Backend::wait`]. Whether threads may use a backend
    /// that another thread has created depends on the type of the backend.
    ///
    /// # Errors
    /// An error of the system.
    fn waiter(&self) -> io::Result<Self::Waiter>;

    /// Appends the events that `waiter`, which belongs to this backend, has found to `events`. Costs nothing if it has found
    /// none.
    fn collect(&mut self, waiter: &mut Self::Waiter, events: &mut Vec<Event>);
}

/// An object that waits instead of a backend: see [`Backend::waiter`].
pub trait Waiter: Send {
    /// Waits for events for at most `timeout` (`None` for no limit) and keeps them for [`Backend::collect`]. Each event
    /// reaches either this or [`Backend::wait`]. May return without an event.
    ///
    /// # Errors
    /// An error of the system.
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()>;

    /// A descriptor that is readable as long as [`Waiter::wait`] would find an event, for an event loop that waits for it and
    /// then calls `wait` without patience. `None` if there is no such descriptor.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// A backend that needs only a kernel: the implementation of a [model](crate::Model).
pub trait KernelBackend: Backend + Sized {
    /// Creates the backend, for the thread that calls this.
    ///
    /// # Errors
    /// The reason why the system refuses it, and the remedy if there is one.
    fn create(restricted: Restricted) -> io::Result<Self>;

    /// The words for the backend in the log when a server starts: its name, and details that the system has decided.
    fn title(&self) -> String {
        self.name().to_owned()
    }
}

/// Whether a backend is created for a process that enters the [sandbox](crate::process::sandbox) of an edge afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restricted {
    /// The process is not restricted.
    No,
    /// The process will enter the sandbox. The backend itself refuses the operations that the sandbox forbids but cannot see,
    /// because they are not system calls.
    Yes,
}
