//! Interprets the fields of a complete response head (RFC 9112, sections 6.3 and 9.3).

use super::Fault;
use crate::h1::{Limits, Refusal, grammar};
use oribi_message::{HeadLayout, KnownField, Version};

/// The framing of a response's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseFraming {
    None,
    Length(u64),
    Chunked,
    UntilClose,
}

/// The meaning of a final head for the machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meaning {
    pub(super) framing: ResponseFraming,
    /// The server keeps the connection.
    pub(super) persist: bool,
}

/// Reads the fields about the framing. `bodiless`: the response has no content, even if its fields announce some.
pub(super) fn read(head: &[u8], layout: &HeadLayout, status: u16, bodiless: bool, limits: &Limits) -> Result<Meaning, Fault> {
    let (mut lengths, mut codings) = (0, 0);
    let (mut length, mut coding) = (&[][..], &[][..]);
    let (mut close, mut keep_alive) = (false, false);
    for field in &layout.fields {
        match field.known {
            Some(KnownField::ContentLength) => {
                lengths += 1;
                length = field.value.of(head);
            }
            Some(KnownField::TransferEncoding) => {
                codings += 1;
                coding = field.value.of(head);
            }
            Some(KnownField::Connection) => {
                for option in grammar::elements(field.value.of(head)) {
                    close |= option.eq_ignore_ascii_case(b"close");
                    keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            _ => {}
        }
    }
    let modern = layout.version == Version::Http11;
    let announced = match (codings, lengths) {
        (0, 0) => ResponseFraming::UntilClose,
        (0, 1) => match grammar::number(length).ok_or(Refusal::LENGTH_INVALID)? {
            length if length > limits.content_bytes => return Err(Refusal::CONTENT_SIZE.into()),
            length => ResponseFraming::Length(length),
        },
        (0, _) => return Err(Refusal::LENGTH_REPEATED.into()),
        (_, 1..) => return Err(Refusal::LENGTH_AND_CODING.into()),
        (_, _) if !modern => return Err(Fault::CODING_VERSION),
        (1, 0) if coding.eq_ignore_ascii_case(b"chunked") => ResponseFraming::Chunked,
        (1, 0) => return Err(Refusal::CODING_UNSUPPORTED.into()),
        (_, _) => return Err(Refusal::CODING_REPEATED.into()),
    };
    let persist = !close && (modern || keep_alive);
    if status == 204 || status == 304 || bodiless {
        // A 204 that announces content is against RFC 9110, section 8.6: its sender may send that content all the same.
        let honest = status != 204 || matches!(announced, ResponseFraming::UntilClose | ResponseFraming::Length(0));
        return Ok(Meaning { framing: ResponseFraming::None, persist: persist && honest });
    }
    let framing = if announced == ResponseFraming::Length(0) { ResponseFraming::None } else { announced };
    Ok(Meaning { framing, persist: persist && framing != ResponseFraming::UntilClose })
}
