//! Frames a response in each protocol, the only step of a response that depends on the protocol.

use super::body::{Body, Rest};
use super::stream::Frames;
use oribi_host::Piece;
use oribi_message::{FieldPair, ResponseHead, Trailers};
use oribi_proto::{fcgi, h1, h2};

/// The exit status of a CGI program that has failed.
pub(super) const FAILURE: u32 = 1;

/// Writes the response to one exchange in the protocol of its request.
#[derive(Debug)]
pub(super) enum Framing<'e> {
    Http(&'e mut h1::Machine),
    FastCgi(&'e mut fcgi::ResponseWriter),
    Http2(Http2<'e>),
}

/// No more content of a stream is framed while this many bytes of its connection wait for the socket. So streams share a
/// connection frame by frame, independently of their amounts of content.
pub(super) const FRAMED_BYTES: usize = 64 << 10;

/// A stream of HTTP/2.
#[derive(Debug)]
pub(super) struct Http2<'e> {
    pub(super) machine: &'e mut h2::Machine,
    pub(super) frames: &'e mut Frames,
    /// The number of bytes that may be framed now, so that other streams get their turn.
    pub(super) room: u64,
    /// Whether no more could be framed now.
    pub(super) blocked: bool,
}

/// The data for a head besides the app's fields.
#[derive(Debug)]
pub(super) struct Terms<'e> {
    /// The size of the whole content, if known.
    pub(super) size: Option<u64>,
    /// Whether the connection may serve another request (HTTP).
    pub(super) persist: bool,
    /// The fields of the server (not for FastCGI, because a web server adds its own), and prepared fields.
    pub(super) preset: h1::Preset<'e>,
}

/// The fate of a connection with one exchange at a time after the response has been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The connection can serve the next request.
    Reuse,
    /// The connection ends with the response.
    Close,
}

/// The interface by which each protocol writes a response.
pub(super) trait Frame {
    /// Whether the final response has begun.
    fn begun(&self) -> bool;

    /// Whether all of the announced content has been written.
    fn is_complete(&self) -> bool;

    /// Writes the head, or nothing if the head is invalid.
    ///
    /// # Errors
    /// The reason why the head is invalid.
    fn head(&mut self, head: ResponseHead<'_>, terms: &Terms<'_>, out: &mut Vec<u8>) -> Result<(), &'static str>;

    /// Writes the framing before up to `size` bytes of content, and returns the number of bytes that must follow it. After 0,
    /// no more content can be framed: the caller passes the rest to [`Frame::postpone`].
    fn prefix(&mut self, size: u64, out: &mut Vec<u8>) -> u64;

    /// Takes content that cannot be framed yet: the next `left` bytes of `rest`. Returns the number of these bytes that the
    /// response includes: `left`, or 0 if it drops them.
    fn postpone(&mut self, _left: u64, _rest: &mut Rest<'_>) -> u64 {
        0
    }

    /// Writes the framing after the content that was announced last.
    fn suffix(&mut self, out: &mut Vec<u8>);

    /// Writes the end of the response.
    fn end(&mut self, out: &mut Vec<u8>) -> End;

    /// Writes the end of the response with trailers, which have been checked. They are dropped if the response cannot contain
    /// trailers.
    fn end_with(&mut self, _trailers: &[FieldPair<'_>], out: &mut Vec<u8>) -> End {
        self.end(out)
    }

    /// Writes a whole response. Its content, `size` bytes, is in `parts`. Returns the number of bytes of content that the
    /// response includes, and the fate of the connection.
    ///
    /// # Errors
    /// The reason why the head is invalid.
    #[inline(always)]
    fn whole(
        &mut self,
        head: ResponseHead<'_>,
        terms: &Terms<'_>,
        parts: &[&[u8]],
        size: u64,
        out: &mut Vec<u8>,
    ) -> Result<(u64, End), &'static str> {
        self.head(head, terms, out)?;
        let (mut left, mut rest) = (size, Body::Parts(parts).rest());
        while left > 0 {
            let admitted = self.prefix(left, out);
            if admitted == 0 {
                break;
            }
            // Most content is one part, sent completely.
            if admitted == size
                && let [part] = parts
            {
                out.extend_from_slice(part);
            } else {
                rest.take(admitted, |piece| {
                    if let Piece::Bytes(bytes) = piece {
                        out.extend_from_slice(bytes);
                    }
                });
            }
            self.suffix(out);
            left -= admitted;
        }
        if left > 0 {
            left -= self.postpone(left, &mut rest);
        }
        Ok((size - left, self.end(out)))
    }
}

