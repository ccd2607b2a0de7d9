//! Writes responses (RFC 9110, sections 6.4, 8.6 and 15; RFC 9112, sections 6 and 7).

use super::{Machine, Reading};
use crate::h1::response::{
    InvalidResponse, Preset, write_chunk_size, write_fields, write_length, write_pair, write_refusal_content,
    write_refusal_fields,
};
use crate::h1::response::{NO_CONTENT_BEFORE, NOT_FINAL, NOT_INFORMATIONAL, write_start, write_status_line};
use crate::h1::{Refusal, check_trailers};
use alloc::vec::Vec;
use oribi_message::{FieldPair, ResponseHead, Version};

/// The fate of the connection after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The machine waits for the next request.
    Reuse,
    /// Close the connection once everything has been sent. If the client may still be sending, linger (RFC 9112, section 9.6).
    Close,
    /// Content-Length had promised more content: close, so that the response does not look complete.
    Short {
        /// The number of missing bytes.
        missing: u64,
    },
    /// The app offered more content than Content-Length had promised, and the rest was cut off. The response looks complete
    /// to the client but is not the app's: log and close.
    Over,
}

/// The progress of the response.
#[derive(Clone, Copy, Debug)]
pub(super) enum Writing {
    /// Not begun.
    Nothing,
    /// The head has been written; the response has no content, even if some is offered.
    Dropped,
    /// This many bytes of content are still promised; `over`: more than that has been offered.
    Length {
        left: u64,
        over: bool,
    },
    Chunked,
    /// The end of the connection ends the content.
    UntilClose,
    /// The response is finished, and so is the connection.
    Ended,
}

