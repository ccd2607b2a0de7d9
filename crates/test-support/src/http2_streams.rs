//! A client of HTTP/2 that has several requests open at once on a [`Connection`]. As real clients do, it makes room for responses
//! bit by bit, so that the server has to divide the connection among them.

use crate::http2::connection::{Connection, Event, Room};
use crate::wire;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Codes of RST_STREAM (RFC 9113, section 7).
const REFUSED_STREAM: u32 = 7;
const CANCEL: u32 = 8;

/// The state of a request.
#[derive(Debug)]
pub enum Outcome {
    /// The response is whole.
    Answered { status: u16, fields: Vec<(String, String)>, content: Vec<u8> },
    /// The server has not taken the request, which may be sent again on another connection (RFC 9113, section 8.7).
    NotTaken,
    /// The server has reset the stream, with this error code.
    Reset(u32),
}

/// A finished request.
#[derive(Debug)]
pub struct Done {
    pub number: u32,
    pub asked: Instant,
    /// The longest time in which nothing arrived for this request.
    pub wait: Duration,
    pub outcome: Outcome,
}

struct Stream {
    asked: Instant,
    /// The time at which data for this stream arrived last.
    moved: Instant,
    wait: Duration,
    status: u16,
    fields: Vec<(String, String)>,
    content: Vec<u8>,
}

impl Stream {
    fn done(self, number: u32, outcome: Outcome) -> Done {
        Done { number, asked: self.asked, wait: self.wait, outcome }
    }
}

pub struct Streams {
    connection: Connection,
    open: BTreeMap<u32, Stream>,
    done: VecDeque<Done>,
}

impl Streams {
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        let (below, encrypts) = wire::way_to(address, true)?;
        let connection = Connection::begin(below, encrypts, Room::Default)?;
        Ok(Self { connection, open: BTreeMap::new(), done: VecDeque::new() })
    }

    pub fn socket(&self) -> &TcpStream {
        self.connection.socket()
    }

    /// The number of requests that wait for their responses.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Returns the content that has arrived so far for an open request.
    pub fn content(&self, number: u32) -> &[u8] {
        self.open.get(&number).map_or(&[], |stream| &stream.content)
    }

    /// Whether the server has announced its end (GOAWAY), so that further requests belong on another connection.
    pub fn is_leaving(&self) -> bool {
        self.connection.is_leaving()
    }

    /// Whether the server has ended the connection.
    pub fn has_ended(&self) -> bool {
        self.connection.has_ended()
    }

    /// The longest time for which a request has been waiting for data.
    pub fn longest_silence(&self) -> Duration {
        self.open.values().map(|stream| stream.moved.elapsed()).max().unwrap_or_default()
    }

    /// Sends a request, and as much of its content as the server has room for. The rest of the content is sent while responses
    /// are received. Returns the number of the stream.
    pub fn ask(&mut self, method: &str, target: &str, content: &[u8]) -> io::Result<u32> {
        let asked = Instant::now();
        let number = self.connection.ask((method, target, "test"), &[], content.iter().copied().collect())?;
        let (wait, status, fields, content) = (Duration::ZERO, 0, Vec::new(), Vec::new());
        self.open.insert(number, Stream { asked, moved: asked, wait, status, fields, content });
        Ok(number)
    }

    /// Cancels a request, if it is still open.
    pub fn cancel(&mut self, number: u32) -> io::Result<()> {
        self.open.remove(&number);
        self.connection.reset(number, CANCEL)
    }

    /// Waits for the next finished request and returns it; `None` if the connection ends and no request is open.
    ///
    /// # Errors
    /// `UnexpectedEof` if the connection ends while a request is open; otherwise, receiving has failed.
    pub fn take(&mut self) -> io::Result<Option<Done>> {
        loop {
            if let Some(done) = self.done.pop_front() {
                return Ok(Some(done));
            }
            match () {
                () if self.is_leaving() && self.open.is_empty() => return Ok(None),
                () if self.has_ended() && self.open.is_empty() => return Ok(None),
                () if self.has_ended() => return Err(ErrorKind::UnexpectedEof.into()),
                () => self.receive()?,
            }
        }
    }

    /// Receives once, and handles the frames that are whole then.
    pub fn receive(&mut self) -> io::Result<()> {
        let outcome = self.connection.receive();
        while let Some(event) = self.connection.next_event() {
            self.take_event(event);
        }
        outcome
    }

    fn take_event(&mut self, event: Event) {
        match event {
            Event::Window { number } => _ = self.moved(number),
            Event::Fields { number, fields, ends } => {
                let Some(stream) = self.moved(number) else { return };
                if let Some((_, status)) = fields.iter().find(|(name, _)| name == ":status") {
                    stream.status = status.parse().expect("it is a number");
                    stream.fields = fields;
                }
                if ends {
                    self.end(number);
                }
            }
            Event::Content { number, content, ends } => {
                let Some(stream) = self.moved(number) else { return };
                stream.content.extend_from_slice(&content);
                if ends {
                    self.end(number);
                }
            }
            Event::Reset { number, code } => {
                self.moved(number);
                if let Some(stream) = self.open.remove(&number) {
                    let outcome = if code == REFUSED_STREAM { Outcome::NotTaken } else { Outcome::Reset(code) };
                    self.done.push_back(stream.done(number, outcome));
                }
            }
            Event::Leaving { last } => {
                let not_taken = self.open.split_off(&last.saturating_add(1));
                self.done.extend(not_taken.into_iter().map(|(number, stream)| stream.done(number, Outcome::NotTaken)));
            }
        }
    }

    /// Notes that something has arrived for a request, and returns its stream.
    fn moved(&mut self, number: u32) -> Option<&mut Stream> {
        let stream = self.open.get_mut(&number)?;
        stream.wait = stream.wait.max(stream.moved.elapsed());
        stream.moved = Instant::now();
        Some(stream)
    }

    /// Finishes a request whose response is complete.
    fn end(&mut self, number: u32) {
        if let Some(mut stream) = self.open.remove(&number) {
            let (status, fields) = (stream.status, std::mem::take(&mut stream.fields));
            let content = std::mem::take(&mut stream.content);
            self.done.push_back(stream.done(number, Outcome::Answered { status, fields, content }));
        }
    }
}
