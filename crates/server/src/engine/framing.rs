//! How each protocol writes a response, the only thing about responses that differs between protocols.

use oribi_message::ResponseHead;
use oribi_proto::{fcgi, h1};

/// The exit status of a CGI program that has failed.
pub(super) const FAILURE: u32 = 1;

/// Writes the response to one exchange in the protocol of its request.
#[derive(Debug)]
pub(super) enum Framing<'e> {
    Http(&'e mut h1::Machine),
    FastCgi(&'e mut fcgi::Exchange),
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

impl Framing<'_> {
    /// Whether the final response has been begun.
    #[inline]
    pub(super) fn begun(&self) -> bool {
        match self {
            Self::Http(machine) => machine.response_started(),
            Self::FastCgi(exchange) => exchange.response_started(),
        }
    }

    /// Writes the head. If it is invalid, nothing is written, and the error says what is wrong.
    #[inline]
    pub(super) fn write_head(
        &mut self,
        head: ResponseHead<'_>,
        terms: &Terms<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), &'static str> {
        match self {
            Self::Http(machine) => {
                machine.write_head(head, terms.size, terms.persist, &terms.preset, out).map_err(|invalid| invalid.0)
            }
            Self::FastCgi(exchange) => {
                exchange.write_head(head, terms.preset.prepared, terms.size, out).map_err(|invalid| invalid.0)
            }
        }
    }

    /// Writes what precedes up to `size` bytes of content; returns for how many bytes. 0: do not send the rest.
    #[inline]
    pub(super) fn write_prefix(&mut self, size: u64, out: &mut Vec<u8>) -> u64 {
        match self {
            Self::Http(machine) => machine.write_content_prefix(size, out),
            Self::FastCgi(exchange) => exchange.write_content_prefix(size, out),
        }
    }

    /// Writes what follows the content that was announced last.
    #[inline]
    pub(super) fn write_suffix(&mut self, out: &mut Vec<u8>) {
        match self {
            Self::Http(machine) => machine.write_content_suffix(out),
            Self::FastCgi(exchange) => exchange.write_content_suffix(out),
        }
    }

    /// Writes the end of the response.
    #[inline(always)]
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) -> End {
        match self {
            Self::Http(machine) => match machine.finish(out) {
                h1::Finish::Reuse => End::Reuse,
                h1::Finish::Close => End::Close,
                h1::Finish::Short { missing } => {
                    log_short(missing);
                    End::Close
                }
                h1::Finish::Over => {
                    log_over();
                    End::Close
                }
            },
            Self::FastCgi(exchange) => {
                match exchange.finish(0, out) {
                    fcgi::Finish::Complete => {}
                    fcgi::Finish::Short { missing } => log_short(missing),
                    fcgi::Finish::Over => log_over(),
                }
                End::Reuse
            }
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
