//! One connection of the load and its state.

use crate::response::Reader;
use std::os::fd::OwnedFd;

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Without a socket.
    Closed,
    /// It is open, and nothing was asked.
    Idle,
    /// Requests are on their way, or their responses.
    Busy,
    /// Everything is answered, and the server is to end the connection.
    Ending,
}

/// Requests that a connection has been given at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Batch {
    /// The time at which the first was due, in nanoseconds of the clock.
    pub due: u64,
    /// Nanoseconds from one to the next.
    pub spacing: f64,
    pub asked: u32,
    pub answered: u32,
}

impl Batch {
    /// The time at which the request that is answered next was due.
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

/// A place for one connection after the other.
#[derive(Debug)]
pub struct Connection {
    pub socket: Option<OwnedFd>,
    /// Tells the connections of a place apart.
    pub generation: u32,
    pub state: State,
    /// It asks whenever the load wants it to; the others only once.
    pub active: bool,
    /// The handshake is known to be complete.
    pub connected: bool,
    /// The loop reports room to send.
    pub watches_output: bool,
    pub batch: Batch,
    /// The bytes of the requests that are sent, and of all.
    pub sent: usize,
    pub to_send: usize,
    /// The server has announced the end of the connection.
    pub closes: bool,
    /// It is in the agenda of slow connections.
    pub paced: bool,
    /// The time at which bytes last went either way.
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

    /// Closes the socket; events that are still reported for it are out of date.
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