impl Machine {
    /// Writes `100 Continue` if the client waits for one; see [`Machine::expects_continue`].
    pub fn write_continue(&mut self, out: &mut Vec<u8>) {
        if self.expects_continue {
            self.expects_continue = false;
            out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
    }

    /// Writes an informational response; nothing for an HTTP/1.0 client, which would not understand it.
    ///
    /// # Errors
    /// No request waits for an answer; the final response has been begun; the status is not in 100 to 199, or is 101, which
    /// changes protocols; or a field is invalid. Then nothing has been written.
    pub fn write_informational(
        &mut self,
        status: u16,
        fields: &[FieldPair<'_>],
        out: &mut Vec<u8>,
    ) -> Result<(), InvalidResponse> {
        self.check_ready()?;
        if !matches!(status, 100 | 102..=199) {
            return Err(InvalidResponse(NOT_INFORMATIONAL));
        }
        let mark = out.len();
        write_status_line(status, out);
        if let Err(invalid) = write_fields(fields, None, out) {
            out.truncate(mark);
            return Err(invalid);
        }
        out.extend_from_slice(b"\r\n");
        if self.version == Version::Http10 {
            out.truncate(mark);
        } else if status == 100 {
            self.expects_continue = false;
        }
        Ok(())
    }

    /// Writes the response by which the connection changes to `protocol` (101), with `fields` after those of the change. Then the
    /// connection no longer speaks HTTP.
    ///
    /// # Errors
    /// No request waits for an answer; the final response has been begun; the client speaks HTTP/1.0; or a field is invalid. Then
    /// nothing has been written.
    pub fn write_switch(&mut self, protocol: &str, fields: &[FieldPair<'_>], out: &mut Vec<u8>) -> Result<(), InvalidResponse> {
        self.check_ready()?;
        if self.version == Version::Http10 {
            return Err(InvalidResponse("a client of HTTP/1.0 cannot change its protocol"));
        }
        let mark = out.len();
        write_status_line(101, out);
        write_pair((b"Connection", b"Upgrade"), out);
        write_pair((b"Upgrade", protocol.as_bytes()), out);
        if let Err(invalid) = write_fields(fields, None, out) {
            out.truncate(mark);
            return Err(invalid);
        }
        out.extend_from_slice(b"\r\n");
        self.writing = Writing::Ended;
        Ok(())
    }

    /// Writes the head of the final response and decides how its content is framed.
    ///
    /// `length` is the size of the whole content if it is known; a Content-Length of the app overrides `length`. Without
    /// either, HTTP/1.1 clients get chunks (unless the preset says otherwise) and HTTP/1.0 clients a closed connection.
    /// `persist` is false if the server wants to close the connection after this response. If the head is written before the
    /// request has been read completely, it announces the close as well, because the rest of the request will not be read.
    ///
    /// The app's Date, Server and Strict-Transport-Security replace the preset ones. The app's Connection, Keep-Alive,
    /// Proxy-Connection and Trailer are not passed on, because the connection is not the app's; but `Connection: close` is
    /// obeyed.
    ///
    /// # Errors
    /// No request waits for an answer; the response has been begun; the status is not in 200 to 999; or a field is invalid: a
    /// name that is not a token, a control byte in a value, Transfer-Encoding, a Content-Length that is not a number or occurs
    /// twice. Then nothing has been written or changed.
    pub fn write_head(
        &mut self,
        head: ResponseHead<'_>,
        length: Option<u64>,
        persist: bool,
        preset: &Preset<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), InvalidResponse> {
        self.check_ready()?;
        if !matches!(head.status, 200..=999) {
            return Err(InvalidResponse(NOT_FINAL));
        }
        let mark = out.len();
        write_start(head.status, preset, out);
        let said = match write_fields(head.fields, Some(preset), out) {
            Ok(said) => said,
            Err(invalid) => {
                out.truncate(mark);
                return Err(invalid);
            }
        };
        let modern = self.version == Version::Http11;
        self.close |= !persist || said.close || !self.request_complete();
        self.writing = match (head.status, said.length, length) {
            // RFC 9110, section 8.6: no Content-Length with 204. RFC 9110, section 15.3.6: 205 has no content.
            (204, _, _) => Writing::Dropped,
            (205, _, _) => {
                write_length(0, out);
                Writing::Dropped
            }
            // With HEAD and 304 the length describes the response to a GET, which only the app knows. Empty content mostly
            // means that the app left the content out.
            (304, said, _) => {
                said.into_iter().for_each(|length| write_length(length, out));
                Writing::Dropped
            }
            (_, said, known) if self.bodiless => {
                said.or(known.filter(|&length| length > 0)).into_iter().for_each(|length| write_length(length, out));
                Writing::Dropped
            }
            (_, Some(left), _) | (_, None, Some(left)) => {
                write_length(left, out);
                Writing::Length { left, over: false }
            }
            (_, None, None) if modern && !preset.until_close => {
                out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
                Writing::Chunked
            }
            (_, None, None) => {
                self.close = true;
                Writing::UntilClose
            }
        };
        if !said.upgrade && !self.close && modern {
            out.extend_from_slice(b"\r\n");
        } else {
            write_connection(said.upgrade, self.close, modern, out);
        }
        self.expects_continue = false;
        Ok(())
    }

    /// Announces `size` bytes of content: writes the framing before them and returns how many of them to send. If the result is
    /// more than 0, send that many bytes and then call [`Machine::write_content_suffix`]. If it is less than `size`, drop the
    /// rest: the response has no content, or less than was offered.
    #[inline]
    #[must_use]
    pub fn write_content_prefix(&mut self, size: u64, out: &mut Vec<u8>) -> u64 {
        match &mut self.writing {
            Writing::Length { left, over } => {
                let sent = size.min(*left);
                *over |= size > *left;
                *left -= sent;
                sent
            }
            // A chunk of no bytes would end the content.
            Writing::Chunked if size > 0 => {
                write_chunk_size(size, out);
                size
            }
            Writing::UntilClose => size,
            Writing::Nothing | Writing::Dropped | Writing::Chunked | Writing::Ended => 0,
        }
    }

    /// Whether the response has announced a length, and all of that content has been written.
    #[inline]
    #[must_use]
    pub const fn content_is_complete(&self) -> bool {
        matches!(self.writing, Writing::Length { left: 0, .. })
    }

    /// Writes the framing after the bytes that [`Machine::write_content_prefix`] announced.
    #[inline]
    pub fn write_content_suffix(&mut self, out: &mut Vec<u8>) {
        if matches!(self.writing, Writing::Chunked) {
            out.extend_from_slice(b"\r\n");
        }
    }

    /// Writes the last chunk, and trailers after it (RFC 9112, section 7.1.2). Only chunked content has a place for trailers;
    /// in any other response they are dropped. Then call [`Machine::finish`].
    ///
    /// # Errors
    /// No head has been written, the response has ended, or [`check_trailers`] refuses the trailers. Then nothing has been
    /// written or changed.
    pub fn write_trailers(&mut self, fields: &[FieldPair<'_>], out: &mut Vec<u8>) -> Result<(), InvalidResponse> {
        if matches!(self.writing, Writing::Nothing | Writing::Ended) {
            return Err(InvalidResponse(NO_CONTENT_BEFORE));
        }
        check_trailers(fields)?;
        if matches!(self.writing, Writing::Chunked) {
            out.extend_from_slice(b"0\r\n");
            for (name, value) in fields {
                [name, &b": "[..], value, b"\r\n"].into_iter().for_each(|part| out.extend_from_slice(part));
            }
            out.extend_from_slice(b"\r\n");
            self.writing = Writing::Dropped;
        }
        Ok(())
    }

    /// Ends the response and returns the fate of the connection. Only after [`Finish::Reuse`] is the machine ready for
    /// another request. If no head has been written, nothing has been answered, and the connection closes.
    #[inline]
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Finish {
        let finish = match self.writing {
            Writing::Length { left, .. } if left > 0 => Finish::Short { missing: left },
            Writing::Length { over: true, .. } => Finish::Over,
            Writing::Nothing | Writing::UntilClose | Writing::Ended => Finish::Close,
            Writing::Dropped | Writing::Length { .. } | Writing::Chunked if self.close || !self.request_complete() => {
                Finish::Close
            }
            Writing::Dropped | Writing::Length { .. } | Writing::Chunked => Finish::Reuse,
        };
        if matches!(self.writing, Writing::Chunked) {
            out.extend_from_slice(b"0\r\n\r\n");
        }
        *self = Self::new();
        if finish != Finish::Reuse {
            self.end_connection();
        }
        finish
    }

    /// Writes the answer to a request that the server refuses: plain text, after which the connection closes. If a response has
    /// been begun, it is too late to refuse: then nothing is written, and the connection must be cut.
    pub fn write_refusal(&mut self, refusal: Refusal, preset: &Preset<'_>, out: &mut Vec<u8>) {
        let started = self.response_started();
        let bodiless = self.bodiless;
        self.end_connection();
        self.reading = Reading::Refused(refusal);
        if started {
            return;
        }
        write_start(refusal.status(), preset, out);
        out.extend_from_slice(preset.policy);
        if let Some(id) = preset.id {
            write_pair(id, out);
        }
        write_refusal_fields(refusal, out);
        out.extend_from_slice(b"Connection: close\r\n\r\n");
        if !bodiless {
            write_refusal_content(refusal, out);
        }
    }

    fn end_connection(&mut self) {
        self.reading = Reading::Ended;
        self.writing = Writing::Ended;
        self.expects_continue = false;
        self.close = true;
    }

    fn check_ready(&self) -> Result<(), InvalidResponse> {
        if self.response_started() {
            return Err(InvalidResponse("the response has already begun"));
        }
        if !self.request_complete() && !self.awaits_content() {
            return Err(InvalidResponse("no request to answer"));
        }
        Ok(())
    }
}

/// Writes the end of a head that says more about the connection than that it stays. Few heads do, and a call for each of these
/// leaves none for the others.
#[cold]
#[inline(never)]
fn write_connection(upgrade: bool, close: bool, modern: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(match (upgrade, close, modern) {
        (false, false, true) => b"\r\n",
        // Also for HTTP/1.0 clients, although they expect the close anyway: the status line says HTTP/1.1 to all clients, so a
        // proxy that speaks HTTP/1.0 to its upstreams and keeps connections would otherwise use this one again (nginx does).
        (false, true, _) => b"Connection: close\r\n\r\n",
        (false, false, false) => b"Connection: keep-alive\r\n\r\n",
        // Upgrade must be named in Connection (RFC 9110, section 7.8).
        (true, true, _) => b"Connection: close, upgrade\r\n\r\n",
        (true, false, true) => b"Connection: upgrade\r\n\r\n",
        (true, false, false) => b"Connection: keep-alive, upgrade\r\n\r\n",
    });
}
