//! The machine of one connection: its state, its getters, and the reading of requests.

mod writing;

pub use writing::Finish;

use super::chunked::{Chunks, Found};
use super::head::Cursor;
use super::meaning::Framing;
use super::{Limits, Refusal, head, meaning};
use core::ops::Range;
use oribi_message::{HeadLayout, Version};
use writing::Writing;

/// The most empty lines that are skipped before a request line. RFC 9112, section 2.2, asks for one, because old clients send
/// it after the content of a POST. A few do no harm; with any number a client could keep the machine busy.
const EMPTY_LINES: u8 = 4;

/// Places in a head are kept in 32 bits, and [`oribi_message::Span`] promises that no head exceeds 1 GiB.
const HEAD_BYTES: usize = 1 << 30;

/// The result of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The number of bytes consumed at the start of the input.
    pub consumed: usize,
    /// The meaning of these bytes.
    pub event: Event,
}

/// An event from the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Nothing complete yet: more input is needed or, if the request is complete, a response. Some input may have been consumed
    /// anyway: empty lines before a request, the framing of chunks.
    NeedInput,
    /// A head: `input[start..consumed]`. The places in the layout count from `start`.
    Head {
        /// Its first byte in the input.
        start: usize,
        /// The framing of its content. After [`Framing::None`] and [`Framing::Empty`] the request is complete and no
        /// [`Event::End`] follows.
        content: Framing,
    },
    /// A piece of the content: `input[range]`, never empty. The range lies within the consumed bytes.
    Content(Range<usize>),
    /// A piece of the trailer section after the content: `input[range]`, never empty, within the consumed bytes. All pieces
    /// of a request, one after the other, are its trailers once [`Event::End`] was returned; see
    /// [`trailers_of`](super::trailers_of).
    Trailers(Range<usize>),
    /// The content is complete, and with it the request.
    End,
    /// The request is refused, and so is everything that follows: from now on every step returns this. Answer with
    /// [`Machine::write_refusal`] and close.
    Refused(Refusal),
}

/// The progress of reading a request.
#[derive(Clone, Copy, Debug)]
enum Reading {
    Head {
        cursor: Cursor,
        empty_lines: u8,
    },
    Length {
        left: u64,
    },
    Chunked(Chunks),
    Complete,
    Refused(Refusal),
    /// The connection is no longer read from.
    Ended,
}

