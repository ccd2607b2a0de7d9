//! The fields that may be trailers (RFC 9110, section 6.5.1), in every protocol.
//!
//! A recipient may merge trailers into the fields of the head, or throw them away. So they must not define the end of a
//! message, its destination, its sender, or the coding of its content.

use super::grammar;
use super::response::{CONTROL_BYTE, InvalidResponse, NO_TOKEN};
use memchr::memchr;
use oribi_message::FieldPair;

macro_rules! forbidden {
    ($($name:literal)*) => {
        &[$(($name, concat!($name, " cannot be a trailer: recipients need it before the content, or must not read it there"))),*]
    };
}

/// Names that cannot be trailers, and the message for an app that sends one.
const FORBIDDEN: &[(&str, &str)] = forbidden! {
    // Framing and routing.
    "Content-Length" "Transfer-Encoding" "Connection" "Keep-Alive" "Proxy-Connection" "Upgrade" "TE" "Trailer" "Host"
    // Fields that control the request or the response.
    "Age" "Cache-Control" "Date" "Expect" "Expires" "If-Match" "If-Modified-Since" "If-None-Match" "If-Range" "If-Unmodified-Since"
    "Location" "Max-Forwards" "Pragma" "Range" "Retry-After" "Vary" "Warning" "Strict-Transport-Security"
    // The client, as proxies describe it.
    "Forwarded" "X-Forwarded-For" "X-Forwarded-Host" "X-Forwarded-Port" "X-Forwarded-Proto" "X-Real-IP"
    // Authentication, and cookies.
    "Authorization" "Cookie" "Proxy-Authenticate" "Proxy-Authorization" "Set-Cookie" "WWW-Authenticate"
    // The format of the content.
    "Content-Encoding" "Content-Range" "Content-Type"
};

/// Checks trailers that an app wants to send.
///
/// # Errors
/// A name is not a token or cannot be a trailer, or a value has a control byte.
pub fn check_trailers(fields: &[FieldPair<'_>]) -> Result<(), InvalidResponse> {
    for (name, value) in fields {
        if !grammar::is_token(name) {
            return Err(InvalidResponse(NO_TOKEN));
        }
        if !grammar::is_value(value) {
            return Err(InvalidResponse(CONTROL_BYTE));
        }
        if let Some(why) = why_forbidden(name) {
            return Err(InvalidResponse(why));
        }
    }
    Ok(())
}

fn why_forbidden(name: &[u8]) -> Option<&'static str> {
    FORBIDDEN.iter().find(|(other, _)| name.eq_ignore_ascii_case(other.as_bytes())).map(|(_, why)| *why)
}

/// Whether an app may get a trailer of this name from a client. A field that cannot be a trailer is dropped.
pub(crate) fn may_be_trailer(name: &[u8]) -> bool {
    why_forbidden(name).is_none()
}

/// The trailers of a request: `section` is all that [`Event::Trailers`](super::Event::Trailers) has returned until
/// [`Event::End`](super::Event::End); the machine has checked its syntax. Fields that cannot be trailers are left out.
pub fn trailers_of(section: &[u8]) -> impl Iterator<Item = FieldPair<'_>> {
    let mut rest = section;
    core::iter::from_fn(move || {
        loop {
            let line = &rest[..memchr(b'\r', rest)?];
            rest = rest.get(line.len() + 2..).unwrap_or_default();
            let (name, value) = line.split_at(memchr(b':', line)?);
            if may_be_trailer(name) {
                return Some((name, grammar::trimmed(value, 1, value.len()).of(value)));
            }
        }
    })
}
