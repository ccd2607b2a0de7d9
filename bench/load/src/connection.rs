//! One connection of the load and its state.

use crate::response::Reader;
use std::os::fd::OwnedFd;

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Without a socket.
    Closed,
    /// The connection is open, and no request was sent on it.
    Idle,
    /// Requests or their responses are on their way.
    Busy,
    /// All requests are answered, and the server should end the connection.
    Ending,
}

/// The requests that a connection sends at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Batch {
    /// The time at which the first of these requests was due, in nanoseconds of the monotonic clock.
    pub due: u64,
    /// Nanoseconds from one due time to the next.
    pub spacing: f64,
    pub asked: u32,
    pub answered: u32,
}

impl Batch {
    /// Returns the time at which the next request without an answer was due.
    #[inline]
    pub fn due(&self) -> u64 {
        self.due + (f64::from(self.answered) * self.spacing) as u64
    }

    /// The number of requests without an answer.
    #[inline]
    pub fn open(&self) -> u32 {
        self.asked - self.answered
    }
}

/// A place in the list of connections. It holds one connection after another.
#[derive(Debug)]
pub struct Connection {
    pub socket: Option<OwnedFd>,
    /// The number of the connection in this place: it identifies events of an earlier connection.
    pub generation: u32,
    pub state: State,
    /// Whether the connection sends requests whenever the load wants it to; other connections send only one.
    pub active: bool,
    /// The handshake is known to be complete.
    pub connected: bool,
    /// Whether the event loop watches for room to send.
    pub watches_output: bool,
    pub batch: Batch,
    /// The number of bytes of the requests that were sent, and of all requests.
    pub sent: usize,
    pub to_send: usize,
    /// The server has announced the end of the connection.
    pub closes: bool,
    /// It is in the agenda of slow connections.
    pub paced: bool,
    /// The time at which bytes were last sent or received.
    pub progress: u64,
    pub reader: Reader,
}

impl Connection {
    pub fn new(active: bool) -> Self {
        Self {
            socket: None,
            generation: 0,
            state: State::Closed,
            active,
            connected: false,
            watches_output: false,
            batch: Batch::default(),
            sent: 0,
            to_send: 0,
            closes: false,
            paced: false,
            progress: 0,
            reader: Reader::default(),
        }
    }

    /// Closes the socket. Events that are still reported for it are recognized by their generation and ignored.
    pub fn close(&mut self) {
        self.socket = None;
        self.generation = self.generation.wrapping_add(1);
        self.state = State::Closed;
        self.connected = false;
        self.watches_output = false;
        self.closes = false;
        self.paced = false;
        self.batch = Batch::default();
        (self.sent, self.to_send) = (0, 0);
        self.reader = Reader::default();
    }

    /// Whether a response is awaited.
    pub fn is_busy(&self) -> bool {
        matches!(self.state, State::Busy | State::Ending)
    }

    pub fn has_unsent(&self) -> bool {
        self.sent < self.to_send
    }
}