impl Frame for h1::Machine {
    #[inline]
    fn begun(&self) -> bool {
        self.response_started()
    }

    #[inline]
    fn is_complete(&self) -> bool {
        self.content_is_complete()
    }

    #[inline]
    fn head(&mut self, head: ResponseHead<'_>, terms: &Terms<'_>, out: &mut Vec<u8>) -> Result<(), &'static str> {
        self.write_head(head, terms.size, terms.persist, &terms.preset, out).map_err(|invalid| invalid.0)
    }

    #[inline]
    fn prefix(&mut self, size: u64, out: &mut Vec<u8>) -> u64 {
        self.write_content_prefix(size, out)
    }

    #[inline]
    fn suffix(&mut self, out: &mut Vec<u8>) {
        self.write_content_suffix(out);
    }

    #[inline(always)]
    fn end(&mut self, out: &mut Vec<u8>) -> End {
        match self.finish(out) {
            h1::Finish::Reuse => return End::Reuse,
            h1::Finish::Close => {}
            h1::Finish::Short { missing } => log_short(missing),
            h1::Finish::Over => log_over(),
        }
        End::Close
    }

    fn end_with(&mut self, trailers: &[FieldPair<'_>], out: &mut Vec<u8>) -> End {
        if !trailers.is_empty() {
            // The trailers have been checked, and the head has been written.
            let _ = self.write_trailers(trailers, out);
        }
        self.end(out)
    }
}

impl Frame for fcgi::ResponseWriter {
    #[inline]
    fn begun(&self) -> bool {
        self.response_started()
    }

    #[inline]
    fn is_complete(&self) -> bool {
        self.content_is_complete()
    }

    #[inline]
    fn head(&mut self, head: ResponseHead<'_>, terms: &Terms<'_>, out: &mut Vec<u8>) -> Result<(), &'static str> {
        self.write_head(head, &terms.preset, terms.size, out).map_err(|invalid| invalid.0)
    }

    #[inline]
    fn prefix(&mut self, size: u64, out: &mut Vec<u8>) -> u64 {
        self.write_content_prefix(size, out)
    }

    #[inline]
    fn suffix(&mut self, out: &mut Vec<u8>) {
        self.write_content_suffix(out);
    }

    #[inline]
    fn end(&mut self, out: &mut Vec<u8>) -> End {
        match self.finish(0, out) {
            fcgi::Finish::Complete => {}
            fcgi::Finish::Short { missing } => log_short(missing),
            fcgi::Finish::Over => log_over(),
        }
        End::Reuse
    }
}

impl Frame for Http2<'_> {
    #[inline]
    fn begun(&self) -> bool {
        self.machine.response_started(self.frames.id)
    }

    #[inline]
    fn is_complete(&self) -> bool {
        self.frames.waiting.is_none() && self.machine.content_is_complete(self.frames.id)
    }

    #[inline]
    fn head(&mut self, head: ResponseHead<'_>, terms: &Terms<'_>, out: &mut Vec<u8>) -> Result<(), &'static str> {
        let id = self.frames.id;
        self.machine.write_head(id, head, terms.size, &terms.preset, out).map_err(|invalid| invalid.0)
    }

    #[inline]
    fn prefix(&mut self, size: u64, out: &mut Vec<u8>) -> u64 {
        if self.room == 0 || self.frames.waiting.is_some() {
            self.blocked = true;
            return 0;
        }
        match self.machine.write_content_prefix(self.frames.id, size.min(self.room), out) {
            h2::Admission::Bytes(admitted) => {
                self.room -= admitted;
                admitted
            }
            h2::Admission::Blocked => {
                self.blocked = true;
                0
            }
            h2::Admission::Dropped => 0,
        }
    }

    fn postpone(&mut self, left: u64, rest: &mut Rest<'_>) -> u64 {
        if !std::mem::take(&mut self.blocked) {
            return 0;
        }
        let waiting = self.frames.waiting.get_or_insert_default();
        rest.take(left, |piece| waiting.push_piece(&piece));
        self.machine.set_waiting(self.frames.id, true);
        left
    }

    #[inline]
    fn suffix(&mut self, _out: &mut Vec<u8>) {}

    #[inline]
    fn end(&mut self, out: &mut Vec<u8>) -> End {
        self.end_with(&[], out)
    }

    #[inline]
    fn end_with(&mut self, trailers: &[FieldPair<'_>], out: &mut Vec<u8>) -> End {
        if self.frames.waiting.is_some() {
            self.frames.ends = true;
            self.frames.trailers = Trailers::of(trailers.iter().copied());
        } else {
            finish(self.machine, self.frames.id, trailers, out);
        }
        End::Reuse
    }
}

