//! A client's side of a connection of HTTP/2 (RFC 9113), below the two clients: it sends requests, keeps the windows of both
//! sides, and reports what arrives for each request.

use super::fields::{decoded, literal};
use super::frames::{
    ACK, DATA, DEFAULT_WINDOW, END_HEADERS, END_STREAM, FRAME, Frame, GOAWAY, HEADERS, INITIAL_WINDOW, LARGEST_WINDOW, PING,
    PREFACE, RESET, SETTINGS, WINDOW, frame, initial_window, number_of, receive_frames,
};
use crate::layer::Layer;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};
use std::net::TcpStream;

/// The room for responses that the client grants to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// All that there can be, at once.
    Largest,
    /// The default at first, and then as much as has arrived. So the server has to divide the connection among the requests.
    Default,
}

/// An arrival, mostly for an open request, by the number of its stream.
#[derive(Debug)]
pub enum Event {
    /// A head, or trailers. `ends`: the response is complete.
    Fields {
        number: u32,
        fields: Vec<(String, String)>,
        ends: bool,
    },
    Content {
        number: u32,
        content: Vec<u8>,
        ends: bool,
    },
    /// The server has more room for the content of the request.
    Window {
        number: u32,
    },
    /// The server has reset the stream, with this error code.
    Reset {
        number: u32,
        code: u32,
    },
    /// The server is leaving (GOAWAY), and takes no request behind this one.
    Leaving {
        last: u32,
    },
}

/// The part of a request that has not been sent.
struct Unsent {
    /// Content for which the server has no room at present.
    content: VecDeque<u8>,
    window: i64,
}

pub struct Connection {
    below: Box<dyn Layer>,
    scheme: &'static str,
    room: Room,
    /// The received bytes of an incomplete frame.
    received: Vec<u8>,
    /// The requests whose responses are not complete.
    open: BTreeMap<u32, Unsent>,
    events: VecDeque<Event>,
    next: u32,
    window: i64,
    initial_window: i64,
    leaving: bool,
    ended: bool,
}

impl Connection {
    pub fn begin(mut below: Box<dyn Layer>, encrypts: bool, room: Room) -> io::Result<Self> {
        let mut bytes = PREFACE.to_vec();
        match room {
            Room::Largest => {
                let setting = [&INITIAL_WINDOW.to_be_bytes()[..], &LARGEST_WINDOW.to_be_bytes()].concat();
                bytes.extend(frame(SETTINGS, 0, 0, &setting));
                bytes.extend(frame(WINDOW, 0, 0, &(LARGEST_WINDOW - 65_535).to_be_bytes()));
            }
            Room::Default => bytes.extend(frame(SETTINGS, 0, 0, b"")),
        }
        below.write_all(&bytes)?;
        below.flush()?;
        Ok(Self {
            below,
            scheme: if encrypts { "https" } else { "http" },
            room,
            received: Vec::new(),
            open: BTreeMap::new(),
            events: VecDeque::new(),
            next: 1,
            window: DEFAULT_WINDOW,
            initial_window: DEFAULT_WINDOW,
            leaving: false,
            ended: false,
        })
    }

    pub fn below(&mut self) -> &mut dyn Layer {
        &mut *self.below
    }

    pub fn socket(&self) -> &TcpStream {
        self.below.socket()
    }

    /// Whether the server has announced its end (GOAWAY), so that further requests belong on another connection.
    pub fn is_leaving(&self) -> bool {
        self.leaving
    }

    /// Whether the server has ended the connection.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether content waits until the server has room for it.
    pub fn has_unsent(&self) -> bool {
        self.open.values().any(|unsent| !unsent.content.is_empty())
    }

    /// The number of the stream of the next request.
    pub fn next_number(&self) -> u32 {
        self.next
    }

    /// Sends a request, and as much of its content as the server has room for. The rest is sent while the connection receives.
    /// Returns the number of the stream.
    pub fn ask(
        &mut self,
        (method, target, authority): (&str, &str, &str),
        fields: &[(&str, &str)],
        content: VecDeque<u8>,
    ) -> io::Result<u32> {
        let mut block = Vec::new();
        let pseudo = [(":method", method), (":scheme", self.scheme), (":path", target), (":authority", authority)];
        for (name, value) in pseudo.iter().chain(fields) {
            literal(&mut block, name, value);
        }
        let number = self.next;
        self.next += 2;
        let flags = END_HEADERS | if content.is_empty() { END_STREAM } else { 0 };
        self.open.insert(number, Unsent { content, window: self.initial_window });
        self.send(&frame(HEADERS, flags, number, &block))?;
        self.send_content()?;
        Ok(number)
    }

