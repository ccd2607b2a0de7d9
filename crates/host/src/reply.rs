//! The reply to an exchange: the path from a host's answer to the server's outlet.

use crate::{ExchangeId, Interruption};
use oribi_message::{FieldPair, PreparedFields, ResponseHead};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

/// The reason why a reply was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyError {
    /// The client has gone, or the exchange has been answered or given up, or no more content can be sent: stop producing.
    Gone,
    /// The response breaks a rule of HTTP. If nothing of it had been sent, the client gets a 500 instead.
    Invalid(&'static str),
    /// The lane was woken (see [`Outlet::waker`]) while the app waited for its client. The piece is kept and will be sent.
    /// Handle the cause of the wake-up, then write an empty piece to continue waiting.
    Woken,
}

impl ReplyError {
    /// No connection stays open without the app: see [`Outlet::command`].
    pub const NOT_LIVE: Self = Self::Invalid("WebSockets, event streams and channels need an edge: --edge on");
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("the client has gone"),
            Self::Invalid(why) => f.write_str(why),
            Self::Woken => f.write_str("the lane was woken"),
        }
    }
}

impl std::error::Error for ReplyError {}

/// A piece of a response's content.
#[derive(Clone, Copy, Debug)]
pub enum Piece<'a> {
    /// Bytes in memory, which are copied if they cannot be sent at once.
    Bytes(&'a [u8]),
    /// A part of a file, which is kept open as long as it is needed.
    File {
        /// The file; it may be shared by many responses.
        file: &'a Arc<File>,
        /// The offset of the part, in bytes.
        offset: u64,
        /// The number of bytes. If the file ends earlier, the connection is cut, so that the response does not look complete.
        size: u64,
    },
}

impl Piece<'_> {
    /// The number of bytes.
    #[must_use]
    pub const fn size(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File { size, .. } => *size,
        }
    }
}

/// The receiver of replies. The server implements it. Hosts use it through [`Reply`] and [`BodyWriter`], or directly if they
/// keep an exchange longer than these live.
pub trait Outlet {
    /// Sends a whole response whose content is the concatenation of `parts`.
    fn respond(&self, exchange: ExchangeId, head: ResponseHead<'_>, parts: &[&[u8]]) -> Result<(), ReplyError>;

    /// Sends a whole response whose content is `size` bytes of `file`, starting at `offset`.
    fn respond_file(
        &self,
        exchange: ExchangeId,
        head: ResponseHead<'_>,
        file: File,
        offset: u64,
        size: u64,
    ) -> Result<(), ReplyError> {
        self.respond_pieces(exchange, head, &[Piece::File { file: &Arc::new(file), offset, size }])
    }

    /// Sends a whole response whose content is the concatenation of `pieces`.
    fn respond_pieces(&self, exchange: ExchangeId, head: ResponseHead<'_>, pieces: &[Piece<'_>]) -> Result<(), ReplyError>;

    /// Sends a whole response with status 200 and prepared fields: for fields that are sent again and again.
    fn respond_prepared(&self, exchange: ExchangeId, fields: &PreparedFields, content: Piece<'_>) -> Result<(), ReplyError> {
        let fields: Vec<FieldPair<'_>> = fields.pairs().collect();
        self.respond_pieces(exchange, ResponseHead { status: 200, fields: &fields }, &[content])
    }

    /// Checks a head that is to be sent later. [`ReplyError::Invalid`]: it could not be sent; the exchange is unchanged.
    fn check(&self, head: ResponseHead<'_>) -> Result<(), ReplyError> {
        let _ = head;
        Ok(())
    }

