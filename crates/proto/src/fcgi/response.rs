//! One request: its role, and the writer of its response (FastCGI 1.0, sections 5.3, 5.5 and 6; RFC 3875, section 6).

use super::fields;
use super::record::{HEADER_BYTES, Header, ProtocolStatus, RECORD_BYTES, STDERR, STDOUT, padding};
use super::record::{write_end_request, write_padding, write_stream};
use super::{InvalidResponse, Refusal};
use crate::h1::Preset;
use crate::h1::response::{TIMING, write_length, write_pair, write_refusal_content, write_refusal_fields};
use alloc::vec::Vec;
use oribi_message::{ResponseHead, Role};

/// The end of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The response is complete.
    Complete,
    /// Content-Length had promised more content.
    Short {
        /// The number of missing bytes.
        missing: u64,
    },
    /// More content was offered than Content-Length had promised, and was cut off: log it.
    Over,
}

/// The progress of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writing {
    /// Not begun.
    Nothing,
    /// The head has been written; the response has no content, even if some is offered.
    Dropped,
    /// This many bytes of content are still promised; `over`: more than that has been offered.
    Length {
        left: u64,
        over: bool,
    },
    /// The end of the stream ends the content.
    UntilEnd,
    Ended,
}

/// The place of the record that holds a head, so that content after it can join the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HeadRecord {
    start: usize,
    length: usize,
}

impl HeadRecord {
    fn header(self, id: u16) -> Header {
        Header::new(STDOUT, id, self.length)
    }

    /// Whether this record is the last one in `out`.
    fn ends(self, id: u16, out: &[u8]) -> bool {
        let header = self.header(id);
        let end = self.start + HEADER_BYTES + self.length + usize::from(header.padding);
        end == out.len() && out[self.start..].starts_with(&header.to_bytes())
    }
}

/// The application's side of one request, from [`Event::Begin`](super::Event::Begin) to END_REQUEST: writes its response.
/// Small, and owns no heap memory.
///
/// Records of different requests may be sent in any order, records of one request in the order in which they were written.
#[derive(Clone, Debug)]
pub struct ResponseWriter {
    id: u16,
    role: Role,
    bodiless: bool,
    /// STDERR has content, so the end of that stream must also be written.
    errors: bool,
    /// The padding after the content that was announced last.
    padding: u8,
    writing: Writing,
    head: Option<HeadRecord>,
}

impl ResponseWriter {
    /// The writer of the response to a request that has just begun.
    #[must_use]
    pub const fn new(id: u16, role: Role) -> Self {
        Self { id, role, bodiless: false, errors: false, padding: 0, writing: Writing::Nothing, head: None }
    }

    /// The id of the request.
    #[inline]
    #[must_use]
    pub const fn id(&self) -> u16 {
        self.id
    }

    /// The role that the web server asks for.
    #[inline]
    #[must_use]
    pub const fn role(&self) -> Role {
        self.role
    }

    /// Sets whether the response has no content because of the method; see [`Outline`](super::params::Outline).
    #[inline]
    pub const fn set_bodiless(&mut self, bodiless: bool) {
        self.bodiless = bodiless;
    }

    /// Whether the response has been begun.
    #[inline]
    #[must_use]
    pub const fn response_started(&self) -> bool {
        !matches!(self.writing, Writing::Nothing)
    }

    /// Whether the response has been begun and only the end of the stream will show that its content is complete.
    #[inline]
    #[must_use]
    pub const fn is_open_ended(&self) -> bool {
        matches!(self.writing, Writing::UntilEnd)
    }

    /// Whether the response has announced a length, and all of that content has been written.
    #[inline]
    #[must_use]
    pub const fn content_is_complete(&self) -> bool {
        matches!(self.writing, Writing::Length { left: 0, .. })
    }

    /// Writes the head of the response.
    ///
    /// `length` is the size of the whole content if it is known; a Content-Length of the app overrides `length`. Without
    /// either, the end of the stream ends the content. Date and Server are left to the web server, even if they are preset.
    ///
    /// Fields that describe the client's connection are not passed on, nor is Status. The response of an authorizer that agrees
    /// (200) has no content, because the web server has no use for it (section 6.3).
    ///
    /// # Errors
    /// The response has been begun; the status is not in 200 to 999; or a field is invalid, as for
    /// [`h1::Machine::write_head`](crate::h1::Machine::write_head). Then nothing has been written or changed.
    pub fn write_head(
        &mut self,
        head: ResponseHead<'_>,
        preset: &Preset<'_>,
        length: Option<u64>,
        out: &mut Vec<u8>,
    ) -> Result<(), InvalidResponse> {
        if self.response_started() {
            return Err(InvalidResponse("the response has already begun"));
        }
        if !matches!(head.status, 200..=999) {
            return Err(InvalidResponse("not a final status"));
        }
        let start = out.len();
        // The header is filled in when the length is known.
        out.extend_from_slice(&[0; HEADER_BYTES]);
        fields::write_status(head.status, out);
        let said = match fields::write(head.fields, out) {
            Ok(said) => said,
            Err(invalid) => {
                out.truncate(start);
                return Err(invalid);
            }
        };
        out.extend_from_slice(preset.policy_beside(head.fields));
        if let Some(id) = preset.id_beside(head.fields) {
            write_pair(id, out);
        }
        if !preset.timing.is_empty() {
            write_pair((TIMING, preset.timing), out);
        }
        if let Some(prepared) = preset.prepared {
            out.extend_from_slice(prepared.lines());
        }
        // See `h1::Machine::write_head` for the reasons.
        let announced = match (head.status, said, length) {
            (204, _, _) => None,
            (205, _, _) => Some(0),
            (304, said, _) => said,
            (200, _, _) if self.role == Role::Authorizer => None,
            (_, said, known) if self.bodiless => said.or(known.filter(|&length| length > 0)),
            (_, said, known) => said.or(known),
        };
        let dropped =
            self.bodiless || matches!(head.status, 204 | 205 | 304) || (head.status == 200 && self.role == Role::Authorizer);
        self.writing = match announced {
            _ if dropped => Writing::Dropped,
            Some(left) => Writing::Length { left, over: false },
            None => Writing::UntilEnd,
        };
        if let Some(length) = announced {
            write_length(length, out);
        }
        out.extend_from_slice(b"\r\n");
        self.close_head(start, out);
        Ok(())
    }

