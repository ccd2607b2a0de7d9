//! Writes requests (RFC 9112, sections 3, 6 and 7).

use super::Machine;
use crate::h1::response::{write_chunk_size, write_length, write_pair};
use crate::h1::{Framing, check_trailers, grammar, names, search};
use alloc::vec::Vec;
use core::fmt;
use oribi_message::{FieldPair, KnownField};

/// The reason why a request cannot be sent: the caller has broken a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidRequest(pub &'static str);

impl fmt::Display for InvalidRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl core::error::Error for InvalidRequest {}

/// A request but its fields and its content.
#[derive(Clone, Copy, Debug)]
pub struct RequestLine<'a> {
    /// The method, a token; not CONNECT.
    pub method: &'a [u8],
    /// The target, without white space or control bytes.
    pub target: &'a [u8],
    /// The framing of the content.
    pub content: Framing,
    /// The request asks for the protocol in its field Upgrade.
    pub upgrades: bool,
    /// The client takes trailers of the response.
    pub trailers: bool,
}

/// The progress of writing a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sending {
    /// No request has been written on this connection.
    Nothing,
    /// This many bytes of content are still to come.
    Length(u64),
    Chunked,
    Complete,
}

impl Machine {
    /// Whether the whole request has been written.
    #[inline]
    #[must_use]
    pub const fn request_complete(&self) -> bool {
        matches!(self.sending, Sending::Complete)
    }

    /// Writes the head of a request. The machine itself writes the fields Content-Length, Transfer-Encoding, Connection and TE.
    ///
    /// # Errors
    /// The machine is not [ready](Machine::is_ready); the method is not a token, or is CONNECT; the target is empty or has white
    /// space or control bytes; or a field is invalid: a name that is not a token, a control byte in a value, or one of the fields
    /// that the machine writes. Then nothing has been written or changed.
    pub fn write_head<'f>(
        &mut self,
        line: &RequestLine<'_>,
        fields: impl Iterator<Item = FieldPair<'f>>,
        out: &mut Vec<u8>,
    ) -> Result<(), InvalidRequest> {
        if !self.is_ready() {
            return Err(InvalidRequest("the connection is not ready for a request"));
        }
        let mark = out.len();
        if let Err(invalid) = write_lines(line, fields, out) {
            out.truncate(mark);
            return Err(invalid);
        }
        self.sending = match line.content {
            Framing::None | Framing::Empty | Framing::Length(0) => Sending::Complete,
            Framing::Length(length) => Sending::Length(length),
            Framing::Chunked => Sending::Chunked,
        };
        self.expect_response(line.method == b"HEAD", line.upgrades);
        Ok(())
    }

    /// Writes a piece of the content.
    ///
    /// # Errors
    /// The request has no place for it: it is complete, or has announced less content. Then nothing has been written.
    pub fn write_content(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), InvalidRequest> {
        if piece.is_empty() {
            return Ok(());
        }
        match self.sending {
            Sending::Length(left) if left >= piece.len() as u64 => {
                out.extend_from_slice(piece);
                let left = left - piece.len() as u64;
                self.sending = if left == 0 { Sending::Complete } else { Sending::Length(left) };
            }
            Sending::Chunked => {
                write_chunk_size(piece.len() as u64, out);
                out.extend_from_slice(piece);
                out.extend_from_slice(b"\r\n");
            }
            Sending::Length(_) | Sending::Complete | Sending::Nothing => {
                return Err(InvalidRequest("more content than the request has announced"));
            }
        }
        Ok(())
    }

    /// Ends the content of a request in chunks, with trailers; does nothing for a complete request.
    ///
    /// # Errors
    /// The content is shorter than announced, or [`check_trailers`] refuses the trailers. Then nothing has been written.
    pub fn finish_request(&mut self, trailers: &[FieldPair<'_>], out: &mut Vec<u8>) -> Result<(), InvalidRequest> {
        match self.sending {
            Sending::Complete => Ok(()),
            Sending::Chunked => {
                check_trailers(trailers).map_err(|invalid| InvalidRequest(invalid.0))?;
                out.extend_from_slice(b"0\r\n");
                trailers.iter().for_each(|pair| write_pair(*pair, out));
                out.extend_from_slice(b"\r\n");
                self.sending = Sending::Complete;
                Ok(())
            }
            Sending::Length(_) | Sending::Nothing => Err(InvalidRequest("less content than the request has announced")),
        }
    }
}

fn write_lines<'f>(
    line: &RequestLine<'_>,
    fields: impl Iterator<Item = FieldPair<'f>>,
    out: &mut Vec<u8>,
) -> Result<(), InvalidRequest> {
    if !grammar::is_token(line.method) || line.method == b"CONNECT" {
        return Err(InvalidRequest("the method cannot be sent"));
    }
    if line.target.is_empty() || search::target_end(line.target, 0, false) != line.target.len() {
        return Err(InvalidRequest("invalid byte in the request target"));
    }
    [line.method, b" ", line.target, b" HTTP/1.1\r\n"].into_iter().for_each(|part| out.extend_from_slice(part));
    for (name, value) in fields {
        match names::find(name) {
            Some(KnownField::ContentLength | KnownField::TransferEncoding | KnownField::Connection | KnownField::Te) => {
                return Err(InvalidRequest("a field that belongs to the connection"));
            }
            None if !grammar::is_token(name) => return Err(InvalidRequest("a field name is not a token")),
            _ if !grammar::is_value(value) => return Err(InvalidRequest("control byte in a field value")),
            _ => write_pair((name, value), out),
        }
    }
    match line.content {
        Framing::None => {}
        Framing::Empty => write_length(0, out),
        Framing::Length(length) => write_length(length, out),
        Framing::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
    }
    // TE is about this connection, so it must be named in Connection (RFC 9110, section 10.1.4).
    let options: &[u8] = match (line.upgrades, line.trailers) {
        (false, false) => b"\r\n",
        (true, false) => b"Connection: upgrade\r\n\r\n",
        (false, true) => b"TE: trailers\r\nConnection: TE\r\n\r\n",
        (true, true) => b"TE: trailers\r\nConnection: upgrade, TE\r\n\r\n",
    };
    out.extend_from_slice(options);
    Ok(())
}
