//! Fields that describe the client to an upstream: X-Forwarded-* and Forwarded (RFC 7239).
//!
//! The client, scheme and host are those that every other app gets, after trusted proxies. Lists are continued at the right, and
//! the text to the left is passed on as it came; upstreams must read these lists from the right.

use oribi_host::Request;
use oribi_message::KnownField;
use oribi_proto::forwarded;

/// The values of the fields that are written.
#[derive(Debug)]
pub(crate) struct Described {
    pub(crate) x_forwarded_for: Vec<u8>,
    pub(crate) forwarded: Vec<u8>,
    pub(crate) scheme: &'static [u8],
    pub(crate) port: Vec<u8>,
}

/// Whether this module writes the field, so that the one of the client is left out.
pub(crate) const fn writes(known: Option<KnownField>) -> bool {
    matches!(
        known,
        Some(
            KnownField::Forwarded
                | KnownField::XForwardedFor
                | KnownField::XForwardedHost
                | KnownField::XForwardedPort
                | KnownField::XForwardedProto
                | KnownField::XRealIp
        )
    )
}

/// Describes the client of a request, whose Host is `host`.
pub(crate) fn describe(request: &Request<'_>, host: &[u8]) -> Described {
    let client = request.remote_address();
    let scheme: &[u8] = if request.https { b"https" } else { b"http" };
    let mut x_forwarded_for = joined(request, KnownField::XForwardedFor);
    // A trusted proxy has already named this client.
    if forwarded::members(&x_forwarded_for).next() != Some(client) {
        append(&mut x_forwarded_for, &[client]);
    }
    let mut value = joined(request, KnownField::Forwarded);
    if !value.is_empty() && forwarded::elements(&value).any(|element| element.is_none()) {
        // Text after an unbalanced quote would not be read as it is meant.
        value.clear();
    }
    // Even if the last element names this client: the client may have sent it, with a scheme and a host of its own.
    if client.contains(&b':') {
        append(&mut value, &[b"for=\"[", client, b"]\";proto=", scheme]);
    } else {
        append(&mut value, &[b"for=", client, b";proto=", scheme]);
    }
    if !host.is_empty() {
        [b";host=\"", host, b"\""].into_iter().for_each(|part| value.extend_from_slice(part));
    }
    Described { x_forwarded_for, forwarded: value, scheme, port: request.server_port().to_vec() }
}

/// All lines of a field as one list.
fn joined(request: &Request<'_>, wanted: KnownField) -> Vec<u8> {
    let mut list = Vec::new();
    for (_, _, value) in request.head.fields().filter(|(known, ..)| *known == Some(wanted)) {
        append(&mut list, &[value]);
    }
    list
}

fn append(list: &mut Vec<u8>, parts: &[&[u8]]) {
    if !list.is_empty() {
        list.extend_from_slice(b", ");
    }
    parts.iter().for_each(|part| list.extend_from_slice(part));
}
