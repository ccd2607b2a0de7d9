//! ACME challenges, by which an authority checks who controls a domain (RFC 8555, section 8.3).

use oribi_message::RequestHead;

/// Returns the token of a challenge; `None`: the request is not one.
pub(super) fn token<'a>(head: &RequestHead<'a>) -> Option<&'a str> {
    oribi_acme::token(head.path()).filter(|_| matches!(head.method(), b"GET" | b"HEAD"))
}