    /// Resets the stream of a request, if its response is not complete.
    pub fn reset(&mut self, number: u32, code: u32) -> io::Result<()> {
        if self.open.remove(&number).is_none() {
            return Ok(());
        }
        self.send(&frame(RESET, 0, number, &code.to_be_bytes()))
    }

    /// Removes and returns the first arrival.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Receives once, and handles the frames that are complete then.
    ///
    /// # Errors
    /// Receiving has failed, or sending. What arrived before that has its events.
    pub fn receive(&mut self) -> io::Result<()> {
        // Bytes that were written before the socket had room for them.
        self.below.flush()?;
        let Some(frames) = receive_frames(&mut *self.below, &mut self.received)? else {
            self.ended = true;
            return Ok(());
        };
        frames.into_iter().try_for_each(|frame| self.take_frame(frame))
    }

    fn take_frame(&mut self, Frame { kind, flags, number, payload }: Frame) -> io::Result<()> {
        match kind {
            SETTINGS if flags & ACK == 0 => {
                if let Some(value) = initial_window(&payload) {
                    self.open.values_mut().for_each(|unsent| unsent.window += value - self.initial_window);
                    self.initial_window = value;
                }
                self.send(&frame(SETTINGS, ACK, 0, b""))?;
                self.send_content()?;
            }
            PING if flags & ACK == 0 => self.send(&frame(PING, ACK, 0, &payload))?,
            WINDOW => {
                let more = i64::from(number_of(&payload));
                if number == 0 {
                    self.window += more;
                } else if let Some(unsent) = self.open.get_mut(&number) {
                    unsent.window += more;
                    self.events.push_back(Event::Window { number });
                }
                self.send_content()?;
            }
            GOAWAY => {
                self.leaving = true;
                let last = number_of(&payload);
                self.open.split_off(&last.saturating_add(1));
                self.events.push_back(Event::Leaving { last });
            }
            RESET if self.open.remove(&number).is_some() => {
                self.events.push_back(Event::Reset { number, code: number_of(&payload) });
            }
            HEADERS => {
                assert!(flags & END_HEADERS != 0, "our server's fields fit into a frame");
                let ends = flags & END_STREAM != 0;
                if self.is_open(number, ends) {
                    self.events.push_back(Event::Fields { number, fields: decoded(&payload), ends });
                }
            }
            DATA => {
                let (ends, length) = (flags & END_STREAM != 0, payload.len());
                let is_open = self.is_open(number, ends);
                if is_open {
                    self.events.push_back(Event::Content { number, content: payload, ends });
                }
                self.make_room(length, (is_open && !ends).then_some(number))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether the response to this request was not complete. It is from now on, if it `ends`.
    fn is_open(&mut self, number: u32, ends: bool) -> bool {
        if ends { self.open.remove(&number).is_some() } else { self.open.contains_key(&number) }
    }

    /// Grants as much room as has been used. Content for a request that was given up also uses the room of the connection.
    fn make_room(&mut self, used: usize, number: Option<u32>) -> io::Result<()> {
        if used == 0 || self.room == Room::Largest {
            return Ok(());
        }
        let length = u32::try_from(used).expect("a frame is short").to_be_bytes();
        let windows = std::iter::once(0).chain(number);
        let bytes: Vec<u8> = windows.flat_map(|window| frame(WINDOW, 0, window, &length)).collect();
        self.send(&bytes)
    }

    /// Sends as much of the content of all requests as the server has room for, one frame of each in turn.
    fn send_content(&mut self) -> io::Result<()> {
        let mut frames = Vec::new();
        loop {
            let before = frames.len();
            for (number, unsent) in &mut self.open {
                let room = usize::try_from(self.window.min(unsent.window)).unwrap_or(0);
                let size = room.min(FRAME).min(unsent.content.len());
                if size == 0 {
                    continue;
                }
                let piece: Vec<u8> = unsent.content.drain(..size).collect();
                let flags = if unsent.content.is_empty() { END_STREAM } else { 0 };
                frames.extend(frame(DATA, flags, *number, &piece));
                self.window -= size as i64;
                unsent.window -= size as i64;
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
