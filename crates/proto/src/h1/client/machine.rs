//! The machine of one connection to an upstream: its state, its getters, and the reading of responses.

mod request;

pub use request::{InvalidRequest, RequestLine};

use super::Fault;
use super::meaning::{self, ResponseFraming};
use crate::h1::chunked::{Chunks, Found};
use crate::h1::head::{self, Cursor};
use crate::h1::{Limits, grammar};
use core::ops::Range;
use oribi_message::HeadLayout;
use request::Sending;

/// The most interim responses before the final one. Servers send one or two (100, 103); without a limit, an upstream could keep
/// an exchange open and its proxy busy.
pub const INTERIM: u8 = 16;

/// Places in a head are kept in 32 bits, and [`oribi_message::Span`] promises that no head exceeds 1 GiB.
const HEAD_BYTES: usize = 1 << 30;

/// The place of the status in a head.
const STATUS: Range<usize> = 9..12;

/// The result of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The number of bytes consumed at the start of the input.
    pub consumed: usize,
    /// The meaning of these bytes.
    pub event: Event,
}

/// An event from the upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Nothing complete yet: more input is needed. The framing of chunks may have been consumed.
    NeedInput,
    /// An interim response (1xx, but never 101): its head is `input[..consumed]`, and the layout has its fields.
    Interim {
        /// The status.
        status: u16,
    },
    /// The head of the final response: `input[..consumed]`. The layout has its fields and its version.
    Head {
        /// The status, from 200 to 599.
        status: u16,
        /// The number of bytes of its content, if it is known: 0 for a response without content.
        length: Option<u64>,
    },
    /// The upstream speaks the other protocol from now on (101): the head is `input[..consumed]`. All bytes that follow belong to
    /// that protocol, and the machine must not get any of them.
    Switched,
    /// A piece of the content: `input[range]`, never empty. The range lies within the consumed bytes.
    Content(Range<usize>),
    /// A piece of the trailer section after the content: see [`Event::Trailers`](crate::h1::Event::Trailers).
    Trailers(Range<usize>),
    /// The response is complete; comes after each [`Event::Head`], also if there is no content. See [`Machine::is_ready`].
    End,
    /// The response is invalid, or there are bytes where none may be. From now on every step returns this: close.
    Failed(Fault),
}

/// The progress of reading a response.
#[derive(Clone, Copy, Debug)]
enum Reading {
    /// No request has been written.
    Idle,
    Head(Cursor),
    Length(u64),
    Chunked(Chunks),
    UntilClose,
    /// The last response is complete, and its end has not been returned yet.
    Ending,
    /// The response is complete, and the connection cannot have another one.
    Closing,
    /// The connection speaks another protocol.
    Switched,
    Failed(Fault),
}

/// The client's side of one HTTP/1 connection. Small; it owns no heap memory and has any number of exchanges, one at a time.
#[derive(Clone, Debug)]
pub struct Machine {
    reading: Reading,
    sending: Sending,
    /// The method is HEAD: the response has no content.
    bodiless: bool,
    /// The request asks for another protocol.
    upgrades: bool,
    /// The upstream keeps the connection after this response.
    persist: bool,
    /// Interim responses to this request so far.
    interim: u8,
}

impl Default for Machine {
    fn default() -> Self {
        Self::new()
    }
}

impl Machine {
    /// A machine for a new connection.
    #[must_use]
    pub const fn new() -> Self {
        Self { reading: Reading::Idle, sending: Sending::Nothing, bodiless: false, upgrades: false, persist: true, interim: 0 }
    }

    /// Whether the machine is ready for a request: the connection is new, or the last exchange is complete on both sides and the
    /// connection persists.
    #[inline]
    #[must_use]
    pub const fn is_ready(&self) -> bool {
        matches!(self.reading, Reading::Idle)
    }

    /// Begins to wait for the response to a request.
    fn expect_response(&mut self, bodiless: bool, upgrades: bool) {
        let sending = self.sending;
        *self = Self { reading: Reading::Head(Cursor::RESPONSE), sending, bodiless, upgrades, ..Self::new() };
    }