    /// Sends a head whose content follows piece by piece.
    fn start(&self, exchange: ExchangeId, head: ResponseHead<'_>) -> Result<(), ReplyError>;

    /// Sends a piece of content. While too much content waits for a slow client this call blocks, until the lane is woken
    /// ([`ReplyError::Woken`]). Meanwhile, other connections are served as far as they need no app. A piece that the response
    /// has no place for ends the response ([`ReplyError::Gone`]): after the number of bytes in its Content-Length, or in a
    /// response without content (HEAD, 204, 205, 304).
    fn write(&self, exchange: ExchangeId, piece: &[u8]) -> Result<(), ReplyError>;

    /// Like [`Outlet::write`], but never waits: the piece is kept as a whole, and the result says whether there is room for
    /// more. If there is none, the host must stop until [`Outlet::has_room`] says otherwise. For hosts that are
    /// [concurrent](crate::Host::is_concurrent). An empty piece sends the head alone.
    fn offer(&self, exchange: ExchangeId, piece: &[u8]) -> Result<bool, ReplyError> {
        self.write(exchange, piece).map(|()| true)
    }

    /// Whether there is room for content. [`ReplyError::Gone`]: no client waits for this answer any more. Unlike
    /// [`Outlet::has_gone`], this makes no system call.
    fn has_room(&self, exchange: ExchangeId) -> Result<bool, ReplyError> {
        if self.has_gone(exchange) { Err(ReplyError::Gone) } else { Ok(true) }
    }

    /// Ends the content. If the content is shorter than its Content-Length, the connection is cut, so that the response does
    /// not look complete.
    fn finish(&self, exchange: ExchangeId) -> Result<(), ReplyError>;

    /// Ends the content and sends `trailers` after it. The trailers are dropped where the response has no place for them: over
    /// HTTP/1.0, by FastCGI, after content of known length, without content. [`ReplyError::Invalid`]: a field is not allowed as
    /// a trailer. The exchange is then given up, because without its trailers the response would not be the one that the app
    /// meant.
    fn finish_with_trailers(&self, exchange: ExchangeId, trailers: &[FieldPair<'_>]) -> Result<(), ReplyError> {
        let _ = trailers;
        self.finish(exchange)
    }

    /// Gives the exchange up: the client gets a 500 if nothing has been sent, else the connection is cut.
    fn abandon(&self, exchange: ExchangeId);

    /// Like [`Outlet::abandon`], with `status` instead of 500, for instance 503 for an overloaded app.
    fn fail(&self, exchange: ExchangeId, status: u16) {
        let page = format!("{}\n", oribi_message::reason(status));
        let head = ResponseHead { status, fields: &[(b"Content-Type", b"text/plain; charset=utf-8")] };
        if self.respond(exchange, head, &[page.as_bytes()]).is_err() {
            self.abandon(exchange);
        }
    }

    /// Whether the client can no longer receive the response: the exchange is over, or its connection is broken. Asks the
    /// kernel for the state of the connection. A client that has only closed its sending side still receives.
    fn has_gone(&self, exchange: ExchangeId) -> bool {
        let _ = exchange;
        false
    }

    /// Sends an informational (1xx) response before the final one. For an HTTP/1.0 client it does nothing.
    fn inform(&self, exchange: ExchangeId, status: u16, fields: &[FieldPair<'_>]) -> Result<(), ReplyError>;

    /// Whether apps have deadlines. This does not change during the life of a worker.
    fn has_deadlines(&self) -> bool {
        false
    }

    /// Changes the deadline of an exchange whose app is running: the app may take `time` from now on before it is interrupted,
    /// and as long again whenever it has sent something. With `None` the app has no deadline, and gets no warnings. The change
    /// applies until the exchange ends.
    fn extend_deadline(&self, exchange: ExchangeId, time: Option<Duration>) {
        let _ = (exchange, time);
    }

    /// Runs `work`, in which the app continues to answer an exchange that it has kept. Meanwhile orders to the app reach
    /// `interruption`, as during [`Host::answer`](crate::Host::answer), if its exchange comes from an edge.
    fn resume(&self, exchange: ExchangeId, interruption: Arc<dyn Interruption>, work: &mut dyn FnMut()) {
        let _ = (exchange, interruption);
        work();
    }

    /// The time for which the request of an exchange has waited for a worker or thread that runs its app; `None` if unknown.
    fn queue_time(&self, exchange: ExchangeId) -> Option<Duration> {
        let _ = exchange;
        None
    }

    /// Whether apps get the queue time with each request, even where it is costly to find out. This does not change during
    /// the life of a worker.
    fn reports_queue_times(&self) -> bool {
        false
    }

    /// Whether connections may stay open while no worker has anything to do with them, so that apps may give commands for them. This
    /// does not change during the life of a worker.
    fn has_live_connections(&self) -> bool {
        false
    }

    /// Gives the commands of an app for the connection of an exchange, or for others, to the process that owns the connections. The
    /// crate `oribi-live` describes their bytes; the commands of an exchange may come in any pieces.
    ///
    /// # Errors
    /// [`ReplyError::Gone`]: the exchange is over. [`ReplyError::Invalid`]: no process owns connections for this worker, which owns
    /// them itself ([`Outlet::has_live_connections`]).
    fn command(&self, exchange: ExchangeId, commands: &[u8]) -> Result<(), ReplyError> {
        let _ = (exchange, commands);
        Err(ReplyError::NOT_LIVE)
    }

    /// Passes a message of the app on to the web server that sent the request, for the web server's error log. Returns `false`
    /// if the message was not passed on, for instance because there is no web server: it then belongs in this server's own log.
    fn report(&self, exchange: ExchangeId, message: &[u8]) -> bool {
        let _ = (exchange, message);
        false
    }

    /// Announces that the host will ask for its replacement when it returns (`After::retire`): call this before the response.
    /// If the process ends with the host, no new connection is accepted from now on, and each response is the last on its
    /// connection.
    fn retire(&self) {}

    /// Whether the process is about to end, as soon as the open exchanges have been answered: the app ends those that have no
    /// end of their own. Further requests may come, as long as the server answers those that have arrived.
    fn stops(&self) -> bool {
        false
    }

    /// The number of complete requests that wait for an answer, including those that have just arrived: for work that should
    /// be done only while no request waits.
    fn waiting(&self) -> usize;

    /// Returns a waker that wakes the lane, from any thread and from signal handlers, at any time:
    /// [`Host::attend`](crate::Host::attend) is called, or a waiting [`Outlet::write`] returns. Several wake-ups before the
    /// lane reacts count as one.
    fn waker(&self) -> Waker {
        Waker::noop().clone()
    }

    /// Wakes the lane whenever `descriptor` has become readable, until `descriptor` is closed or [`Outlet::unwatch`] is called.
    ///
    /// # Errors
    /// An error of the system: for instance for a regular file, which is always readable.
    fn watch(&self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        let _ = descriptor;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Ends the effect of [`Outlet::watch`].
    ///
    /// # Errors
    /// The descriptor was not watched.
    fn unwatch(&self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        let _ = descriptor;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Wakes the lane once after `time`; `None` cancels it. Replaces the time of an earlier call.
    ///
    /// # Errors
    /// An error of the system.
    fn wake_after(&self, time: Option<Duration>) -> io::Result<()> {
        let _ = time;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Hijacks the connection: returns a second descriptor for its socket, in blocking mode. From now on the server uses the
    /// connection for no further request, and an exchange that is given up unanswered is closed without an answer, because
    /// its host may have written to the socket.
    fn take_socket(&self, exchange: ExchangeId) -> io::Result<OwnedFd>;
}

/// The right to answer one exchange. Consumed by answering; dropped unanswered, it gives the exchange up.
pub struct Reply<'a> {
    outlet: &'a dyn Outlet,
    exchange: ExchangeId,
    open: bool,
}

impl<'a> Reply<'a> {
    /// The reply to `exchange`, sent through `outlet`.
    #[must_use]
    pub fn new(outlet: &'a dyn Outlet, exchange: ExchangeId) -> Self {
        Self { outlet, exchange, open: true }
    }

    /// Sends a whole response.
    ///
    /// # Errors
    /// See [`ReplyError`].
    pub fn send(mut self, head: ResponseHead<'_>, parts: &[&[u8]]) -> Result<(), ReplyError> {
        self.open = false;
        self.outlet.respond(self.exchange, head, parts)
    }

    /// Sends a whole response with status 200 and prepared fields.
    ///
    /// # Errors
    /// See [`ReplyError`].
    pub fn send_prepared(mut self, fields: &PreparedFields, content: Piece<'_>) -> Result<(), ReplyError> {
        self.open = false;
        self.outlet.respond_prepared(self.exchange, fields, content)
    }

    /// Sends a part of a file as a whole response.
    ///
    /// # Errors
    /// See [`ReplyError`].
    pub fn send_file(mut self, head: ResponseHead<'_>, file: File, offset: u64, size: u64) -> Result<(), ReplyError> {
        self.open = false;
        self.outlet.respond_file(self.exchange, head, file, offset, size)
    }

    /// Sends the head and continues with the content.
    ///
    /// # Errors
    /// See [`ReplyError`].
    pub fn start(mut self, head: ResponseHead<'_>) -> Result<BodyWriter<'a>, ReplyError> {
        self.open = false;
        self.outlet.start(self.exchange, head)?;
        Ok(BodyWriter { outlet: self.outlet, exchange: self.exchange, open: true })
    }

    /// Sends an informational response first.
    ///
    /// # Errors
    /// See [`ReplyError`].
    pub fn inform(&mut self, status: u16, fields: &[FieldPair<'_>]) -> Result<(), ReplyError> {
        self.outlet.inform(self.exchange, status, fields)
    }

    /// Gives up the right to answer here: the owner of the id must answer.
    #[must_use]
    pub fn detach(mut self) -> (&'a dyn Outlet, ExchangeId) {
        self.open = false;
        (self.outlet, self.exchange)
    }
}

impl Drop for Reply<'_> {
    fn drop(&mut self) {
        if self.open {
            self.outlet.abandon(self.exchange);
        }
    }
}

/// The right to write the content of a response. Dropped unfinished, the response is cut off.
pub struct BodyWriter<'a> {
    outlet: &'a dyn Outlet,
    exchange: ExchangeId,
    open: bool,
}

impl BodyWriter<'_> {
    /// Sends a piece.
    ///
    /// # Errors
    /// See [`ReplyError`].
    pub fn write(&mut self, piece: &[u8]) -> Result<(), ReplyError> {
        self.outlet.write(self.exchange, piece)
    }

    /// Ends the content.
    ///
    /// # Errors
    /// See [`ReplyError`].
    pub fn finish(mut self) -> Result<(), ReplyError> {
        self.open = false;
        self.outlet.finish(self.exchange)
    }

    /// Ends the content, with trailers: see [`Outlet::finish_with_trailers`].
    ///
    /// # Errors
    /// See [`ReplyError`].
    pub fn finish_with_trailers(mut self, trailers: &[FieldPair<'_>]) -> Result<(), ReplyError> {
        self.open = false;
        self.outlet.finish_with_trailers(self.exchange, trailers)
    }
}

impl Drop for BodyWriter<'_> {
    fn drop(&mut self) {
        if self.open {
            self.outlet.abandon(self.exchange);
        }
    }
}
