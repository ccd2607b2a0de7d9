//! How the protocols write a response: the one thing about it that differs between them.

use oribi_message::ResponseHead;
use oribi_proto::{fcgi, h1};

/// What a CGI program that has failed exits with.
pub(super) const FAILURE: u32 = 1;

/// Writes the response to one exchange, in the words of the protocol that it came by.
#[derive(Debug)]
pub(super) enum Framing<'e> {
    Http(&'e mut h1::Machine),
    FastCgi(&'e mut fcgi::Exchange),
}

/// What a head is written with, beside what the app says.
#[derive(Debug)]
pub(super) struct Terms<'e> {
    /// The size of the whole content, where that is known.
    pub(super) size: Option<u64>,
    /// Whether the connection may serve another request (HTTP).
    pub(super) persist: bool,
    /// Fields that the server adds (HTTP; a web server in front adds its own), and fields that were written before.
    pub(super) preset: h1::Preset<'e>,
}

/// What becomes of a connection that only one exchange uses at a time, once the response has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The next request may come.
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

    /// Writes the head. An invalid one leaves no trace; the error says what is wrong with it.
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

    /// Writes what goes in front of up to `size` bytes of content; tells in front of how many. 0: the rest is not to be sent.
    #[inline]
    pub(super) fn write_prefix(&mut self, size: u64, out: &mut Vec<u8>) -> u64 {
        match self {
            Self::Http(machine) => machine.write_content_prefix(size, out),
            Self::FastCgi(exchange) => exchange.write_content_prefix(size, out),
        }
    }

    /// Writes what goes behind the content that was announced last.
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