    /// Announces `size` bytes of content: writes the header before them and returns how many of them the record takes. If the
    /// result is more than 0, send that many bytes, call [`ResponseWriter::write_content_suffix`] and announce the rest: a
    /// record takes at most [`RECORD_BYTES`]. If it is 0, drop the rest: the response has no content, or less than was
    /// offered.
    ///
    /// If the record of the head is still the last one in `out`, the content joins that record.
    #[inline]
    #[must_use]
    pub fn write_content_prefix(&mut self, size: u64, out: &mut Vec<u8>) -> u64 {
        let wanted = match &mut self.writing {
            Writing::Length { left, over } => {
                *over |= size > *left;
                size.min(*left)
            }
            Writing::UntilEnd => size,
            Writing::Nothing | Writing::Dropped | Writing::Ended => 0,
        };
        if wanted == 0 {
            return 0;
        }
        let joined = self.head.take().filter(|head| head.length < RECORD_BYTES && head.ends(self.id, out));
        let before = joined.map_or(0, |head| head.length);
        let admitted = wanted.min((RECORD_BYTES - before) as u64);
        let header = Header::new(STDOUT, self.id, before + admitted as usize);
        match joined {
            Some(head) => {
                let text = head.start + HEADER_BYTES;
                out.truncate(text + head.length);
                out[head.start..text].copy_from_slice(&header.to_bytes());
            }
            None => out.extend_from_slice(&header.to_bytes()),
        }
        self.padding = header.padding;
        if let Writing::Length { left, .. } = &mut self.writing {
            *left -= admitted;
        }
        admitted
    }

    /// Writes the padding after the bytes that [`ResponseWriter::write_content_prefix`] announced.
    #[inline]
    pub fn write_content_suffix(&mut self, out: &mut Vec<u8>) {
        write_padding(usize::from(core::mem::take(&mut self.padding)), out);
    }

    /// Writes a text for the web server's error log, whether the response has been begun or not. Do not call this method
    /// between a prefix and its suffix.
    pub fn write_error(&mut self, text: &[u8], out: &mut Vec<u8>) {
        if self.writing != Writing::Ended && !text.is_empty() {
            self.errors = true;
            write_stream(STDERR, self.id, text, out);
        }
    }

    /// Ends the request: writes the ends of its streams and END_REQUEST with the status that a CGI program would exit with.
    /// Then call [`Machine::finished`](super::Machine::finished).
    ///
    /// A web server considers content of unknown length complete when the request ends in this way, with any status. To show
    /// that a response was given up in the middle, close the connection instead, which also ends its other requests.
    #[inline]
    pub fn finish(&mut self, app_status: u32, out: &mut Vec<u8>) -> Finish {
        let finish = match self.writing {
            Writing::Length { left, .. } if left > 0 => Finish::Short { missing: left },
            Writing::Length { over: true, .. } => Finish::Over,
            _ => Finish::Complete,
        };
        if self.writing != Writing::Ended {
            self.writing = Writing::Ended;
            self.head = None;
            if self.errors {
                out.extend_from_slice(&Header::new(STDERR, self.id, 0).to_bytes());
            }
            out.extend_from_slice(&Header::new(STDOUT, self.id, 0).to_bytes());
            write_end_request(self.id, app_status, ProtocolStatus::Complete, out);
        }
        finish
    }

    /// Writes the answer to a request that the server refuses, as plain text, but not its end. If a response has been begun,
    /// writes nothing, because it is too late to refuse.
    pub fn write_refusal(&mut self, refusal: Refusal, out: &mut Vec<u8>) {
        if self.response_started() {
            return;
        }
        let start = out.len();
        out.extend_from_slice(&[0; HEADER_BYTES]);
        fields::write_status(refusal.status(), out);
        write_refusal_fields(refusal, out);
        out.extend_from_slice(b"\r\n");
        if !self.bodiless {
            write_refusal_content(refusal, out);
        }
        self.writing = Writing::Dropped;
        self.close_head(start, out);
    }

    /// Makes a record of everything after the header that was left blank at `start`, or several records if the text is very
    /// long.
    fn close_head(&mut self, start: usize, out: &mut Vec<u8>) {
        let head = HeadRecord { start, length: out.len() - start - HEADER_BYTES };
        if head.length > RECORD_BYTES {
            let text = out.split_off(start);
            return write_stream(STDOUT, self.id, &text[HEADER_BYTES..], out);
        }
        out[start..start + HEADER_BYTES].copy_from_slice(&head.header(self.id).to_bytes());
        write_padding(padding(head.length), out);
        self.head = Some(head);
    }
}
