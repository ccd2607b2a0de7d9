//! How each protocol writes a response, the only thing about responses that differs between protocols.

use super::body::Body;
use oribi_host::Piece;
use oribi_message::ResponseHead;
use oribi_proto::{fcgi, h1};

/// The exit status of a CGI program that has failed.
pub(super) const FAILURE: u32 = 1;

/// Writes the response to one exchange in the protocol of its request.
#[derive(Debug)]
pub(super) enum Framing<'e> {
    Http(&'e mut h1::Machine),
    FastCgi(&'e mut fcgi::ResponseWriter),
}

/// What is needed for a head besides the app's fields.
#[derive(Debug)]
pub(super) struct Terms<'e> {
    /// The size of the whole content, if known.
    pub(super) size: Option<u64>,
    /// Whether the connection may serve another request (HTTP).
    pub(super) persist: bool,
    /// Fields that the server adds (HTTP; a web server in front adds its own), and fields that were written before.
    pub(super) preset: h1::Preset<'e>,
}

/// What happens to a connection with one exchange at a time after the response has been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It can serve the next request.
    Reuse,
    /// It ends.
    Close,
}

/// What each protocol implements to write a response.
pub(super) trait Frame {
    /// Whether the final response has been begun.
    fn begun(&self) -> bool;

    /// Whether all of the content that was announced has been written.
    fn is_complete(&self) -> bool;

    /// Writes the head. If it is invalid, nothing is written.
    ///
    /// # Errors
    /// What is wrong with the head.
    fn head(&mut self, head: ResponseHead<'_>, terms: &Terms<'_>, out: &mut Vec<u8>) -> Result<(), &'static str>;

    /// Writes what precedes up to `size` bytes of content; returns for how many bytes. 0: do not send the rest.
    fn prefix(&mut self, size: u64, out: &mut Vec<u8>) -> u64;

    /// Writes what follows the content that was announced last.
    fn suffix(&mut self, out: &mut Vec<u8>);

    /// Writes the end of the response.
    fn end(&mut self, out: &mut Vec<u8>) -> End;

    /// Writes a whole response. Its content, `size` bytes, stands in `parts`; returns how many of them the response has.
    ///
    /// # Errors
    /// As [`Frame::head`].
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
            // Most content is one part, and all of it is sent.
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
        self.write_head(head, terms.preset.prepared, terms.size, out).map_err(|invalid| invalid.0)
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

impl Frame for Framing<'_> {
    #[inline]
    fn begun(&self) -> bool {
        match self {
            Self::Http(machine) => machine.begun(),
            Self::FastCgi(exchange) => exchange.begun(),
        }
    }

    #[inline]
    fn is_complete(&self) -> bool {
        match self {
            Self::Http(machine) => machine.is_complete(),
            Self::FastCgi(exchange) => exchange.is_complete(),
        }
    }

    #[inline]
    fn head(&mut self, head: ResponseHead<'_>, terms: &Terms<'_>, out: &mut Vec<u8>) -> Result<(), &'static str> {
        match self {
            Self::Http(machine) => machine.head(head, terms, out),
            Self::FastCgi(exchange) => exchange.head(head, terms, out),
        }
    }

    #[inline]
    fn prefix(&mut self, size: u64, out: &mut Vec<u8>) -> u64 {
        match self {
            Self::Http(machine) => machine.prefix(size, out),
            Self::FastCgi(exchange) => exchange.prefix(size, out),
        }
    }

    #[inline]
    fn suffix(&mut self, out: &mut Vec<u8>) {
        match self {
            Self::Http(machine) => machine.suffix(out),
            Self::FastCgi(exchange) => exchange.suffix(out),
        }
    }

    #[inline]
    fn end(&mut self, out: &mut Vec<u8>) -> End {
        match self {
            Self::Http(machine) => machine.end(out),
            Self::FastCgi(exchange) => exchange.end(out),
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
