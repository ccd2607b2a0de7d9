//! Writes the lines of a response's head (RFC 9112, section 4; RFC 9110, section 6.3): the status line, the server's own
//! fields, and the fields that an app may set.

use super::{Refusal, grammar, names};
use alloc::vec::Vec;
use core::fmt;
use oribi_message::{FieldPair, KnownField, PreparedFields, ResponseHead, reason};

/// The server's additions to every final response: rendered field lines, and the way in which content of unknown length ends. A
/// line is left out if the app has set its field.
#[derive(Clone, Copy, Debug, Default)]
pub struct Preset<'a> {
    /// `Date: Sat, 21 Nov 2026 03:00:00 GMT` and CR LF, or empty.
    pub date: &'a [u8],
    /// `Server: ` with a name and CR LF, or empty.
    pub server: &'a [u8],
    /// `Strict-Transport-Security: ` with a policy and CR LF, or empty.
    pub policy: &'a [u8],
    /// The beginning of most responses of HTTP/1: the status line of a 200, Date and Server; empty if the beginning is put
    /// together for each response.
    pub ok: &'a [u8],
    /// Date and Server as encoded in a response of HTTP/2; empty if they are compressed again for each response.
    pub compressed: &'a [u8],
    /// Further fields of this response: see [`PreparedFields`].
    pub prepared: Option<&'a PreparedFields>,
    /// The id of the request: a name, which is a token in its final case, and a valid value.
    pub id: Option<FieldPair<'a>>,
    /// The valid value of a field Server-Timing; empty without one. The app may have fields of that name beside it.
    pub timing: &'a [u8],
    /// Content of unknown length ends with the connection, instead of in chunks, also for HTTP/1.1 clients.
    pub until_close: bool,
}

impl<'a> Preset<'a> {
    /// Whether there may be lines other than Date and Server; most responses have none.
    #[inline]
    fn has_other_lines(&self) -> bool {
        !self.policy.is_empty() || self.id.is_some() || !self.timing.is_empty() || self.prepared.is_some()
    }

