//! A client of HTTP/2 (RFC 9113), below a client that speaks HTTP/1: it turns each request into a stream, and each stream into
//! a response, one request at a time. `http2_streams` is a client with several requests at once on the same [`Connection`].

pub mod connection;
mod fields;
mod frames;

pub use fields::literal;
pub use frames::{DATA, END_HEADERS, END_STREAM, Frame, HEADERS, PREFACE, RESET, SETTINGS, WINDOW, frame, receive_frames};

use crate::layer::Layer;
use connection::{Connection, Event, Room};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

/// The error if the server ends the connection and has not taken the request. The request may be sent again on another
/// connection (RFC 9113, section 6.8).
pub const NOT_TAKEN: ErrorKind = ErrorKind::ConnectionRefused;

/// The stream of the current request.
struct Stream {
    number: u32,
    is_head: bool,
    /// Whether the head of the final response has arrived, and whether the content of that response is passed on in chunks.
    begun: bool,
    chunked: bool,
}

pub struct Http2 {
    connection: Connection,
    /// The written bytes of an incomplete request.
    asked: Vec<u8>,
    /// The unread bytes of the responses.
    answers: VecDeque<u8>,
    stream: Option<Stream>,
    /// Whether the server has announced its end (GOAWAY) before what has been passed on.
    leaving: bool,
    /// Whether the server does not take the current request.
    refused: bool,
    ended: bool,
}

impl Http2 {
    pub fn begin(below: Box<dyn Layer>, encrypts: bool) -> io::Result<Self> {
        let connection = Connection::begin(below, encrypts, Room::Largest)?;
        let (asked, answers) = (Vec::new(), VecDeque::new());
        Ok(Self { connection, asked, answers, stream: None, leaving: false, refused: false, ended: false })
    }

    /// Sends the request that has been written, as soon as it is whole.
    fn ask(&mut self) -> io::Result<()> {
        let Some(end) = self.asked.windows(4).position(|window| window == b"\r\n\r\n") else { return Ok(()) };
        let head = String::from_utf8_lossy(&self.asked[..end]).into_owned();
        let mut lines = head.split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let fields: Vec<(String, &str)> =
            lines.filter_map(|line| line.split_once(": ")).map(|(name, value)| (name.to_lowercase(), value)).collect();
        let value = |wanted: &str| fields.iter().find(|(name, _)| name == wanted).map(|(_, value)| *value);
        assert_eq!(value("transfer-encoding"), None, "a request in chunks is about HTTP/1");
        let length: usize = value("content-length").map_or(0, |length| length.parse().expect("it is a number"));
        if self.asked.len() < end + 4 + length {
            return Ok(());
        }
        assert_eq!(self.asked.len(), end + 4 + length, "a request behind another one is about HTTP/1");
        assert!(self.stream.is_none(), "so is one before the other is answered");
        let content: VecDeque<u8> = self.asked.drain(..).skip(end + 4).collect();
        let authority = value("host").unwrap_or_default();
        let others = fields.iter().map(|(name, value)| (name.as_str(), *value));
        let others: Vec<(&str, &str)> = others.filter(|(name, _)| *name != "host" && *name != "connection").collect();
        let number = self.connection.next_number();
        self.stream = Some(Stream { number, is_head: method == "HEAD", begun: false, chunked: false });
        self.connection.ask((method, target, authority), &others, content)?;
        Ok(())
    }

    fn receive(&mut self) -> io::Result<()> {
        let outcome = self.connection.receive();
        while let Some(event) = self.connection.next_event() {
            self.take_event(event);
        }
        self.ended |= self.connection.has_ended();
        outcome
    }

    fn take_event(&mut self, event: Event) {
        match event {
            Event::Leaving { last } => {
                self.leaving = true;
                self.refused |= self.stream.as_ref().is_some_and(|stream| stream.number > last);
                self.ended |= self.refused || self.stream.is_none();
            }
            Event::Reset { .. } => self.ended = true,
            Event::Fields { fields, ends, .. } => self.take_fields(&fields, ends),
            Event::Content { content, ends, .. } => self.take_content(&content, ends),
            Event::Window { .. } => {}
        }
    }

    fn take_fields(&mut self, fields: &[(String, String)], ends: bool) {
        let Some(stream) = &mut self.stream else { return };
        let mut text = String::new();
        if let Some((_, status)) = fields.iter().find(|(name, _)| name == ":status") {
            let status: u16 = status.parse().expect("it is a number");
            stream.begun = status >= 200;
            let has_length = fields.iter().any(|(name, _)| name == "content-length");
            let has_none = stream.is_head || status < 200 || status == 204 || status == 304;
            stream.chunked = !has_length && !has_none;
            text = format!("HTTP/1.1 {status} {}\r\n", reason(status));
            if stream.chunked {
                text.push_str("Transfer-Encoding: chunked\r\n");
            }
            if self.leaving && stream.begun {
                text.push_str("Connection: close\r\n");
            }
        } else if stream.chunked {
            text.push_str("0\r\n");
        }
        for (name, value) in fields.iter().filter(|(name, _)| !name.starts_with(':')) {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        let is_head = fields.iter().any(|(name, _)| name == ":status");
        if ends && is_head && stream.chunked {
            text.push_str("0\r\n\r\n");
        }
        // Trailers have no place after content with a Content-Length.
        if is_head || stream.chunked {
            self.answers.extend(text.as_bytes());
        }
        if ends {
            self.stream = None;
        }
    }

    fn take_content(&mut self, payload: &[u8], ends: bool) {
        let Some(stream) = &mut self.stream else { return };
        if stream.chunked && !payload.is_empty() {
            self.answers.extend(format!("{:x}\r\n", payload.len()).as_bytes());
            self.answers.extend(payload);
            self.answers.extend(b"\r\n");
        } else {
            self.answers.extend(payload);
        }
        if ends {
            if stream.chunked {
                self.answers.extend(b"0\r\n\r\n");
            }
            self.stream = None;
        }
    }
}

impl Read for Http2 {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.answers.is_empty() && !self.ended && !self.refused {
            self.receive()?;
        }
        if self.refused {
            return Err(NOT_TAKEN.into());
        }
        // A queue gives the first of its two parts alone.
        self.answers.make_contiguous();
        self.answers.read(buffer)
    }
}

impl Write for Http2 {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.leaving && self.stream.is_none() {
            // A later read of the answer reports it.
            self.refused = true;
            return Ok(bytes.len());
        }
        if self.ended {
            return Err(ErrorKind::BrokenPipe.into());
        }
        self.asked.extend_from_slice(bytes);
        self.ask()?;
        // The server makes room for long content bit by bit. A client that does not wait for sockets reads soon, and sending
        // continues then.
        while !self.ended && self.connection.has_unsent() {
            match self.receive() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                outcome => outcome?,
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.connection.below().flush()
    }
}

impl Layer for Http2 {
    fn socket(&self) -> &TcpStream {
        self.connection.socket()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.connection.below().finish()
    }
}

/// The reason phrases of HTTP/1, as far as tests compare them.
fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        200 => "OK",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "",
    }
}
