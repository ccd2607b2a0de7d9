//! Applies Forwarded and X-Forwarded-* of trusted proxies, and removes these fields of other peers (`--strip-forwarded`).
//!
//! The forwarded address of the client replaces the address of the peer. The field Host then refers to the bytes of the
//! forwarded host in the same head, so nothing is copied. Whether a connection is trusted is decided at its beginning. Workers
//! behind an edge get requests to which the fields have already been applied.

use super::Engine;
use super::exchange::Received;
use super::forwarded::{Contradiction, ForwardedInfo};
use super::remote::Remote;
use core::net::SocketAddr;
use oribi_config::{Forwarding, Proxies};
use oribi_io::{Backend, Peer};
use oribi_message::{FieldLayout, HeadLayout, KnownField, RequestHead, TargetForm};
use std::time::Duration;

/// The shortest time between two log lines about fields that contradict each other.
const SAID_EVERY: Duration = Duration::from_secs(10);

/// The prefix of fields in which proxies describe a client, beside those with standard names.
const PREFIX: &[u8] = b"x-forwarded-";

/// Applies the forwarded fields of a request, or removes them. `bytes` are those of its head.
pub(super) fn apply_forwarded(
    received: &mut Received,
    bytes: &[u8],
    forwarding: Forwarding,
    proxies: &Proxies,
) -> Result<(), Contradiction> {
    match forwarding {
        Forwarding::Kept => {}
        Forwarding::Removed => remove_forwarded_fields(&mut received.layout, bytes),
        Forwarding::Believed => {
            let info = ForwardedInfo::of(RequestHead::new(bytes, &received.layout), proxies)?;
            if info != ForwardedInfo::default() {
                apply(&info, received, bytes);
            }
        }
    }
    Ok(())
}

fn apply(info: &ForwardedInfo, received: &mut Received, bytes: &[u8]) {
    let Received { layout, remote, forwarded, .. } = received;
    if let Some(client) = info.client {
        forwarded.peer = Some(*remote);
        *remote = Remote::new(Peer::Internet(SocketAddr::new(client.address, client.port.unwrap_or(0))));
    }
    if let Some(https) = info.https {
        forwarded.https = https;
    }
    if let Some(host) = info.host {
        match layout.fields.iter_mut().find(|field| field.known == Some(KnownField::Host)) {
            Some(field) => field.value = host.value,
            None => layout.fields.push(FieldLayout { name: host.name, value: host.value, known: Some(KnownField::Host) }),
        }
        if layout.form == TargetForm::Absolute {
            layout.authority = Some(host.value);
        }
    }
    forwarded.port = info.missing_port(RequestHead::new(bytes, layout));
}

fn remove_forwarded_fields(layout: &mut HeadLayout, bytes: &[u8]) {
    layout.fields.retain(|field| match field.known {
        Some(
            KnownField::Forwarded
            | KnownField::XForwardedFor
            | KnownField::XForwardedHost
            | KnownField::XForwardedPort
            | KnownField::XForwardedProto
            | KnownField::XRealIp,
        ) => false,
        Some(_) => true,
        None => !field.name.of(bytes).get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX)),
    });
}

impl<B: Backend> Engine<'_, B> {
    /// The treatment of forwarded fields on a connection whose other end is `remote`.
    pub(super) fn forwarding_of(&self, remote: &Remote) -> Forwarding {
        match remote.ip() {
            // A peer that is neither an address nor a Unix socket is never trusted.
            None if !remote.address().is_empty() => Forwarding::Removed,
            address => self.settings.proxies.forwarding(address),
        }
    }

    /// Logs, at limited frequency, why a request with contradicting fields is refused.
    #[cold]
    pub(super) fn tell_of_contradiction(&mut self, Contradiction: Contradiction) {
        let now = self.backend.now();
        if self.observing.contradiction_told.is_some_and(|told| now.saturating_sub(told) < SAID_EVERY) {
            return;
        }
        self.observing.contradiction_told = Some(now);
        log::warn!(
            "refused a request: its Forwarded and its X-Forwarded fields contradict each other. Clients can send both; name the \
             fields that your proxies set in --forwarded-fields"
        );
    }
}
