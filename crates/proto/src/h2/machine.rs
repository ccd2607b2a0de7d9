//! The machine of one connection: its state, and the steps from frame to frame.

mod content;
mod control;
mod fields;
mod writing;

pub use writing::{Admission, Finish, compress_preset};

use super::allowance::Allowance;
use super::error::{ErrorCode, Malformed, StreamError, Violation};
use super::frame::{self, FRAME_BYTES, HEADER_BYTES, Header, flag};
use super::head::Outline;
use super::hpack::Decoder;
use super::preface::PREFACE;
use super::streams::{Reading, Streams};
use super::{Limits, Priority};
use crate::h1::Refusal;
use alloc::vec::Vec;
use core::ops::Range;
use oribi_message::HeadLayout;

/// The window of a connection, and of each stream, before it is changed (RFC 9113, section 6.9.2).
const FIRST_WINDOW: u32 = 65_535;

/// No window may be larger.
const LARGEST_WINDOW: u32 = (1 << 31) - 1;

/// The highest stream id: ids have 31 bits.
const HIGHEST_STREAM: u32 = (1 << 31) - 1;

/// The result of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The number of bytes consumed at the start of the input.
    pub consumed: usize,
    /// The meaning of these bytes.
    pub event: Event,
}

/// An event from the client. A stream is known by its id, which is never 0, from [`Event::Head`] or [`Event::Refused`] until
/// [`Machine::finish`] or [`Machine::reset`] is called for it, or until [`Event::Reset`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Nothing complete yet: more input is needed. Some input may have been consumed anyway.
    NeedInput,
    /// A request: its head is in the caller's buffers.
    Head {
        /// The id of the stream.
        id: u32,
        /// Further facts about the request.
        outline: Outline,
        /// The request is complete: nothing follows.
        complete: bool,
    },
    /// A piece of the content, never empty, within the consumed bytes. Call [`Machine::consume`] when there is room for as
    /// much again.
    Content {
        /// The id of the stream.
        id: u32,
        /// Its place in the input.
        range: Range<usize>,
    },
    /// The content is complete, and with it the request.
    End {
        /// The id of the stream.
        id: u32,
        /// Whether there are trailers. They are then the fields of the layout.
        trailers: bool,
    },
    /// The request is refused, before or within its content; further input for it is skipped. Answer with
    /// [`Machine::write_refusal`] if no response has been begun, and [`Machine::finish`].
    Refused {
        /// The id of the stream.
        id: u32,
        /// The reason.
        refusal: Refusal,
    },
    /// The stream has ended and is forgotten: the client no longer wants the response, or has broken a rule.
    Reset {
        /// The id of the stream.
        id: u32,
        /// The rule; `None` if the client has reset the stream.
        error: Option<StreamError>,
    },
    /// An invalid request: its stream has been reset before any other event. For the log.
    Malformed {
        /// The id of the stream.
        id: u32,
        /// The reason.
        why: Malformed,
    },
    /// There is room for content that waits; see [`Machine::next_to_send`].
    Room,
    /// The machine has frames of its own to send: call [`Machine::write_answer`]. Until then nothing is read. The caller,
    /// which queues the output, must stop a client that causes such frames without end and reads nothing.
    Answer,
    /// The connection is refused, and so is everything that follows: from now on every step returns this. Call
    /// [`Machine::write_answer`], which notifies the client, and close.
    Refuse(Violation),
}

/// The part of a frame that the next bytes belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FramePart {
    Preface,
    Header,
    Content,
    Skipped,
    Fields,
    Settings,
}

/// The machine's own next frames; at most one answer at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// The server's own preface.
    Settings,
    Acknowledge,
    Pong([u8; 8]),
    Reset {
        id: u32,
        code: ErrorCode,
    },
    /// The second step of leaving.
    Leave,
    /// Like `Leave`, but because too many requests have ended without a response.
    Calm,
    /// The connection is refused.
    Goaway(ErrorCode),
}

/// The progress of the connection towards its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    No,
    /// The client has been asked to open no more streams. Streams that it opens before it has read this are still accepted.
    Announced,
    /// Streams above the last one that is served are ignored.
    Decided,
}

