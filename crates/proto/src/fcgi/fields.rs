//! The head of a response in CGI's form (RFC 3875, section 6.3): a field for the status, and the other fields.

use crate::h1::response::digits;
use crate::h1::{InvalidResponse, grammar, names};
use alloc::vec::Vec;
use oribi_message::{FieldPair, KnownField, reason};

/// Writes the status, even if it is 200: without a status, the web server would treat a response with Location as a 302.
pub(super) fn write_status(status: u16, out: &mut Vec<u8>) {
    if status == 200 {
        out.extend_from_slice(b"Status: 200 OK\r\n");
        return;
    }
    out.extend_from_slice(b"Status: ");
    out.extend_from_slice(&digits(status));
    out.push(b' ');
    out.extend_from_slice(reason(status).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Writes the fields that the app may set. Returns the Content-Length among them, which is not written.
///
/// Fields that describe the client's connection are left out, because that connection is the web server's. So is Status:
/// nginx would treat it as a second status and answer 502.
pub(super) fn write(fields: &[FieldPair<'_>], out: &mut Vec<u8>) -> Result<Option<u64>, InvalidResponse> {
    let mut length = None;
    for &(name, value) in fields {
        if !grammar::is_value(value) {
            return Err(InvalidResponse("control byte in a field value"));
        }
        match names::find(name) {
            Some(KnownField::ContentLength) => {
                let number = grammar::number(value).ok_or(InvalidResponse("invalid Content-Length"))?;
                if length.replace(number).is_some() {
                    return Err(InvalidResponse("more than one Content-Length"));
                }
                continue;
            }
            Some(KnownField::Connection | KnownField::KeepAlive | KnownField::ProxyConnection) => continue,
            Some(KnownField::Te | KnownField::Trailer | KnownField::Upgrade) => continue,
            // As over HTTP: an app that sets this may also have coded its content.
            Some(KnownField::TransferEncoding) => {
                return Err(InvalidResponse("Transfer-Encoding is the server's to set"));
            }
            None if name.eq_ignore_ascii_case(b"status") => continue,
            None if !grammar::is_token(name) => return Err(InvalidResponse("a field name is not a token")),
            _ => {}
        }
        out.extend_from_slice(name);
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }
    Ok(length)
}
