//! Writes responses (RFC 9113, section 8.1; RFC 9110, sections 6.4, 8.6 and 15).

use super::super::error::ErrorCode;
use super::super::frame::{self, FRAME_BYTES, HEADER_BYTES, Header, flag};
use super::super::hpack::encoder;
use super::super::streams::{Reading, Removed, Stream, Writing};
use super::Machine;
use crate::h1::response::{NO_CONTENT_BEFORE, POLICY, TIMING, digits, write_refusal_content};
use crate::h1::{InvalidResponse, Preset, Refusal, check_trailers, grammar, names};
use alloc::vec::Vec;
use oribi_message::{FieldPair, KnownField, ResponseHead, reason};

/// The amount of content that may be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The header of a frame with this many bytes of content has been written: send exactly these bytes after it. If that is
    /// fewer than were offered, ask again for the rest.
    Bytes(u64),
    /// No content may be sent until the client allows more: see [`Machine::set_waiting`].
    Blocked,
    /// The response has no more content: drop the rest.
    Dropped,
}

/// The end of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The response is complete.
    Complete,
    /// The stream has been reset, so that the response does not look complete: Content-Length had promised more content, or
    /// there was no head.
    Short {
        /// The number of missing bytes.
        missing: u64,
    },
    /// The app offered more content than Content-Length had promised, and the rest was cut off.
    Over,
}

impl Machine {
    /// Whether the final response of a stream has been begun.
    #[inline]
    #[must_use]
    pub fn response_started(&self, id: u32) -> bool {
        self.streams.get(id).is_some_and(|stream| stream.writing != Writing::Nothing)
    }

    /// Whether the response has announced a length, and all of that content has been written.
    #[inline]
    #[must_use]
    pub fn content_is_complete(&self, id: u32) -> bool {
        self.streams.get(id).is_some_and(|stream| matches!(stream.writing, Writing::Length { left: 0, .. }))
    }

    /// Whether the client waits for a 100 before it sends the content, and neither a 100 nor a final response has been written.
    #[inline]
    #[must_use]
    pub fn expects_continue(&self, id: u32) -> bool {
        self.streams.get(id).is_some_and(|stream| stream.expects_continue)
    }

    /// Writes a 100 if the client waits for one.
    pub fn write_continue(&mut self, id: u32, out: &mut Vec<u8>) {
        if self.expects_continue(id) {
            // Nothing in this response can be invalid.
            let _ = self.write_informational(id, 100, &[], out);
        }
    }

