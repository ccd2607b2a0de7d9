//! Reads the fields in which proxies describe a client (RFC 7239, and X-Forwarded-For and similar fields), as far as these
//! fields are trusted.
//!
//! Each proxy appends its value at the right. So the search begins at the right, and the client is the first address that does
//! not belong to a trusted proxy. Scheme, host and port are those that the proxy next to that client has written. Values to the
//! left were sent by the client, and are ignored.

use super::remote::Remote;
use core::net::IpAddr;
use oribi_config::Proxies;
use oribi_host::port_of;
use oribi_message::{KnownField, RequestHead, Span};
use oribi_proto::forwarded::{Element, Node, elements, members, node};
use oribi_proto::h1::is_authority;

/// The facts about a request beside its peer and its head.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Forwarded {
    /// Whether the client used a secure connection, according to a trusted proxy, or else to this server's own connection.
    pub(super) https: bool,
    /// The span, in the head, of the port that clients connect to, if Host does not name it.
    pub(super) port: Option<Span>,
    /// The other end of the connection, if it is not the client.
    pub(super) peer: Option<Remote>,
}

/// The client's data, as trusted proxies describe it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ForwardedInfo {
    pub(super) client: Option<Node>,
    pub(super) https: Option<bool>,
    pub(super) host: Option<ForwardedHost>,
    /// The span of the port that the client connected to.
    pub(super) port: Option<Span>,
}

/// A host, as a field of the same head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ForwardedHost {
    /// The word `host`, in any case.
    pub(super) name: Span,
    pub(super) value: Span,
}

/// Forwarded and the X-Forwarded fields of a request contradict each other: a proxy wrote one of them, the client the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Contradiction;

impl ForwardedInfo {
    /// Reads the fields of `head`, whose peer is trusted.
    pub(super) fn of(head: RequestHead<'_>, proxies: &Proxies) -> Result<Self, Contradiction> {
        let trusted = proxies.fields;
        let (mut of_each, mut of_standard) = (false, false);
        for field in &head.layout().fields {
            match field.known {
                Some(KnownField::XForwardedFor) => of_each |= trusted.client,
                Some(KnownField::XForwardedProto) => of_each |= trusted.scheme,
                Some(KnownField::XForwardedHost) => of_each |= trusted.host,
                Some(KnownField::XForwardedPort) => of_each |= trusted.port,
                Some(KnownField::Forwarded) => of_standard |= trusted.forwarded,
                _ => {}
            }
        }
        match (of_each, of_standard) {
            (false, false) => Ok(Self::default()),
            (true, false) => Ok(Self::of_each(head, proxies)),
            (false, true) => Ok(Self::of_standard(head, proxies)),
            (true, true) => {
                let (each, standard) = (Self::of_each(head, proxies), Self::of_standard(head, proxies));
                if each.agrees(&standard, head) { Ok(each) } else { Err(Contradiction) }
            }
        }
    }

    /// Reads X-Forwarded-For and similar fields. Counted from the right, the values at one position of these fields are from
    /// the same proxy. A field with fewer values is from a proxy that replaces the value instead of appending one: its leftmost
    /// value counts.
    fn of_each(head: RequestHead<'_>, proxies: &Proxies) -> Self {
        let trusted = proxies.fields;
        let mut info = Self::default();
        let mut depth = 0;
        if trusted.client {
            for (place, member) in all_members(head, KnownField::XForwardedFor).enumerate() {
                depth = place;
                if !info.goes_on_behind(node(member), proxies) {
                    break;
                }
            }
        }
        let said = |name: KnownField| all_members(head, name).take(depth + 1).last();
        if trusted.scheme {
            info.https = said(KnownField::XForwardedProto).and_then(is_secure);
        }
        if trusted.host {
            let name = head.layout().fields.iter().rfind(|field| field.known == Some(KnownField::XForwardedHost));
            let value = said(KnownField::XForwardedHost).and_then(|host| authority(host, head));
            info.host = name.zip(value).map(|(field, value)| ForwardedHost {
                // X-Forwarded-Host ends in the name of the field that it replaces.
                name: Span { start: field.name.end - 4, end: field.name.end },
                value,
            });
        }
        if trusted.port {
            info.port = said(KnownField::XForwardedPort).filter(|port| is_port(port)).map(|port| place(port, head));
        }
        info
    }

