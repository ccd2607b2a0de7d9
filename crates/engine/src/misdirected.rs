//! Detects requests that arrived on the wrong connection (RFC 9110, section 15.5.20).

use oribi_io::Backend;
use oribi_message::RequestHead;

/// Whether a request on an encrypted connection is for a host that has its own certificate.
pub(super) fn is_misdirected<B: Backend>(backend: &B, socket: &B::Socket, head: RequestHead<'_>) -> bool {
    head.host().is_some_and(|host| backend.is_misdirected(socket, host))
}
