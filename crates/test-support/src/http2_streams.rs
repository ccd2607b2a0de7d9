//! A client of HTTP/2 that has several requests open at once on a connection. It supports the same part of RFC 9113 and RFC
//! 7541 as `http2.rs`. As real clients do, it makes room for responses bit by bit, so that the server has to divide the
//! connection among them.

use crate::http2::{
    ACK, DATA, DEFAULT_WINDOW, END_HEADERS, END_STREAM, FRAME, Frame, GOAWAY, HEADERS, PING, PREFACE, RESET, SETTINGS, WINDOW,
    decoded, frame, initial_window, literal, number_of, receive_frames,
};
use crate::layer::Layer;
use crate::wire;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, Write};
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
    /// Content that the server has no room for at present.
    waiting: VecDeque<u8>,
    window: i64,
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
    below: Box<dyn Layer>,
    scheme: &'static str,
    /// The received bytes of an incomplete frame.
    received: Vec<u8>,
    open: BTreeMap<u32, Stream>,
    done: VecDeque<Done>,
    next: u32,
    window: i64,
    initial_window: i64,
    leaving: bool,
    ended: bool,
}

impl Streams {
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        let (mut below, encrypts) = wire::way_to(address, true)?;
        below.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, b"")].concat())?;
        below.flush()?;
        Ok(Self {
            below,
            scheme: if encrypts { "https" } else { "http" },
            received: Vec::new(),
            open: BTreeMap::new(),
            done: VecDeque::new(),
            next: 1,
            window: DEFAULT_WINDOW,
            initial_window: DEFAULT_WINDOW,
            leaving: false,
            ended: false,
        })
    }

    pub fn socket(&self) -> &TcpStream {
        self.below.socket()
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
        self.leaving
    }

    /// Whether the server has ended the connection.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// The longest time for which a request has been waiting for data.
    pub fn longest_silence(&self) -> Duration {
        self.open.values().map(|stream| stream.moved.elapsed()).max().unwrap_or_default()
    }

    /// Sends a request, and as much of its content as the server has room for. The rest of the content is sent while responses
    /// are received. Returns the number of the stream.
    pub fn ask(&mut self, method: &str, target: &str, content: &[u8]) -> io::Result<u32> {
        let mut block = Vec::new();
        for (name, value) in [(":method", method), (":scheme", self.scheme), (":path", target), (":authority", "test")] {
            literal(&mut block, name, value);
        }
        let number = self.next;
        self.next += 2;
        let asked = Instant::now();
        let flags = END_HEADERS | if content.is_empty() { END_STREAM } else { 0 };
        let stream = Stream {
            asked,
            moved: asked,
            wait: Duration::ZERO,
            waiting: content.iter().copied().collect(),
            window: self.initial_window,
            status: 0,
            fields: Vec::new(),
            content: Vec::new(),
        };
        self.open.insert(number, stream);
        self.send(&frame(HEADERS, flags, number, &block))?;
        self.send_content()?;
        Ok(number)
    }

    /// Cancels a request, if it is still open.
    pub fn cancel(&mut self, number: u32) -> io::Result<()> {
        if self.open.remove(&number).is_none() {
            return Ok(());
        }
        self.send(&frame(RESET, 0, number, &CANCEL.to_be_bytes()))
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
                () if self.leaving && self.open.is_empty() => return Ok(None),
                () if self.ended && self.open.is_empty() => return Ok(None),
                () if self.ended => return Err(ErrorKind::UnexpectedEof.into()),
                () => self.receive()?,
            }
        }
    }

    /// Receives once, and handles the frames that are whole then.
    pub fn receive(&mut self) -> io::Result<()> {
        let Some(frames) = receive_frames(&mut *self.below, &mut self.received)? else {
            self.ended = true;
            return Ok(());
        };
        frames.into_iter().try_for_each(|Frame { kind, flags, number, payload }| self.take_frame(kind, flags, number, &payload))
    }

    fn take_frame(&mut self, kind: u8, flags: u8, number: u32, payload: &[u8]) -> io::Result<()> {
        if let Some(stream) = self.open.get_mut(&number) {
            stream.wait = stream.wait.max(stream.moved.elapsed());
            stream.moved = Instant::now();
        }
        match kind {
            SETTINGS if flags & ACK == 0 => {
                if let Some(value) = initial_window(payload) {
                    for stream in self.open.values_mut() {
                        stream.window += value - self.initial_window;
                    }
                    self.initial_window = value;
                }
                self.send(&frame(SETTINGS, ACK, 0, b""))?;
                self.send_content()?;
            }
            PING if flags & ACK == 0 => self.send(&frame(PING, ACK, 0, payload))?,
            WINDOW => {
                let more = i64::from(number_of(payload));
                match self.open.get_mut(&number) {
                    _ if number == 0 => self.window += more,
                    Some(stream) => stream.window += more,
                    None => {}
                }
                self.send_content()?;
            }
            GOAWAY => {
                self.leaving = true;
                let not_taken = self.open.split_off(&(number_of(payload).saturating_add(1)));
                self.done.extend(not_taken.into_iter().map(|(number, stream)| stream.done(number, Outcome::NotTaken)));
            }
            RESET => {
                if let Some(stream) = self.open.remove(&number) {
                    let code = number_of(payload);
                    let outcome = if code == REFUSED_STREAM { Outcome::NotTaken } else { Outcome::Reset(code) };
                    self.done.push_back(stream.done(number, outcome));
                }
            }
            HEADERS => self.take_fields(flags, number, payload),
            DATA => self.take_content(flags, number, payload)?,
            _ => {}
        }
        Ok(())
    }

    fn take_fields(&mut self, flags: u8, number: u32, block: &[u8]) {
        assert!(flags & END_HEADERS != 0, "our server's fields fit into a frame");
        let Some(stream) = self.open.get_mut(&number) else { return };
        let fields = decoded(block);
        if let Some((_, status)) = fields.iter().find(|(name, _)| name == ":status") {
            stream.status = status.parse().expect("it is a number");
            stream.fields = fields;
        }
        if flags & END_STREAM != 0 {
            self.end(number);
        }
    }

    fn take_content(&mut self, flags: u8, number: u32, payload: &[u8]) -> io::Result<()> {
        let ends = flags & END_STREAM != 0;
        let mut room = Vec::new();
        if !payload.is_empty() {
            // The connection's window also counts data for a request that was given up.
            let length = u32::try_from(payload.len()).expect("a frame is short").to_be_bytes();
            room.extend(frame(WINDOW, 0, 0, &length));
            if !ends && self.open.contains_key(&number) {
                room.extend(frame(WINDOW, 0, number, &length));
            }
        }
        if let Some(stream) = self.open.get_mut(&number) {
            stream.content.extend_from_slice(payload);
        }
        if ends {
            self.end(number);
        }
        self.send(&room)
    }

    /// Finishes a request whose response is complete.
    fn end(&mut self, number: u32) {
        if let Some(mut stream) = self.open.remove(&number) {
            let (status, fields) = (stream.status, std::mem::take(&mut stream.fields));
            let content = std::mem::take(&mut stream.content);
            self.done.push_back(stream.done(number, Outcome::Answered { status, fields, content }));
        }
    }

    /// Sends as much of the content of all requests as the server has room for, one frame of each in turn.
    fn send_content(&mut self) -> io::Result<()> {
        let mut frames = Vec::new();
        loop {
            let before = frames.len();
            for (number, stream) in &mut self.open {
                let room = usize::try_from(self.window.min(stream.window)).unwrap_or(0);
                let size = room.min(FRAME).min(stream.waiting.len());
                if size == 0 {
                    continue;
                }
                let piece: Vec<u8> = stream.waiting.drain(..size).collect();
                let flags = if stream.waiting.is_empty() { END_STREAM } else { 0 };
                frames.extend(frame(DATA, flags, *number, &piece));
                self.window -= size as i64;
                stream.window -= size as i64;
            }
            if frames.len() == before {
                break;
            }
        }
        self.send(&frames)
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.below.write_all(bytes)?;
        self.below.flush()
    }
}
