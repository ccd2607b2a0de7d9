//! Interprets the fields of a complete head for the message and the connection.
//!
//! The rules are checked in a fixed order: target, Host, Transfer-Encoding, Content-Length, Expect. So a head that breaks
//! several rules is always refused for the same rule.

use super::{Limits, Refusal, grammar, target};
use oribi_message::{HeadLayout, KnownField, Span, Version};

/// The framing of a request's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// No content: the request is complete.
    None,
    /// `Content-Length: 0`: there is content, but it is empty. The request is complete.
    Empty,
    /// This many bytes follow; never 0.
    Length(u64),
    /// Chunks follow.
    Chunked,
}

/// The meaning of a head for the machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meaning {
    pub(super) framing: Framing,
    /// The client wants to use the connection again.
    pub(super) persist: bool,
    /// The client waits for a 100 before it sends the content.
    pub(super) expects_continue: bool,
}

/// Lays out the target and checks the fields that the server acts upon.
pub(super) fn read(head: &[u8], layout: &mut HeadLayout, limits: &Limits) -> Result<Meaning, Refusal> {
    target::lay_out(head, layout)?;
    let (mut hosts, mut lengths, mut codings) = (0, 0, 0);
    let (mut host, mut length, mut coding) = (Span::default(), &[][..], &[][..]);
    let (mut close, mut keep_alive, mut expects, mut unknown) = (false, false, false, false);
    for field in &layout.fields {
        let Some(known) = field.known else { continue };
        match known {
            KnownField::Host => {
                hosts += 1;
                host = field.value;
            }
            KnownField::ContentLength => {
                lengths += 1;
                length = field.value.of(head);
            }
            KnownField::TransferEncoding => {
                codings += 1;
                coding = field.value.of(head);
            }
            KnownField::Connection => {
                for option in grammar::elements(field.value.of(head)) {
                    close |= option.eq_ignore_ascii_case(b"close");
                    keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            KnownField::Expect => {
                let known = field.value.of(head).eq_ignore_ascii_case(b"100-continue");
                expects |= known;
                unknown |= !known;
            }
            _ => {}
        }
    }
    let modern = layout.version == Version::Http11;
    if hosts > 1 {
        return Err(Refusal::HOST_REPEATED);
    }
    if hosts == 0 && modern {
        return Err(Refusal::HOST_MISSING);
    }
    if !target::is_authority(head, host) {
        return Err(Refusal::HOST_INVALID);
    }
    let framing = match (codings, lengths) {
        (0, 0) => Framing::None,
        (0, 1) => match grammar::number(length).ok_or(Refusal::LENGTH_INVALID)? {
            0 => Framing::Empty,
            length if length > limits.content_bytes => return Err(Refusal::CONTENT_SIZE),
            length => Framing::Length(length),
        },
        (0, _) => return Err(Refusal::LENGTH_REPEATED),
        // RFC 9112, section 6.1: such a request may be an attempt at smuggling, and so may a request with both fields.
        (_, _) if !modern => return Err(Refusal::CODING_VERSION),
        (1, 0) => read_coding(coding)?,
        (1, _) => return Err(Refusal::LENGTH_AND_CODING),
        (_, _) => return Err(Refusal::CODING_REPEATED),
    };
    if unknown {
        return Err(Refusal::EXPECTATION);
    }
    let has_content = matches!(framing, Framing::Length(_) | Framing::Chunked);
    Ok(Meaning {
        framing,
        persist: !close && (modern || keep_alive),
        // HTTP/1.0 knows no interim responses (RFC 9110, section 10.1.1).
        expects_continue: expects && modern && has_content,
    })
}

/// Reads a list of codings. A list that ends in `chunked` frames a message correctly, but its other codings cannot be decoded
/// here (501). Any other list leaves the end of the request unknown (400; RFC 9112, section 6.3).
fn read_coding(value: &[u8]) -> Result<Framing, Refusal> {
    const CHUNKED: &[u8] = b"chunked";
    if value.eq_ignore_ascii_case(CHUNKED) {
        return Ok(Framing::Chunked);
    }
    let mut seen = 0;
    let mut last = &[][..];
    for coding in grammar::elements(value) {
        if !grammar::is_token(coding) {
            return Err(Refusal::CODING_INVALID);
        }
        seen += usize::from(coding.eq_ignore_ascii_case(CHUNKED));
        last = coding;
    }
    if seen == 1 && last.eq_ignore_ascii_case(CHUNKED) {
        return Err(Refusal::CODING_UNSUPPORTED);
    }
    Err(Refusal::CODING_INVALID)
}