/// Ends a stream of HTTP/2 whose content has all been framed.
#[inline]
pub(super) fn finish(machine: &mut h2::Machine, id: u32, trailers: &[FieldPair<'_>], out: &mut Vec<u8>) {
    if !trailers.is_empty() {
        // The trailers have been checked, and the head has been written.
        let _ = machine.write_trailers(id, trailers, out);
    }
    match machine.finish(id, out) {
        h2::Finish::Complete => {}
        h2::Finish::Short { missing } => log_short(missing),
        h2::Finish::Over => log_over(),
    }
}

impl Frame for Framing<'_> {
    #[inline]
    fn begun(&self) -> bool {
        match self {
            Self::Http(machine) => machine.begun(),
            Self::FastCgi(exchange) => exchange.begun(),
            Self::Http2(stream) => stream.begun(),
        }
    }

    #[inline]
    fn is_complete(&self) -> bool {
        match self {
            Self::Http(machine) => machine.is_complete(),
            Self::FastCgi(exchange) => exchange.is_complete(),
            Self::Http2(stream) => stream.is_complete(),
        }
    }

    #[inline]
    fn head(&mut self, head: ResponseHead<'_>, terms: &Terms<'_>, out: &mut Vec<u8>) -> Result<(), &'static str> {
        match self {
            Self::Http(machine) => machine.head(head, terms, out),
            Self::FastCgi(exchange) => exchange.head(head, terms, out),
            Self::Http2(stream) => stream.head(head, terms, out),
        }
    }

    #[inline]
    fn prefix(&mut self, size: u64, out: &mut Vec<u8>) -> u64 {
        match self {
            Self::Http(machine) => machine.prefix(size, out),
            Self::FastCgi(exchange) => exchange.prefix(size, out),
            Self::Http2(stream) => stream.prefix(size, out),
        }
    }

    fn postpone(&mut self, left: u64, rest: &mut Rest<'_>) -> u64 {
        match self {
            // Content that these protocols do not permit is never sent.
            Self::Http(_) | Self::FastCgi(_) => 0,
            Self::Http2(stream) => stream.postpone(left, rest),
        }
    }

    #[inline]
    fn suffix(&mut self, out: &mut Vec<u8>) {
        match self {
            Self::Http(machine) => machine.suffix(out),
            Self::FastCgi(exchange) => exchange.suffix(out),
            Self::Http2(stream) => stream.suffix(out),
        }
    }

    #[inline]
    fn end(&mut self, out: &mut Vec<u8>) -> End {
        match self {
            Self::Http(machine) => machine.end(out),
            Self::FastCgi(exchange) => exchange.end(out),
            Self::Http2(stream) => stream.end(out),
        }
    }

    #[inline]
    fn end_with(&mut self, trailers: &[FieldPair<'_>], out: &mut Vec<u8>) -> End {
        match self {
            Self::Http(machine) => machine.end_with(trailers, out),
            Self::FastCgi(exchange) => exchange.end_with(trailers, out),
            Self::Http2(stream) => stream.end_with(trailers, out),
        }
    }

    /// Looks up the protocol once, not before each piece.
    #[inline(always)]
    fn whole(
        &mut self,
        head: ResponseHead<'_>,
        terms: &Terms<'_>,
        parts: &[&[u8]],
        size: u64,
        out: &mut Vec<u8>,
    ) -> Result<(u64, End), &'static str> {
        match self {
            Self::Http(machine) => machine.whole(head, terms, parts, size, out),
            Self::FastCgi(exchange) => exchange.whole(head, terms, parts, size, out),
            Self::Http2(stream) => stream.whole(head, terms, parts, size, out),
        }
    }
}

#[cold]
fn log_short(missing: u64) {
    log::error!("a response was cut off: {missing} bytes short of its Content-Length");
}

#[cold]
fn log_over() {
    log::error!("a response was cut off: more content than its Content-Length");
}