    /// Takes one step on the input, which is all bytes received and not yet consumed. Call it again, without the consumed
    /// bytes, until it returns [`Event::NeedInput`], [`Event::Switched`] or [`Event::Failed`]. After [`Event::End`], the next
    /// step also checks that no bytes are left.
    ///
    /// If the step is a head, `layout` is filled in; otherwise it is undefined. Of `limits`, those of targets are not used.
    #[inline]
    pub fn handle_input(&mut self, input: &[u8], layout: &mut HeadLayout, limits: &Limits) -> Step {
        match &mut self.reading {
            Reading::Head(_) => self.read_head(input, layout, limits),
            Reading::Length(left) => {
                let length = usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
                *left -= length as u64;
                if *left == 0 {
                    self.reading = Reading::Ending;
                }
                match length {
                    0 => need_input(0),
                    _ => Step { consumed: length, event: Event::Content(0..length) },
                }
            }
            Reading::Chunked(chunks) => match chunks.read(input, limits) {
                Ok(Found::Nothing) => need_input(input.len()),
                Ok(Found::Piece(range)) => Step { consumed: range.end, event: Event::Content(range) },
                Ok(Found::Trailers(range)) => Step { consumed: range.end, event: Event::Trailers(range) },
                Ok(Found::End(consumed)) => self.end(consumed),
                Err(refusal) => self.fail(refusal.into()),
            },
            Reading::UntilClose => match input.len() {
                0 => need_input(0),
                length => Step { consumed: length, event: Event::Content(0..length) },
            },
            Reading::Ending => self.end(0),
            Reading::Idle | Reading::Closing if input.is_empty() => need_input(0),
            Reading::Idle => {
                let fault = if matches!(self.sending, Sending::Nothing) { Fault::UNASKED } else { Fault::SURPLUS };
                self.fail(fault)
            }
            Reading::Closing => self.fail(Fault::SURPLUS),
            Reading::Switched => need_input(0),
            Reading::Failed(fault) => Step { consumed: 0, event: Event::Failed(*fault) },
        }
    }

    /// Handles the end of the upstream's bytes, when all of them have been consumed; `rest` is the input that is left. Returns
    /// [`Event::End`] if this ends the content, [`Event::NeedInput`] if there is no response to wait for, and otherwise a fault.
    pub fn handle_end(&mut self, rest: &[u8]) -> Event {
        let fault = match self.reading {
            Reading::UntilClose | Reading::Ending => {
                self.persist = false;
                return self.end(0).event;
            }
            Reading::Idle | Reading::Closing | Reading::Switched => {
                self.reading = Reading::Closing;
                return Event::NeedInput;
            }
            Reading::Head(_) if rest.is_empty() && self.interim == 0 => Fault::NO_RESPONSE,
            Reading::Head(_) => Fault::HEAD_CUT,
            Reading::Length(_) | Reading::Chunked(_) => Fault::CONTENT_CUT,
            Reading::Failed(fault) => fault,
        };
        self.fail(fault).event
    }

    fn read_head(&mut self, input: &[u8], layout: &mut HeadLayout, limits: &Limits) -> Step {
        let Reading::Head(cursor) = &mut self.reading else { return need_input(0) };
        let bound = limits.head_bytes.min(HEAD_BYTES);
        let window = &input[..input.len().min(bound)];
        let in_pieces = cursor.has_moved();
        if in_pieces && cursor.is_beyond(window) {
            return self.fail(Fault::HEAD_LENGTH);
        }
        let outcome = match head::read(window, cursor, layout, limits) {
            Ok(Some(_)) if in_pieces => head::read(window, &mut { Cursor::RESPONSE }, layout, limits),
            outcome => outcome,
        };
        let length = match outcome {
            Ok(Some(length)) => length,
            Ok(None) if input.len() >= bound => return self.fail(Fault::HEAD_LENGTH),
            Ok(None) => return need_input(0),
            Err(refusal) => return self.fail(refusal.into()),
        };
        let head = &input[..length];
        // The reader of the status line has checked these digits.
        let status = grammar::number(&head[STATUS]).unwrap_or_default() as u16;
        match status {
            101 if self.upgrades => {
                self.reading = Reading::Switched;
                return Step { consumed: length, event: Event::Switched };
            }
            101 => return self.fail(Fault::SWITCHED),
            100..200 if self.interim == INTERIM => return self.fail(Fault::INTERIM),
            100..200 => {
                self.interim += 1;
                self.reading = Reading::Head(Cursor::RESPONSE);
                return Step { consumed: length, event: Event::Interim { status } };
            }
            _ => {}
        }
        let meaning = match meaning::read(head, layout, status, self.bodiless, limits) {
            Ok(meaning) => meaning,
            Err(fault) => return self.fail(fault),
        };
        self.persist = meaning.persist;
        let (reading, size) = match meaning.framing {
            ResponseFraming::None => (Reading::Ending, Some(0)),
            ResponseFraming::Length(left) => (Reading::Length(left), Some(left)),
            ResponseFraming::Chunked => (Reading::Chunked(Chunks::START), None),
            ResponseFraming::UntilClose => (Reading::UntilClose, None),
        };
        self.reading = reading;
        Step { consumed: length, event: Event::Head { status, length: size } }
    }

    /// A response that comes before its request is complete is legal, but the rest of the request then has no reader.
    fn end(&mut self, consumed: usize) -> Step {
        let reusable = self.persist && matches!(self.sending, Sending::Complete);
        self.reading = if reusable { Reading::Idle } else { Reading::Closing };
        Step { consumed, event: Event::End }
    }

    #[cold]
    fn fail(&mut self, fault: Fault) -> Step {
        self.reading = Reading::Failed(fault);
        Step { consumed: 0, event: Event::Failed(fault) }
    }
}

#[inline]
fn need_input(consumed: usize) -> Step {
    Step { consumed, event: Event::NeedInput }
}
