//! A client's side of HTTP/2 (RFC 9113), below a client that speaks HTTP/1: it turns each request into a stream, and each
//! stream into a response. It implements only what the tests need: one request at a time and, of HPACK (RFC 7541), what our
//! server writes. The server uses neither the dynamic table nor Huffman codes.

use crate::layer::Layer;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RESET: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW: u8 = 8;

pub const END_STREAM: u8 = 1;
pub const ACK: u8 = 1;
pub const END_HEADERS: u8 = 4;

/// SETTINGS_INITIAL_WINDOW_SIZE, and its default.
const INITIAL_WINDOW: u16 = 4;
pub const DEFAULT_WINDOW: i64 = 65_535;
/// The largest window.
const ALL: u32 = (1 << 31) - 1;

/// The error if the server ends the connection and has not taken the request. The request may be sent again on another
/// connection (RFC 9113, section 6.8).
pub const NOT_TAKEN: ErrorKind = ErrorKind::ConnectionRefused;

/// The largest frame that every peer accepts.
pub const FRAME: usize = 16_384;

/// The stream of the current request.
struct Stream {
    number: u32,
    /// Content for which the server has no room at present.
    waiting: VecDeque<u8>,
    window: i64,
    is_head: bool,
    /// Whether the head of the final response has arrived, and whether the content of that response is passed on in chunks.
    begun: bool,
    chunked: bool,
}

pub struct Http2 {
    below: Box<dyn Layer>,
    scheme: &'static str,
    /// The written bytes of an incomplete request.
    asked: Vec<u8>,
    /// The received bytes of an incomplete frame.
    received: Vec<u8>,
    /// The unread bytes of the responses.
    answers: VecDeque<u8>,
    stream: Option<Stream>,
    next: u32,
    window: i64,
    initial_window: i64,
    /// The server has sent GOAWAY.
    leaving: bool,
    /// Whether the server does not take the current request.
    refused: bool,
    ended: bool,
}