    /// The line with the policy; empty if the app has set that field.
    #[inline]
    pub(crate) fn policy_beside(&self, fields: &[FieldPair<'_>]) -> &'a [u8] {
        let is_policy = |(name, _): &FieldPair<'_>| name.eq_ignore_ascii_case(POLICY);
        if !self.policy.is_empty() && fields.iter().any(is_policy) { &[] } else { self.policy }
    }

    /// The field with the id; none if the app has set it.
    #[inline]
    pub(crate) fn id_beside(&self, fields: &[FieldPair<'_>]) -> Option<FieldPair<'a>> {
        self.id.filter(|(id, _)| !fields.iter().any(|(name, _)| name.eq_ignore_ascii_case(id)))
    }
}

/// Writes a line that is known to be valid.
#[inline]
pub(crate) fn write_pair((name, value): FieldPair<'_>, out: &mut Vec<u8>) {
    for part in [name, b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

/// The name of the field with the server's times (W3C Server Timing), in its case for HTTP/1.
pub(crate) const TIMING: &[u8] = b"Server-Timing";

/// The name of the field with the policy (RFC 6797, section 6.1), in lower case for HTTP/2.
pub(crate) const POLICY: &[u8] = b"strict-transport-security";

/// The reason why a response cannot be sent: the app has broken a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidResponse(pub &'static str);

impl fmt::Display for InvalidResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl core::error::Error for InvalidResponse {}

pub(super) const NOT_FINAL: &str = "not a final status";
/// Trailers came before the content that they belong to.
pub(crate) const NO_CONTENT_BEFORE: &str = "trailers before the response began";
pub(super) const NOT_INFORMATIONAL: &str = "not an informational status";
pub(super) const CONTROL_BYTE: &str = "control byte in a field value";
const NO_LENGTH: &str = "invalid Content-Length";
const TWO_LENGTHS: &str = "more than one Content-Length";
const NOT_THE_APPS: &str = "Transfer-Encoding is the server's to set";
pub(super) const NO_TOKEN: &str = "a field name is not a token";

/// The meaning of a response's fields for the machine.
#[derive(Default)]
pub(super) struct Said {
    date: bool,
    server: bool,
    pub(super) close: bool,
    pub(super) upgrade: bool,
    pub(super) length: Option<u64>,
}

pub(crate) fn digits(status: u16) -> [u8; 3] {
    [status / 100, status / 10, status].map(|rest| b'0' + (rest % 10) as u8)
}

/// Writes the status line. It names HTTP/1.1 to every client (RFC 9110, section 6.2: the highest version that the server
/// conforms to).
pub(super) fn write_status_line(status: u16, out: &mut Vec<u8>) {
    if status == 200 {
        out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        return;
    }
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(&digits(status));
    out.push(b' ');
    out.extend_from_slice(reason(status).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Writes the part of a final response before the fields of the app: the status line, Date and Server.
#[inline]
pub(super) fn write_start(status: u16, preset: &Preset<'_>, out: &mut Vec<u8>) {
    if status == 200 && !preset.ok.is_empty() {
        out.extend_from_slice(preset.ok);
    } else {
        write_status_line(status, out);
        out.extend_from_slice(preset.date);
        out.extend_from_slice(preset.server);
    }
}

/// Writes the preset lines other than Date and Server (`None`: for an informational response), and then the fields that the app
/// may set. In `out`, the output of [`write_start`] comes directly before them: a Date or Server of the app removes the preset
/// line there.
pub(super) fn write_fields(
    fields: &[FieldPair<'_>],
    preset: Option<&Preset<'_>>,
    out: &mut Vec<u8>,
) -> Result<Said, InvalidResponse> {
    let start = out.len();
    if let Some(preset) = preset
        && preset.has_other_lines()
    {
        write_other_lines(preset, fields, out);
    }
    // The preset lines for Date and Server end at `start`.
    let sizes = || preset.map_or((0, 0), |preset| (preset.date.len(), preset.server.len()));
    let mut said = Said::default();
    for &(name, value) in fields {
        let known = names::find(name);
        // A number has no control bytes.
        if known != Some(KnownField::ContentLength) && !grammar::is_value(value) {
            return Err(InvalidResponse(CONTROL_BYTE));
        }
        match known {
            Some(KnownField::ContentLength) => {
                let length = grammar::number(value).ok_or(InvalidResponse(NO_LENGTH))?;
                if said.length.replace(length).is_some() {
                    return Err(InvalidResponse(TWO_LENGTHS));
                }
                continue;
            }
            Some(KnownField::Connection) => {
                said.close |= grammar::elements(value).any(|option| option.eq_ignore_ascii_case(b"close"));
                continue;
            }
            Some(KnownField::KeepAlive | KnownField::ProxyConnection | KnownField::Trailer) => continue,
            Some(KnownField::TransferEncoding) => {
                return Err(InvalidResponse(NOT_THE_APPS));
            }
            Some(KnownField::Upgrade) => said.upgrade = true,
            Some(KnownField::Date) if !said.date => {
                said.date = true;
                let (date, server) = sizes();
                let place = start - server - date;
                out.drain(place..place + date);
            }
            None if !grammar::is_token(name) => return Err(InvalidResponse(NO_TOKEN)),
            None if !said.server && name.eq_ignore_ascii_case(b"server") => {
                said.server = true;
                let (date, server) = sizes();
                let place = if said.date { start - server - date } else { start - server };
                out.drain(place..place + server);
            }
            _ => {}
        }
        out.extend_from_slice(name);
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }
    Ok(said)
}

/// Writes the preset lines other than Date and Server.
#[inline(never)]
fn write_other_lines(preset: &Preset<'_>, fields: &[FieldPair<'_>], out: &mut Vec<u8>) {
    out.extend_from_slice(preset.policy_beside(fields));
    if let Some(id) = preset.id_beside(fields) {
        write_pair(id, out);
    }
    if !preset.timing.is_empty() {
        write_pair((TIMING, preset.timing), out);
    }
    if let Some(prepared) = preset.prepared {
        out.extend_from_slice(prepared.lines());
    }
}

/// Checks a final response that another process will write: its status and its fields.
///
/// # Errors
/// The status is not in 200 to 999, or a field is invalid, as for [`Machine::write_head`](super::Machine::write_head).
pub fn check_head(head: &ResponseHead<'_>) -> Result<(), InvalidResponse> {
    if !matches!(head.status, 200..=999) {
        return Err(InvalidResponse(NOT_FINAL));
    }
    check_fields(head.fields)
}

/// Checks an informational response that another process will write.
///
/// # Errors
/// The status is not in 100 to 199, or is 101; or a field is invalid, as for
/// [`Machine::write_head`](super::Machine::write_head).
pub fn check_informational(status: u16, fields: &[FieldPair<'_>]) -> Result<(), InvalidResponse> {
    if !matches!(status, 100 | 102..=199) {
        return Err(InvalidResponse(NOT_INFORMATIONAL));
    }
    check_fields(fields)
}

fn check_fields(fields: &[FieldPair<'_>]) -> Result<(), InvalidResponse> {
    let mut has_length = false;
    for &(name, value) in fields {
        let known = names::find(name);
        if known != Some(KnownField::ContentLength) && !grammar::is_value(value) {
            return Err(InvalidResponse(CONTROL_BYTE));
        }
        match known {
            Some(KnownField::ContentLength) if grammar::number(value).is_none() => return Err(InvalidResponse(NO_LENGTH)),
            Some(KnownField::ContentLength) if has_length => return Err(InvalidResponse(TWO_LENGTHS)),
            Some(KnownField::ContentLength) => has_length = true,
            Some(KnownField::TransferEncoding) => return Err(InvalidResponse(NOT_THE_APPS)),
            None if !grammar::is_token(name) => return Err(InvalidResponse(NO_TOKEN)),
            _ => {}
        }
    }
    Ok(())
}

pub(crate) fn write_length(length: u64, out: &mut Vec<u8>) {
    const NAME: &[u8; 16] = b"Content-Length: ";
    /// The most decimal digits of a 64-bit number.
    const DIGITS: usize = 20;
    const LINE: usize = NAME.len() + DIGITS + 2;
    // The line is filled from its end. The zeros behind it make the copy below as long as the longest line: a copy of a size that is
    // known at compile time takes no call.
    let mut line = [0; LINE + DIGITS];
    let mut place = LINE - 2;
    line[place..LINE].copy_from_slice(b"\r\n");
    let mut rest = length;
    loop {
        place -= 1;
        line[place] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    place -= NAME.len();
    line[place..place + NAME.len()].copy_from_slice(NAME);
    let end = out.len() + LINE - place;
    out.extend_from_slice(&line[place..place + LINE]);
    out.truncate(end);
}

/// Writes the line before the data of a chunk (RFC 9112, section 7.1).
pub(super) fn write_chunk_size(size: u64, out: &mut Vec<u8>) {
    let count = size.max(1).ilog2() / 4 + 1;
    for place in (0..count).rev() {
        out.push(b"0123456789abcdef"[(size >> (4 * place)) as usize % 16]);
    }
    out.extend_from_slice(b"\r\n");
}

/// Writes the fields that describe the content of the answer to a refused request.
pub(crate) fn write_refusal_fields(refusal: Refusal, out: &mut Vec<u8>) {
    let (phrase, detail) = (reason(refusal.status()), refusal.reason());
    out.extend_from_slice(b"Content-Type: text/plain\r\n");
    if refusal.status() == 503 {
        // The shortage is mostly over in a moment (RFC 9110, section 15.6.4).
        out.extend_from_slice(b"Retry-After: 1\r\n");
    }
    write_length(("400 : \n".len() + phrase.len() + detail.len()) as u64, out);
}

/// Writes the content of the answer to a refused request: `400 Bad Request: ` or similar, the reason, and a line end.
pub(crate) fn write_refusal_content(refusal: Refusal, out: &mut Vec<u8>) {
    out.extend_from_slice(&digits(refusal.status()));
    out.push(b' ');
    out.extend_from_slice(reason(refusal.status()).as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(refusal.reason().as_bytes());
    out.push(b'\n');
}