/// The server's side of one HTTP/1 connection. Small; it owns no heap memory and serves any number of requests.
#[derive(Clone, Debug)]
pub struct Machine {
    reading: Reading,
    writing: Writing,
    version: Version,
    /// The method is HEAD: the response has no content.
    bodiless: bool,
    /// The client expects a 100 that has not been written yet.
    expects_continue: bool,
    /// The connection ends with this response.
    close: bool,
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
        Self {
            reading: Reading::Head { cursor: Cursor::START, empty_lines: 0 },
            writing: Writing::Nothing,
            version: Version::Http11,
            bodiless: false,
            expects_continue: false,
            close: false,
        }
    }

    /// Whether the machine waits for a request, or for the rest of a head.
    #[inline]
    #[must_use]
    pub const fn awaits_head(&self) -> bool {
        matches!(self.reading, Reading::Head { .. })
    }

    /// Whether a head has been read and its content is not complete. The content is complete when [`Event::End`] has been
    /// returned, so continue calling [`Machine::handle_input`] after the last piece.
    #[inline]
    #[must_use]
    pub const fn awaits_content(&self) -> bool {
        matches!(self.reading, Reading::Length { .. } | Reading::Chunked(_))
    }

    /// Whether a request has been read completely and its response is not finished.
    #[inline]
    #[must_use]
    pub const fn request_complete(&self) -> bool {
        matches!(self.reading, Reading::Complete)
    }

    /// Whether the final response has been begun.
    #[inline]
    #[must_use]
    pub const fn response_started(&self) -> bool {
        !matches!(self.writing, Writing::Nothing)
    }

    /// Whether the begun response ends only with the connection.
    #[inline]
    #[must_use]
    pub const fn response_ends_with_connection(&self) -> bool {
        matches!(self.writing, Writing::UntilClose)
    }

    /// Whether the client waits for a 100 before it sends the content: the client has sent `Expect: 100-continue`, speaks
    /// HTTP/1.1, has content to send, and neither a 100 nor a final response has been written.
    #[inline]
    #[must_use]
    pub const fn expects_continue(&self) -> bool {
        self.expects_continue
    }

    /// Whether the connection must end after this response.
    #[inline]
    #[must_use]
    pub const fn must_close(&self) -> bool {
        self.close
    }

    /// Takes one step on the input, which is all bytes received and not yet consumed. Call it again, without the consumed
    /// bytes, until it returns [`Event::NeedInput`], [`Event::End`] or [`Event::Refused`]. Bytes after a complete request are
    /// not touched until its response is finished.
    ///
    /// If the step is a head, `layout` is filled in; otherwise it is undefined. Machines may share one layout.
    #[inline]
    pub fn handle_input(&mut self, input: &[u8], layout: &mut HeadLayout, limits: &Limits) -> Step {
        match &mut self.reading {
            Reading::Head { .. } => self.read_head(input, layout, limits),
            Reading::Length { left: 0 } => self.end(0),
            Reading::Length { left } => {
                let length = usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
                *left -= length as u64;
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
                Err(refusal) => self.refuse(refusal),
            },
            Reading::Complete | Reading::Ended => need_input(0),
            Reading::Refused(refusal) => Step { consumed: 0, event: Event::Refused(*refusal) },
        }
    }

    /// Like [`Machine::handle_input`] for `size` bytes of content that the caller has elsewhere than in the input; returns
    /// whether the content is complete. Only for [`Framing::Length`], and for at most the rest of it.
    #[inline]
    pub fn pass_content(&mut self, size: u64) -> bool {
        let Reading::Length { left } = &mut self.reading else { return false };
        debug_assert!(size <= *left, "more content was passed than the length announced");
        *left = left.saturating_sub(size);
        if *left > 0 {
            return false;
        }
        self.end(0);
        true
    }

    fn read_head(&mut self, input: &[u8], layout: &mut HeadLayout, limits: &Limits) -> Step {
        let Reading::Head { cursor, empty_lines } = &mut self.reading else { return need_input(0) };
        let mut start = 0;
        if !cursor.has_moved() {
            loop {
                match input[start..] {
                    [b'\r', b'\n', ..] if *empty_lines == EMPTY_LINES => return self.refuse(Refusal::EMPTY_LINES),
                    [b'\r', b'\n', ..] => {
                        *empty_lines += 1;
                        start += 2;
                    }
                    [] | [b'\r'] => return need_input(start),
                    [b'\r', ..] => return self.refuse(Refusal::BARE_CR),
                    [b'\n', ..] => return self.refuse(Refusal::BARE_LF),
                    _ => break,
                }
            }
        }
        let bound = limits.head_bytes.min(HEAD_BYTES);
        let received = &input[start..];
        let window = &received[..received.len().min(bound)];
        let in_pieces = cursor.has_moved();
        if in_pieces && cursor.is_beyond(window) {
            // The limits were lowered while the head arrived.
            return self.refuse(Refusal::HEAD_LENGTH);
        }
        let outcome = match head::read(window, cursor, layout, limits) {
            Ok(Some(_)) if in_pieces => head::read(window, &mut { Cursor::START }, layout, limits),
            outcome => outcome,
        };
        // A refused HEAD is also answered without content. The method precedes any possible fault, so this does not depend
        // on the number of bytes that have arrived.
        self.bodiless = received.starts_with(b"HEAD ");
        let length = match outcome {
            Ok(Some(length)) => length,
            Ok(None) if received.len() >= bound => return self.refuse(Refusal::HEAD_LENGTH),
            Ok(None) => return need_input(start),
            Err(refusal) => return self.refuse(refusal),
        };
        self.version = layout.version;
        let meaning = match meaning::read(&received[..length], layout, limits) {
            Ok(meaning) => meaning,
            Err(refusal) => return self.refuse(refusal),
        };
        self.close = !meaning.persist;
        self.expects_continue = meaning.expects_continue;
        self.reading = match meaning.framing {
            Framing::None | Framing::Empty => Reading::Complete,
            Framing::Length(left) => Reading::Length { left },
            Framing::Chunked => Reading::Chunked(Chunks::START),
        };
        Step { consumed: start + length, event: Event::Head { start, content: meaning.framing } }
    }

    #[inline]
    fn end(&mut self, consumed: usize) -> Step {
        self.reading = Reading::Complete;
        Step { consumed, event: Event::End }
    }

    #[cold]
    fn refuse(&mut self, refusal: Refusal) -> Step {
        self.reading = Reading::Refused(refusal);
        self.close = true;
        Step { consumed: 0, event: Event::Refused(refusal) }
    }
}

#[inline]
fn need_input(consumed: usize) -> Step {
    Step { consumed, event: Event::NeedInput }
}

#[cfg(test)]
mod tests {
    use super::{Event, Machine};
    use crate::h1::{Limits, Refusal};
    use oribi_message::HeadLayout;

    #[test]
    fn an_idle_connection_is_cheap() {
        assert!(size_of::<Machine>() <= 48, "{}", size_of::<Machine>());
    }

    #[test]
    fn limits_may_be_lowered_at_any_time() {
        let head = b"POST /a/long/target HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        let input = [&head[..], b"5;x=y\r\nhello\r\n0\r\nA: b\r\n\r\n"].concat();
        let least = Limits {
            head_bytes: 5,
            fields: 0,
            target_bytes: 2,
            strict_target: true,
            content_bytes: 1,
            chunk_line_bytes: 1,
            chunk_extra_bytes: 0,
            trailer_bytes: 1,
        };
        for place in 1..input.len() {
            let (mut machine, mut layout, mut fed) = (Machine::new(), HeadLayout::default(), 0);
            for (end, limits) in [(place, &Limits::default()), (input.len(), &least)] {
                loop {
                    let step = machine.handle_input(&input[fed..end], &mut layout, limits);
                    fed += step.consumed;
                    if step.consumed == 0 || matches!(step.event, Event::Refused(_)) {
                        break;
                    }
                }
            }
            if place < head.len() {
                assert_eq!(
                    machine.handle_input(&input[fed..], &mut layout, &least).event,
                    Event::Refused(Refusal::HEAD_LENGTH)
                );
            }
        }
    }
}