    /// Reads the standard field, Forwarded.
    fn of_standard(head: RequestHead<'_>, proxies: &Proxies) -> Self {
        let mut info = Self::default();
        for element in values(head, KnownField::Forwarded).flat_map(elements) {
            let Some(Element { client, scheme, host, host_name }) = element else { break };
            info.https = scheme.and_then(is_secure).or(info.https);
            let value = host.and_then(|host| authority(host, head));
            info.host = value.map(|value| ForwardedHost { name: place(host_name, head), value }).or(info.host);
            if !info.goes_on_behind(client.and_then(node), proxies) {
                break;
            }
        }
        info
    }

    /// Records the client that a trusted proxy names. Returns whether the caller must go on to the next value, because that
    /// client is itself a trusted proxy. `client` is `None` for a name that is not an address, such as `unknown`: then the
    /// proxy counts as the client.
    fn goes_on_behind(&mut self, client: Option<Node>, proxies: &Proxies) -> bool {
        let Some(client) = client else { return false };
        self.client = Some(client);
        proxies.trust(Some(client.address))
    }

    /// Whether both name the same address of the client, scheme and host. Ports of clients are not compared, because many
    /// proxies do not add them.
    fn agrees(&self, other: &Self, head: RequestHead<'_>) -> bool {
        let address = |info: &Self| -> Option<IpAddr> { info.client.map(|client| client.address) };
        let host = |info: &Self| info.host.map(|host| host.value.of(head.bytes()).to_ascii_lowercase());
        address(self) == address(other) && self.https == other.https && host(self) == host(other)
    }

    /// The port that clients connect to, if neither the trusted host nor Host names it.
    pub(super) fn missing_port(&self, head: RequestHead<'_>) -> Option<Span> {
        self.port.filter(|_| port_of(head.host().unwrap_or_default()).is_none())
    }
}

/// The values of all fields of that name, the last one first.
fn values<'a>(head: RequestHead<'a>, name: KnownField) -> impl Iterator<Item = &'a [u8]> {
    let fields = head.layout().fields.iter().rev().filter(move |field| field.known == Some(name));
    fields.map(move |field| field.value.of(head.bytes()))
}

/// The members of all fields of that name, which are one list (RFC 9110, section 5.3), the last one first.
fn all_members<'a>(head: RequestHead<'a>, name: KnownField) -> impl Iterator<Item = &'a [u8]> {
    values(head, name).flat_map(members)
}

/// Whether a scheme means a secure connection; `None` if unknown. Some proxies send the schemes of WebSocket.
fn is_secure(scheme: &[u8]) -> Option<bool> {
    let is = |names: [&str; 2]| names.iter().any(|name| scheme.eq_ignore_ascii_case(name.as_bytes()));
    if is(["https", "wss"]) { Some(true) } else { is(["http", "ws"]).then_some(false) }
}

/// The span of a host in the head; `None` if it is empty or no valid value of the field Host.
fn authority(host: &[u8], head: RequestHead<'_>) -> Option<Span> {
    let place = place(host, head);
    (!matches!(host, [] | [b':', ..]) && is_authority(head.bytes(), place)).then_some(place)
}

fn is_port(digits: &[u8]) -> bool {
    let text = str::from_utf8(digits).unwrap_or_default();
    !text.starts_with(['0', '+']) && text.parse::<u16>().is_ok()
}

/// The span of a part of the head.
fn place(part: &[u8], head: RequestHead<'_>) -> Span {
    let start = part.as_ptr().addr() - head.bytes().as_ptr().addr();
    Span::new(start, start + part.len())
}

#[cfg(test)]
mod tests;
