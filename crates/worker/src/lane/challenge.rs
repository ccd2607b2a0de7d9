//! Challenges, by which an authority looks whether a domain belongs to whoever asks for a certificate (RFC 8555, section 8.3).

use oribi_message::RequestHead;

/// The token of a challenge; `None`: the request is none.
pub(super) fn token<'a>(head: &RequestHead<'a>) -> Option<&'a str> {
    oribi_acme::token(head.path()).filter(|_| matches!(head.method(), b"GET" | b"HEAD"))
}