/// The server's side of one HTTP/2 connection. Less than 400 bytes; it also owns up to 6 KiB for the table of compressed
/// fields, some eighty bytes for each active stream, and, while the fields of one message arrive in pieces, the bytes of these
/// fields.
#[derive(Clone, Debug)]
pub struct Machine {
    part: FramePart,
    /// The current frame, of which `length` is the unread rest, and its padding.
    frame: Header,
    padding: u8,
    /// The next frame must be SETTINGS.
    first: bool,
    leaving: Leaving,
    /// The machine is leaving because too many requests have ended without a response.
    calming: bool,
    /// The last stream that the client had opened at the first step of leaving; `None` if a stream was active then.
    last_of_all: Option<u32>,
    tunnels: bool,
    /// A block of fields has begun in a HEADERS frame, and its last frame has not arrived.
    continuing: bool,
    /// The frame that began the block ends the stream.
    block_ends: bool,
    /// The number of frames of the block so far.
    block_frames: u8,
    /// The client has been notified that responses are encoded without a table.
    without_table: bool,
    /// A stream that waits has got room.
    room: bool,
    answer: Option<Answer>,
    refused: Option<Violation>,
    allowance: Allowance,
    /// The number of bytes that may be sent on all streams together, and on each new stream.
    window: i32,
    stream_window: i32,
    /// The number of bytes of content that have been sent on all streams.
    sent: u64,
    /// SETTINGS_INITIAL_WINDOW_SIZE of the frame that is being read.
    new_window: Option<i32>,
    /// The number of bytes that the client may send on all streams together; the most that this number may become; and the most
    /// for each stream.
    allowed: u32,
    most_allowed: u32,
    most_allowed_stream: u32,
    /// The bytes by which the next window update of the connection raises `allowed`.
    credit: u32,
    /// The last stream that the client has opened, and the last that is served.
    last: u32,
    last_served: u32,
    /// The stream opened before the last one: the streams between the two have been passed over.
    last_but_one: u32,
    streams: Streams,
    /// Priorities of streams that have not been opened.
    early: [Option<(u32, Priority)>; 2],
    decoder: Decoder,
    /// A block that arrived in pieces.
    block: Vec<u8>,
}

