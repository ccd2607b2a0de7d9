//! Which fields may stand behind content (RFC 9110, section 6.5.1), whatever protocol carries them.
//!
//! A recipient may merge trailers into the fields of the head, or throw them away. So nothing may stand there that says where a message
//! ends, where it goes, who sends it, or how its content is to be read.

use super::grammar;
use super::response::{CONTROL_BYTE, InvalidResponse, NO_TOKEN};
use oribi_message::FieldPair;

macro_rules! forbidden {
    ($($name:literal)*) => {
        &[$(($name, concat!($name, " cannot be a trailer: recipients need it before the content, or must not take it from there"))),*]
    };
}

/// Names that are no trailers, and what an app is told that has sent one.
const FORBIDDEN: &[(&str, &str)] = forbidden! {
    // Framing and routing.
    "Content-Length" "Transfer-Encoding" "Connection" "Keep-Alive" "Proxy-Connection" "Upgrade" "TE" "Trailer" "Host"
    // What controls the request or the response.
    "Age" "Cache-Control" "Date" "Expect" "Expires" "If-Match" "If-Modified-Since" "If-None-Match" "If-Range" "If-Unmodified-Since"
    "Location" "Max-Forwards" "Pragma" "Range" "Retry-After" "Vary" "Warning" "Forwarded" "X-Forwarded-For" "X-Forwarded-Host"
    "X-Forwarded-Proto" "Strict-Transport-Security"
    // Authentication, and cookies.
    "Authorization" "Cookie" "Proxy-Authenticate" "Proxy-Authorization" "Set-Cookie" "WWW-Authenticate"
    // How the content is to be read.
    "Content-Encoding" "Content-Range" "Content-Type"
};

/// Checks trailers that an app wants to send.
///
/// # Errors
/// A name is no token or one of those that cannot be trailers, or a value has a control byte.
pub fn check_trailers(fields: &[FieldPair<'_>]) -> Result<(), InvalidResponse> {
    for (name, value) in fields {
        if !grammar::is_token(name) {
            return Err(InvalidResponse(NO_TOKEN));
        }
        if !grammar::is_value(value) {
            return Err(InvalidResponse(CONTROL_BYTE));
        }
        if let Some((_, why)) = FORBIDDEN.iter().find(|(other, _)| name.eq_ignore_ascii_case(other.as_bytes())) {
            return Err(InvalidResponse(why));
        }
    }
    Ok(())
}