    /// Writes an informational response.
    ///
    /// # Errors
    /// The stream is not active; its final response has been begun; the status is not in 100 to 199, or is 101, which HTTP/2
    /// does not have; or a field is invalid. Then nothing has been written.
    pub fn write_informational(
        &mut self,
        id: u32,
        status: u16,
        fields: &[FieldPair<'_>],
        out: &mut Vec<u8>,
    ) -> Result<(), InvalidResponse> {
        self.find_unbegun(id)?;
        if !matches!(status, 100 | 102..=199) {
            return Err(InvalidResponse("not an informational status"));
        }
        let start = self.begin_block(out);
        encoder::status(status, digits(status), out);
        if let Err(invalid) = write_fields(fields, out) {
            out.truncate(start);
            return Err(invalid);
        }
        self.end_block_of(id, false, start, out);
        if let (100, Some(stream)) = (status, self.streams.find(id)) {
            stream.expects_continue = false;
        }
        Ok(())
    }

    /// Writes the head of the final response, and decides how its content ends.
    ///
    /// `length` is the size of the whole content if it is known; a Content-Length of the app overrides `length`. A response
    /// without content ends with its head, a response of known length with its last byte, any other with [`Machine::finish`] or
    /// trailers.
    ///
    /// The app's Date, Server and Strict-Transport-Security replace the preset ones. Fields about a connection of HTTP/1 are
    /// not passed on.
    ///
    /// # Errors
    /// The stream is not active; the response has been begun; the status is not in 200 to 999; or a field is invalid, as for
    /// [`h1::Machine::write_head`](crate::h1::Machine::write_head). Then nothing has been written or changed.
    pub fn write_head(
        &mut self,
        id: u32,
        head: ResponseHead<'_>,
        length: Option<u64>,
        preset: &Preset<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), InvalidResponse> {
        let stream = self.find_unbegun(id)?;
        let (bodiless, tunnel) = (stream.bodiless, stream.tunnel);
        if !matches!(head.status, 200..=999) {
            return Err(InvalidResponse("not a final status"));
        }
        if tunnel && !stream.opened && matches!(head.status, 200..=299) {
            // The client would take the content for the other protocol (RFC 8441, section 5).
            return Err(InvalidResponse("the client has asked for another protocol, which the app has not accepted"));
        }
        let start = self.begin_block(out);
        encoder::status(head.status, digits(head.status), out);
        let said = match write_fields(head.fields, out) {
            Ok(said) => said,
            Err(invalid) => {
                out.truncate(start);
                return Err(invalid);
            }
        };
        if let Some(prepared) = preset.prepared {
            for (name, value) in prepared.pairs() {
                encoder::field(name, names::find(name), value, out);
            }
        }
        write_preset(preset, head.fields, &said, out);
        // See `h1::Machine::write_head` for the reasons.
        let announced = match (head.status, said.length, length) {
            (204, _, _) => None,
            (205, _, _) => Some(0),
            (304, said, _) => said,
            (200..=299, ..) if tunnel => None,
            (_, said, known) if bodiless => said.or(known.filter(|&length| length > 0)),
            (_, said, known) => said.or(known),
        };
        if let Some(length) = announced {
            encoder::content_length(length, out);
        }
        let writing = match announced {
            _ if bodiless || matches!(head.status, 204 | 205 | 304) => Writing::Dropped,
            Some(left) => Writing::Length { left, over: false },
            None => Writing::UntilEnd,
        };
        let ends = matches!(writing, Writing::Dropped | Writing::Length { left: 0, .. });
        self.end_block_of(id, ends, start, out);
        self.allowance.response();
        if let Some(stream) = self.streams.find(id) {
            stream.writing = writing;
            stream.expects_continue = false;
        }
        Ok(())
    }

    /// Says that the response to an extended CONNECT opens its tunnel. Any other response with a status of 2xx is invalid.
    pub fn open_tunnel(&mut self, id: u32) {
        if let Some(stream) = self.streams.find(id) {
            stream.opened = true;
        }
    }

    /// Announces `size` bytes of content: writes the header of the next frame if any of these bytes may be sent now.
    #[inline]
    #[must_use]
    pub fn write_content_prefix(&mut self, id: u32, size: u64, out: &mut Vec<u8>) -> Admission {
        let connection = self.window;
        let Some(stream) = self.streams.find(id) else { return Admission::Dropped };
        let wanted = match &mut stream.writing {
            Writing::Length { left, over } => {
                *over |= size > *left;
                size.min(*left)
            }
            Writing::UntilEnd => size,
            Writing::Nothing | Writing::Dropped | Writing::Ended => 0,
        };
        if wanted == 0 {
            return Admission::Dropped;
        }
        let window = connection.min(stream.window);
        if window <= 0 {
            return Admission::Blocked;
        }
        let admitted = wanted.min(window as u64).min(FRAME_BYTES as u64);
        stream.window -= admitted as i32;
        self.window -= admitted as i32;
        self.sent += admitted;
        let mut flags = 0;
        if let Writing::Length { left, .. } = &mut stream.writing {
            *left -= admitted;
            flags = if *left == 0 { flag::END_STREAM } else { 0 };
        }
        self.allowance.sent(admitted as u32);
        out.extend_from_slice(&Header { length: admitted as u32, kind: frame::DATA, flags, id }.to_bytes());
        Admission::Bytes(admitted)
    }

    /// The number of bytes of content that have been admitted so far, on all streams together.
    #[inline]
    #[must_use]
    pub const fn content_sent(&self) -> u64 {
        self.sent
    }

    /// Whether the client has room for more content of a stream, regardless of the room on the connection.
    #[must_use]
    pub fn has_room(&self, id: u32) -> bool {
        self.streams.get(id).is_some_and(|stream| stream.window > 0)
    }

    /// Writes trailers, which end content of unknown length. Any other response has ended with its last byte or its head, and
    /// its trailers are dropped. Then call [`Machine::finish`].
    ///
    /// # Errors
    /// The stream is not active, its head has not been written, or [`check_trailers`] refuses the fields. Then nothing has been
    /// written.
    pub fn write_trailers(&mut self, id: u32, fields: &[FieldPair<'_>], out: &mut Vec<u8>) -> Result<(), InvalidResponse> {
        match self.streams.get(id).map(|stream| stream.writing) {
            None | Some(Writing::Nothing) => return Err(InvalidResponse(NO_CONTENT_BEFORE)),
            Some(Writing::UntilEnd) if !fields.is_empty() => check_trailers(fields)?,
            Some(_) => return check_trailers(fields),
        }
        let start = self.begin_block(out);
        for &(name, value) in fields {
            // No white space may surround a value (RFC 9113, section 8.2.1).
            encoder::field(name, names::find(name), grammar::trim(value), out);
        }
        self.end_block_of(id, true, start, out);
        if let Some(stream) = self.streams.find(id) {
            stream.writing = Writing::Ended;
        }
        Ok(())
    }

    /// Ends a response, and the stream. All of the response must have been written. If the client is still sending its request,
    /// the client is asked to stop (RFC 9113, section 8.1).
    #[inline]
    pub fn finish(&mut self, id: u32, out: &mut Vec<u8>) -> Finish {
        let Some(stream) = self.streams.remove(id) else { return Finish::Complete };
        let finish = match stream.writing {
            Writing::Nothing => Finish::Short { missing: 0 },
            Writing::Length { left, .. } if left > 0 => Finish::Short { missing: left },
            Writing::Length { over: true, .. } => Finish::Over,
            _ => Finish::Complete,
        };
        if stream.writing == Writing::UntilEnd {
            frame::write(frame::DATA, flag::END_STREAM, id, &[], out);
        }
        let is_short = matches!(finish, Finish::Short { .. });
        if is_short || stream.reading != Reading::Ended {
            let code = if is_short { ErrorCode::INTERNAL_ERROR } else { ErrorCode::NO_ERROR };
            frame::write_reset(id, code, out);
        }
        self.end(&stream);
        finish
    }

    /// Gives a stream up.
    pub fn reset(&mut self, id: u32, code: ErrorCode, out: &mut Vec<u8>) {
        if let Some(stream) = self.streams.remove(id) {
            frame::write_reset(id, code, out);
            self.end(&stream);
        }
    }

    /// Writes the answer to a request that the server refuses, as plain text. If a response has been begun, writes nothing,
    /// because it is too late to refuse. Then call [`Machine::finish`].
    pub fn write_refusal(&mut self, id: u32, refusal: Refusal, preset: &Preset<'_>, out: &mut Vec<u8>) {
        let Some(stream) = self.streams.find(id).filter(|stream| stream.writing == Writing::Nothing) else { return };
        let bodiless = stream.bodiless;
        stream.writing = Writing::Dropped;
        let length = ("400 : \n".len() + reason(refusal.status()).len() + refusal.reason().len()) as u64;
        // A refused client may not have allowed any content: then the status must do.
        let window = self.streams.get(id).map_or(0, |stream| stream.window.min(self.window));
        let sends_content = !bodiless && i64::from(window) >= length as i64;
        let start = self.begin_block(out);
        encoder::status(refusal.status(), digits(refusal.status()), out);
        encoder::field(b"content-type", Some(KnownField::ContentType), b"text/plain", out);
        if refusal.status() == 503 {
            // As over HTTP/1.
            encoder::field(b"retry-after", None, b"1", out);
        }
        write_preset(preset, &[], &Said::default(), out);
        if sends_content || bodiless {
            encoder::content_length(length, out);
        }
        self.end_block_of(id, !sends_content, start, out);
        self.allowance.refusal();
        if !sends_content {
            return;
        }
        let header = Header { length: length as u32, kind: frame::DATA, flags: flag::END_STREAM, id };
        out.extend_from_slice(&header.to_bytes());
        write_refusal_content(refusal, out);
        self.window -= length as i32;
        if let Some(stream) = self.streams.find(id) {
            stream.window -= length as i32;
        }
    }

    /// The number of bytes of a stream's content that may be sent now.
    #[must_use]
    pub fn window(&self, id: u32) -> u64 {
        self.streams.get(id).map_or(0, |stream| stream.window.min(self.window).max(0) as u64)
    }

    /// Sets whether content of this stream waits because it could not be sent, so that [`Machine::next_to_send`] considers it
    /// and [`Event::Room`](super::Event::Room) reports room for it.
    pub fn set_waiting(&mut self, id: u32, waiting: bool) {
        self.streams.set_waiting(id, waiting);
    }

    /// Whether content of any stream waits.
    #[inline]
    #[must_use]
    pub const fn any_waits(&self) -> bool {
        self.streams.any_waits()
    }

    /// Returns the stream with waiting content that sends the next frame, if any may: see RFC 9218, section 10. The streams of
    /// one urgency take turns, frame by frame, except that streams that the client has declared not incremental are sent one
    /// after the other.
    #[must_use]
    pub fn next_to_send(&mut self) -> Option<u32> {
        if self.window <= 0 { None } else { self.streams.next() }
    }

    fn end(&mut self, stream: &Removed) {
        self.credit += stream.held;
        if stream.reading != Reading::Ended {
            self.streams.abandon(stream.id);
        }
    }

    fn find_unbegun(&mut self, id: u32) -> Result<&mut Stream, InvalidResponse> {
        let stream = self.streams.find(id).ok_or(InvalidResponse("the stream is not active"))?;
        if stream.writing != Writing::Nothing {
            return Err(InvalidResponse("the response has already begun"));
        }
        Ok(stream)
    }

    /// Leaves room for the header of a frame, and begins the block in it. Returns the start of the frame.
    #[inline]
    fn begin_block(&self, out: &mut Vec<u8>) -> usize {
        let start = out.len();
        out.extend_from_slice(&[0; HEADER_BYTES]);
        if !self.without_table {
            out.push(encoder::NO_TABLE);
        }
        start
    }

    /// Fills in the header for which `begin_block` has left room. A block that is too long for one frame continues in others.
    #[inline]
    fn end_block_of(&mut self, id: u32, ends: bool, start: usize, out: &mut Vec<u8>) {
        self.without_table = true;
        let length = out.len() - start - HEADER_BYTES;
        let end_stream = if ends { flag::END_STREAM } else { 0 };
        if length > FRAME_BYTES {
            let block = out.split_off(start);
            return write_long_block(id, end_stream, &block[HEADER_BYTES..], out);
        }
        let header = Header { length: length as u32, kind: frame::HEADERS, flags: flag::END_HEADERS | end_stream, id };
        out[start..start + HEADER_BYTES].copy_from_slice(&header.to_bytes());
    }
}

#[cold]
fn write_long_block(id: u32, end_stream: u8, block: &[u8], out: &mut Vec<u8>) {
    let count = block.len().div_ceil(FRAME_BYTES);
    for (number, fragment) in block.chunks(FRAME_BYTES).enumerate() {
        let (kind, first) = if number == 0 { (frame::HEADERS, end_stream) } else { (frame::CONTINUATION, 0) };
        let last = if number + 1 == count { flag::END_HEADERS } else { 0 };
        frame::write(kind, first | last, id, fragment, out);
    }
}

/// The meaning of a response's fields for the machine.
#[derive(Default)]
struct Said {
    date: bool,
    server: bool,
    length: Option<u64>,
}

/// Writes the fields that the app may set, except its Content-Length.
#[inline]
fn write_fields(fields: &[FieldPair<'_>], out: &mut Vec<u8>) -> Result<Said, InvalidResponse> {
    let mut said = Said::default();
    for &(name, value) in fields {
        if !grammar::is_value(value) {
            return Err(InvalidResponse("control byte in a field value"));
        }
        let known = names::find(name);
        match known {
            Some(KnownField::ContentLength) => {
                let length = grammar::number(value).ok_or(InvalidResponse("invalid Content-Length"))?;
                if said.length.replace(length).is_some() {
                    return Err(InvalidResponse("more than one Content-Length"));
                }
                continue;
            }
            Some(KnownField::Connection | KnownField::KeepAlive | KnownField::ProxyConnection) => continue,
            Some(KnownField::Te | KnownField::Trailer | KnownField::Upgrade) => continue,
            Some(KnownField::TransferEncoding) => {
                return Err(InvalidResponse("Transfer-Encoding is the server's to set"));
            }
            Some(KnownField::Date) => said.date = true,
            None if !grammar::is_token(name) => return Err(InvalidResponse("a field name is not a token")),
            None if name.eq_ignore_ascii_case(b"server") => said.server = true,
            _ => {}
        }
        // No white space may surround a value (RFC 9113, section 8.2.1).
        encoder::field(name, known, grammar::trim(value), out);
    }
    Ok(said)
}

/// Writes the server's additions to the fields of the app.
#[inline]
fn write_preset(preset: &Preset<'_>, fields: &[FieldPair<'_>], said: &Said, out: &mut Vec<u8>) {
    if said.date || said.server || preset.compressed.is_empty() {
        write_lines(preset, said, out);
    } else {
        out.extend_from_slice(preset.compressed);
    }
    write_line(preset.policy_beside(fields), POLICY, None, out);
    if let Some((name, value)) = preset.id_beside(fields) {
        encoder::field(name, names::find(name), value, out);
    }
    if !preset.timing.is_empty() {
        encoder::field(TIMING, None, preset.timing, out);
    }
}

/// Writes Date and Server, which are given as lines of HTTP/1.
fn write_lines(preset: &Preset<'_>, said: &Said, out: &mut Vec<u8>) {
    if !said.date {
        write_line(preset.date, b"date", Some(KnownField::Date), out);
    }
    if !said.server {
        write_line(preset.server, b"server", None, out);
    }
}

#[inline]
fn write_line(line: &[u8], name: &[u8], known: Option<KnownField>, out: &mut Vec<u8>) {
    if let Some(value) = line.get(name.len() + 1..) {
        encoder::field(name, known, value.trim_ascii(), out);
    }
}

/// Writes the Date and Server of a preset as encoded in each response, for [`Preset::compressed`]. The encoder has no table,
/// so they are the same bytes on every connection.
pub fn compress_preset(preset: &Preset<'_>, out: &mut Vec<u8>) {
    write_lines(preset, &Said::default(), out);
}