impl Machine {
    /// A machine for a new connection, which expects the client's preface.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        let most = |window: u32| window.clamp(FIRST_WINDOW, LARGEST_WINDOW);
        Self {
            part: FramePart::Preface,
            frame: Header { length: 0, kind: 0, flags: 0, id: 0 },
            padding: 0,
            first: true,
            leaving: Leaving::No,
            calming: false,
            last_of_all: None,
            tunnels: limits.connect_protocol,
            continuing: false,
            block_ends: false,
            block_frames: 0,
            without_table: false,
            room: false,
            answer: None,
            refused: None,
            allowance: Allowance::default(),
            window: FIRST_WINDOW as i32,
            stream_window: FIRST_WINDOW as i32,
            sent: 0,
            new_window: None,
            allowed: most(limits.connection_window),
            most_allowed: most(limits.connection_window),
            most_allowed_stream: most(limits.stream_window),
            credit: 0,
            last: 0,
            last_served: 0,
            last_but_one: 0,
            streams: Streams::new(),
            early: [None; 2],
            decoder: Decoder::new(),
            block: Vec::new(),
        }
    }

    /// The number of active streams.
    #[inline]
    #[must_use]
    pub fn active(&self) -> usize {
        self.streams.len()
    }

    /// Whether the machine is between two frames and only content of messages is incomplete, so that an end of the input
    /// would cut nothing off.
    #[inline]
    #[must_use]
    pub const fn between_frames(&self) -> bool {
        matches!(self.part, FramePart::Header) && !self.continuing
    }

    /// Whether to close the connection once everything written has been sent: the connection has been refused, or the machine
    /// is leaving and no stream is active.
    #[inline]
    #[must_use]
    pub fn must_close(&self) -> bool {
        self.refused.is_some() || (matches!(self.leaving, Leaving::Decided) && self.streams.len() == 0)
    }

    /// Whether the client has read all answers: no stream was active when the first GOAWAY was written, no stream has been
    /// opened since, and the client has acknowledged the PING after that GOAWAY.
    #[must_use]
    pub fn has_delivered(&self) -> bool {
        self.leaving == Leaving::Decided && self.last_of_all == Some(self.last)
    }

    /// Takes one step on the input, which is all bytes received and not yet consumed. Call it again, without the consumed
    /// bytes, until it returns [`Event::NeedInput`] or [`Event::Refuse`]. [`Event::NeedInput`] leaves at most 255 bytes
    /// unconsumed. If the step is a head, or has trailers, they are in `text` and `layout`; otherwise their content is
    /// undefined. Machines may share both buffers.
    #[inline]
    pub fn handle_input(&mut self, input: &[u8], text: &mut Vec<u8>, layout: &mut HeadLayout, limits: &Limits) -> Step {
        let mut pos = 0;
        loop {
            if let Some(violation) = self.refused {
                return Step { consumed: pos, event: Event::Refuse(violation) };
            }
            if self.answer.is_some() || self.owes_credit() {
                return Step { consumed: pos, event: Event::Answer };
            }
            if self.allowance.has_too_many_resets(limits) && (!self.calming || self.streams.len() == 0) {
                self.calm();
                continue;
            }
            if self.room {
                self.room = false;
                return Step { consumed: pos, event: Event::Room };
            }
            let rest = &input[pos..];
            let read = match self.part {
                FramePart::Header => self.read_frame(rest, text, layout, limits),
                FramePart::Content => Ok(self.read_content(rest, pos)),
                FramePart::Fields => self.read_fields(rest, text, layout, limits),
                FramePart::Settings => self.read_settings(rest),
                FramePart::Skipped => Ok(self.skip(rest)),
                FramePart::Preface => self.read_preface(rest),
            };
            match read {
                Ok(Some((length, event))) => {
                    pos += length;
                    if let Some(event) = event {
                        return Step { consumed: pos, event };
                    }
                }
                Ok(None) => return Step { consumed: pos, event: Event::NeedInput },
                Err(violation) => self.refuse(violation),
            }
        }
    }

    /// The code with which the answer announced by [`Event::Answer`] resets a stream; `None` if the answer resets none.
    #[must_use]
    pub const fn resets(&self) -> Option<ErrorCode> {
        if let Some(Answer::Reset { code, .. }) = self.answer { Some(code) } else { None }
    }

    /// The reason why the answer announced by [`Event::Answer`] ends the service of further requests; `None` if it does not end
    /// it.
    #[must_use]
    pub const fn calms(&self) -> Option<Violation> {
        if let Some(Answer::Calm) = self.answer { Some(Violation::RESETS) } else { None }
    }

    /// Whether the machine is ending the service as [`Machine::calms`] says: only the requests that were active then continue.
    #[must_use]
    pub const fn is_calming(&self) -> bool {
        self.calming
    }

    /// Passes the current time, in nanoseconds of a clock that begins anywhere. Time that has passed restores the client's
    /// allowances.
    #[inline]
    pub fn pass_time(&mut self, now: u64, limits: &Limits) {
        self.allowance.pass_time(now, limits);
    }

    /// Writes the answer that [`Event::Answer`] has announced.
    pub fn write_answer(&mut self, limits: &Limits, out: &mut Vec<u8>) {
        match self.answer.take() {
            Some(Answer::Settings) => self.write_settings(limits, out),
            Some(Answer::Acknowledge) => frame::write(frame::SETTINGS, flag::ACK, 0, &[], out),
            Some(Answer::Pong(opaque)) => frame::write(frame::PING, flag::ACK, 0, &opaque, out),
            Some(Answer::Reset { id, code }) => frame::write_reset(id, code, out),
            Some(Answer::Leave) => self.leave(out),
            Some(Answer::Calm) => frame::write_goaway(self.last_served, ErrorCode::ENHANCE_YOUR_CALM, out),
            Some(Answer::Goaway(code)) => frame::write_goaway(self.last_served, code, out),
            None => {}
        }
        if self.owes_credit() {
            self.write_credit(out);
        }
    }

    fn read_preface(&mut self, rest: &[u8]) -> Result<Read, Violation> {
        let known = rest.len().min(PREFACE.len());
        if rest[..known] != PREFACE[..known] {
            return Err(Violation::PREFACE);
        }
        if known < PREFACE.len() {
            return Ok(None);
        }
        self.part = FramePart::Header;
        self.answer = Some(Answer::Settings);
        Ok(Some((PREFACE.len(), None)))
    }

    /// Reads the header of a frame, and its content if the frame is read as a whole.
    #[inline]
    fn read_frame(
        &mut self,
        rest: &[u8],
        text: &mut Vec<u8>,
        layout: &mut HeadLayout,
        limits: &Limits,
    ) -> Result<Read, Violation> {
        let Some(bytes) = rest.first_chunk() else { return Ok(None) };
        let header = Header::read(bytes);
        if header.length as usize > FRAME_BYTES {
            return Err(Violation::FRAME_SIZE);
        }
        if self.continuing && (header.kind != frame::CONTINUATION || header.id != self.frame.id) {
            return Err(Violation::INTERLEAVED);
        }
        if self.first && (header.kind != frame::SETTINGS || header.has(flag::ACK)) {
            return Err(Violation::FIRST_FRAME);
        }
        match header.kind {
            frame::HEADERS => self.begin_fields(header, rest, text, layout, limits),
            frame::DATA => self.begin_content(header, rest, limits),
            frame::CONTINUATION => self.continue_fields(header, rest, text, layout, limits),
            _ => self.control(header, rest, limits),
        }
    }

    /// Skips the rest of a frame.
    fn skip(&mut self, rest: &[u8]) -> Read {
        let length = rest.len().min(self.frame.length as usize);
        self.frame.length -= length as u32;
        if self.frame.length == 0 {
            self.part = FramePart::Header;
        }
        (length > 0 || self.frame.length == 0).then_some((length, None))
    }

    /// Skips the rest of a frame of which `taken` bytes have been read.
    fn skip_rest(&mut self, header: Header, taken: usize) -> Read {
        self.frame = header;
        self.frame.length = header.length - taken as u32;
        self.part = if self.frame.length == 0 { FramePart::Header } else { FramePart::Skipped };
        Some((HEADER_BYTES + taken, None))
    }

    /// Ends a stream because the client has broken a rule. Returns the event for the caller, if the caller knows the stream.
    #[cold]
    fn fail(&mut self, id: u32, error: StreamError) -> Option<Event> {
        let known = self.lose(id);
        self.answer = Some(Answer::Reset { id, code: error.code() });
        known.then_some(Event::Reset { id, error: Some(error) })
    }

    /// Forgets a stream that the client has ended in another way than by completing its request. Returns whether there was such
    /// a stream.
    fn lose(&mut self, id: u32) -> bool {
        let Some(stream) = self.streams.remove(id) else { return false };
        self.credit += stream.held;
        if stream.reading != Reading::Ended {
            self.streams.abandon(id);
        }
        if stream.writing == super::streams::Writing::Nothing {
            self.allowance.reset();
        }
        true
    }

    /// Serves no further request, because too many requests have ended without a response; active requests continue.
    #[cold]
    fn calm(&mut self) {
        if self.streams.len() == 0 {
            return self.refuse(Violation::RESETS);
        }
        (self.calming, self.leaving, self.last_of_all) = (true, Leaving::Decided, None);
        self.answer = Some(Answer::Calm);
    }

    #[cold]
    fn refuse(&mut self, violation: Violation) {
        self.refused = Some(violation);
        self.answer = Some(Answer::Goaway(violation.code()));
        self.credit = 0;
        self.block = Vec::new();
    }
}

/// The number of bytes that were read, and the event that they are for the caller, if any; `None` if bytes are missing.
type Read = Option<(usize, Option<Event>)>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_small() {
        assert!(size_of::<Machine>() <= 400, "{}", size_of::<Machine>());
        assert!(size_of::<Step>() <= 96, "{}", size_of::<Step>());
    }
}