impl Http2 {
    pub fn begin(mut below: Box<dyn Layer>, encrypts: bool) -> io::Result<Self> {
        let settings = [&INITIAL_WINDOW.to_be_bytes()[..], &ALL.to_be_bytes()].concat();
        let room = (ALL - 65_535).to_be_bytes();
        below.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &settings), &frame(WINDOW, 0, 0, &room)].concat())?;
        below.flush()?;
        Ok(Self {
            below,
            scheme: if encrypts { "https" } else { "http" },
            asked: Vec::new(),
            received: Vec::new(),
            answers: VecDeque::new(),
            stream: None,
            next: 1,
            window: DEFAULT_WINDOW,
            initial_window: DEFAULT_WINDOW,
            leaving: false,
            refused: false,
            ended: false,
        })
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
        let mut block = Vec::new();
        let authority = value("host").unwrap_or_default();
        for (name, value) in [(":method", method), (":scheme", self.scheme), (":path", target), (":authority", authority)] {
            literal(&mut block, name, value);
        }
        for (name, value) in fields.iter().filter(|(name, _)| name != "host" && name != "connection") {
            literal(&mut block, name, value);
        }
        let number = self.next;
        self.next += 2;
        let flags = END_HEADERS | if content.is_empty() { END_STREAM } else { 0 };
        let window = self.initial_window;
        self.stream =
            Some(Stream { number, waiting: content, window, is_head: method == "HEAD", begun: false, chunked: false });
        self.send(&frame(HEADERS, flags, number, &block))?;
        self.send_content()
    }

    /// Sends as much of the content as the server has room for.
    fn send_content(&mut self) -> io::Result<()> {
        let mut frames = Vec::new();
        if let Some(stream) = &mut self.stream {
            while !stream.waiting.is_empty() && self.window.min(stream.window) > 0 {
                let room = usize::try_from(self.window.min(stream.window)).unwrap_or(0);
                let size = room.min(FRAME).min(stream.waiting.len());
                let piece: Vec<u8> = stream.waiting.drain(..size).collect();
                let flags = if stream.waiting.is_empty() { END_STREAM } else { 0 };
                frames.extend(frame(DATA, flags, stream.number, &piece));
                self.window -= size as i64;
                stream.window -= size as i64;
            }
        }
        self.send(&frames)
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.below.write_all(bytes)?;
        self.below.flush()
    }

    /// Receives once, and handles the frames that are whole then.
    fn receive(&mut self) -> io::Result<()> {
        // Bytes that were written before the socket had room for them.
        self.below.flush()?;
        let Some(frames) = receive_frames(&mut *self.below, &mut self.received)? else {
            self.ended = true;
            return Ok(());
        };
        frames.into_iter().try_for_each(|Frame { kind, flags, number, payload }| self.take_frame(kind, flags, number, &payload))
    }

    fn take_frame(&mut self, kind: u8, flags: u8, number: u32, payload: &[u8]) -> io::Result<()> {
        let is_present = self.stream.as_ref().is_some_and(|stream| stream.number == number);
        match kind {
            SETTINGS if flags & ACK == 0 => {
                if let Some(value) = initial_window(payload) {
                    if let Some(stream) = &mut self.stream {
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
                match &mut self.stream {
                    _ if number == 0 => self.window += more,
                    Some(stream) if stream.number == number => stream.window += more,
                    _ => {}
                }
                self.send_content()?;
            }
            GOAWAY => {
                self.leaving = true;
                match &self.stream {
                    None => self.ended = true,
                    Some(stream) if stream.number > number_of(payload) => {
                        self.ended = true;
                        self.refused = true;
                    }
                    Some(_) => {}
                }
            }
            RESET if is_present => self.ended = true,
            HEADERS if is_present => self.take_fields(flags, payload),
            DATA if is_present => self.take_content(flags, payload),
            _ => {}
        }
        Ok(())
    }

    fn take_fields(&mut self, flags: u8, block: &[u8]) {
        assert!(flags & END_HEADERS != 0, "our server's fields fit into a frame");
        let fields = decoded(block);
        let Some(stream) = &mut self.stream else { return };
        let ends = flags & END_STREAM != 0;
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

    fn take_content(&mut self, flags: u8, payload: &[u8]) {
        let Some(stream) = &mut self.stream else { return };
        if stream.chunked && !payload.is_empty() {
            self.answers.extend(format!("{:x}\r\n", payload.len()).as_bytes());
            self.answers.extend(payload);
            self.answers.extend(b"\r\n");
        } else {
            self.answers.extend(payload);
        }
        if flags & END_STREAM != 0 {
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
        while !self.ended && self.stream.as_ref().is_some_and(|stream| !stream.waiting.is_empty()) {
            match self.receive() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                outcome => outcome?,
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.below.flush()
    }
}

impl Layer for Http2 {
    fn socket(&self) -> &TcpStream {
        self.below.socket()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.below.finish()
    }
}

/// A frame that has arrived.
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    /// The number of the stream.
    pub number: u32,
    pub payload: Vec<u8>,
}

/// Receives once and appends the bytes to `received`. Removes and returns the frames that are complete then; `None` at the end
/// of the connection.
pub fn receive_frames(below: &mut dyn Layer, received: &mut Vec<u8>) -> io::Result<Option<Vec<Frame>>> {
    // All bytes that TLS has decrypted at once: a rest in it would not show at the socket.
    let mut bytes = vec![0; 65_536];
    match below.read(&mut bytes)? {
        0 => return Ok(None),
        count => received.extend_from_slice(&bytes[..count]),
    }
    let (mut frames, mut at) = (Vec::new(), 0);
    while let Some(head) = received.get(at..at + 9) {
        let length = number_of(&head[..3]) as usize;
        let Some(payload) = received.get(at + 9..at + 9 + length) else { break };
        frames.push(Frame { kind: head[3], flags: head[4], number: number_of(&head[5..]), payload: payload.to_vec() });
        at += 9 + length;
    }
    received.drain(..at);
    Ok(Some(frames))
}

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("it is short").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A number of up to four bytes.
pub fn number_of(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).fold(0, |number, byte| (number << 8) | u32::from(*byte))
}

/// SETTINGS_INITIAL_WINDOW_SIZE, if SETTINGS have it.
pub fn initial_window(settings: &[u8]) -> Option<i64> {
    let told = settings.chunks_exact(6).rfind(|setting| setting[..2] == INITIAL_WINDOW.to_be_bytes())?;
    Some(i64::from(number_of(&told[2..])))
}

/// Appends a field as a literal without an index.
pub fn literal(block: &mut Vec<u8>, name: &str, value: &str) {
    block.push(0);
    for text in [name, value] {
        match u8::try_from(text.len()) {
            Ok(length @ 0..127) => block.push(length),
            _ => {
                let rest = text.len() - 127;
                assert!(rest < 1 << 14, "a field of tests is short");
                block.extend([127, 0x80 | (rest & 127) as u8, (rest >> 7) as u8]);
            }
        }
        block.extend_from_slice(text.as_bytes());
    }
}

/// The names in the static table that responses have (RFC 7541, appendix A).
const NAMES: [(usize, &str); 28] = [
    (18, "accept-ranges"),
    (20, "access-control-allow-origin"),
    (21, "age"),
    (22, "allow"),
    (24, "cache-control"),
    (25, "content-disposition"),
    (26, "content-encoding"),
    (27, "content-language"),
    (28, "content-length"),
    (29, "content-location"),
    (30, "content-range"),
    (31, "content-type"),
    (33, "date"),
    (34, "etag"),
    (36, "expires"),
    (44, "last-modified"),
    (45, "link"),
    (46, "location"),
    (48, "proxy-authenticate"),
    (53, "retry-after"),
    (54, "server"),
    (55, "set-cookie"),
    (56, "strict-transport-security"),
    (57, "transfer-encoding"),
    (59, "vary"),
    (60, "via"),
    (61, "www-authenticate"),
    (8, ":status"),
];

/// The statuses that have an index of their own.
const STATUSES: [&str; 7] = ["200", "204", "206", "304", "400", "404", "500"];

pub fn decoded(mut block: &[u8]) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    while let Some(first) = block.first().copied() {
        if first & 0xe0 == 0x20 {
            // The size of the dynamic table.
            integer(&mut block, 5);
        } else if first & 0x80 != 0 {
            let index = integer(&mut block, 7);
            let status = index.checked_sub(8).and_then(|index| STATUSES.get(index)).expect("only statuses are indexed");
            fields.push((":status".to_owned(), (*status).to_owned()));
        } else {
            let index = integer(&mut block, 4);
            let named = NAMES.iter().find(|(known, _)| *known == index).map(|(_, name)| (*name).to_owned());
            let name = if index == 0 { text(&mut block) } else { named.expect("responses have this field") };
            fields.push((name, text(&mut block)));
        }
    }
    fields
}

/// An integer in the last `bits` of the first byte and, if need be, after it (RFC 7541, section 5.1).
fn integer(block: &mut &[u8], bits: u32) -> usize {
    let most = (1 << bits) - 1;
    let (mut value, mut shift) = (usize::from(block[0]) & most, 0);
    *block = &block[1..];
    while value >= most {
        let byte = block[0];
        *block = &block[1..];
        value += usize::from(byte & 127) << shift;
        shift += 7;
        if byte & 128 == 0 {
            break;
        }
    }
    value
}

fn text(block: &mut &[u8]) -> String {
    assert!(block[0] & 0x80 == 0, "our server writes no Huffman codes");
    let length = integer(block, 7);
    let (text, rest) = block.split_at(length);
    *block = rest;
    String::from_utf8_lossy(text).into_owned()
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
