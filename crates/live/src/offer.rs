//! Whether the connection of a request may stay open without a worker. A host asks before it offers that to its app, and an edge
//! before it lets the connection stay: by the same rule, so that no app is offered what the edge then refuses.

use oribi_host::Request;
use oribi_message::list::members;
use oribi_message::{KnownField, RequestHead, Version};
use oribi_websocket::accept_key;

/// The form in which a connection may stay open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// A WebSocket.
    WebSocket,
    /// A stream of events.
    EventStream,
}

impl Offer {
    /// The offer for a request; `None` for most. A web server in front (FastCGI) passes no connection on.
    #[must_use]
    pub fn of(request: &Request<'_>) -> Option<Self> {
        let head = &request.head;
        if head.method() != b"GET" || request.web_server().is_some() {
            return None;
        }
        if handshake(head).is_ok() {
            return Some(Self::WebSocket);
        }
        head.fields()
            .any(|(known, _, value)| known == Some(KnownField::Accept) && accepts_events(value))
            .then_some(Self::EventStream)
    }
}

/// The reason for which a request is no handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The request does not ask for a WebSocket.
    NotAsked,
    /// The client speaks another version of WebSocket than 13, or names none or several.
    Version,
    /// The key is missing, or not 16 bytes in base64, or there are several.
    Key,
}

/// Checks a handshake (RFC 6455, section 4.2.1). An extended CONNECT of HTTP/2 arrives as one of HTTP/1.1. Returns the value of
/// `Sec-WebSocket-Accept`.
///
/// # Errors
/// See [`Refusal`].
pub fn handshake(head: &RequestHead<'_>) -> Result<[u8; 28], Refusal> {
    let all = |wanted| head.fields().filter(move |(known, ..)| *known == Some(wanted)).map(|(.., value)| value);
    let has = |wanted, word: &[u8]| all(wanted).flat_map(members).any(|name| name.eq_ignore_ascii_case(word));
    let only = |wanted| {
        let mut values = all(wanted);
        values.next().filter(|_| values.next().is_none())
    };
    let is_asked = head.method() == b"GET"
        && head.version() != Version::Http10
        && has(KnownField::Upgrade, b"websocket")
        && has(KnownField::Connection, b"upgrade");
    if !is_asked {
        return Err(Refusal::NotAsked);
    }
    if only(KnownField::SecWebsocketVersion) != Some(b"13") {
        return Err(Refusal::Version);
    }
    only(KnownField::SecWebsocketKey).and_then(accept_key).ok_or(Refusal::Key)
}

/// Whether a client with this value of Accept wants a stream of events. Browsers then send nothing else.
#[must_use]
pub fn accepts_events(accept: &[u8]) -> bool {
    accept.starts_with(b"text/event-stream")
}

#[cfg(test)]
mod tests {
    use super::*;
    use oribi_host::{Content, Endpoint, Gateway};
    use oribi_message::{FieldLayout, HeadLayout, Role, Span};

    const HANDSHAKE: &str = "Upgrade: websocket\nConnection: Upgrade\nSec-WebSocket-Version: 13\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";

    /// Calls `act` with a request of this method, with these fields: lines.
    fn with<T>(method: &str, version: Version, fields: &str, act: impl Fn(&Request<'_>) -> T) -> T {
        let bytes = format!("{method}{fields}");
        let mut layout = HeadLayout { method: Span::new(0, method.len()), version, ..HeadLayout::default() };
        let mut at = method.len();
        for line in fields.split_inclusive('\n') {
            let (name, value) = line.trim_end().split_once(": ").expect("a field");
            let value_at = at + name.len() + 2;
            let known = KnownField::lookup(name.as_bytes());
            let (name, value) = (Span::new(at, at + name.len()), Span::new(value_at, value_at + value.len()));
            layout.fields.push(FieldLayout { name, value, known });
            at += line.len();
        }
        let peer = Endpoint { address: b"", port: b"0" };
        act(&Request {
            head: RequestHead::new(bytes.as_bytes(), &layout),
            content: Content::None,
            trailers: None,
            remote: peer,
            server: peer,
            forwarded_port: false,
            chosen_name: false,
            https: false,
            underscores: false,
            gateway: None,
        })
    }

    fn refusal(fields: &str) -> Option<Refusal> {
        with("GET", Version::Http11, fields, |request| handshake(&request.head).err())
    }

    fn offer(fields: &str) -> Option<Offer> {
        with("GET", Version::Http11, fields, Offer::of)
    }

    #[test]
    fn a_handshake_has_four_fields_and_their_lists_have_any_case() {
        let accepted = with("GET", Version::Http11, HANDSHAKE, |request| handshake(&request.head));
        assert_eq!(accepted, Ok(*b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        for (of, by) in [
            ("Upgrade: websocket", "Upgrade: WebSocket"),
            ("Upgrade: websocket", "Upgrade: h2c, websocket"),
            ("Upgrade: websocket", "Upgrade: h2c\nUpgrade: websocket"),
            ("Connection: Upgrade", "Connection: keep-alive ,\tupgrade"),
            ("Connection: Upgrade", "Connection: keep-alive\nConnection: UPGRADE"),
        ] {
            let fields = HANDSHAKE.replace(of, by);
            assert_eq!((refusal(&fields), offer(&fields)), (None, Some(Offer::WebSocket)), "{by}");
        }
    }

    #[test]
    fn what_is_no_handshake_is_not_offered_to_an_app() {
        for (of, by, reason) in [
            ("Upgrade: websocket\n", "", Refusal::NotAsked),
            ("Upgrade: websocket", "Upgrade: websocket2", Refusal::NotAsked),
            ("Upgrade: websocket", "Upgrade: web socket", Refusal::NotAsked),
            ("Connection: Upgrade", "Connection: keep-alive", Refusal::NotAsked),
            ("Version: 13", "Version: 12", Refusal::Version),
            ("Version: 13", "Version: 13\nSec-WebSocket-Version: 8", Refusal::Version),
            ("Version: 13", "Versions: 13", Refusal::Version),
            ("Key: dGhlIHNhbXBsZSBub25jZQ==", "Key: dGhlIHNhbXBsZSBub25jZ", Refusal::Key),
            ("Key: dGhlIHNhbXBsZSBub25jZQ==", "Key: !!!!!!!!!!!!!!!!!!!!!!==", Refusal::Key),
            ("Key: d", "Key: dGhlIHNhbXBsZSBub25jZQ==\nSec-WebSocket-Key: d", Refusal::Key),
        ] {
            let fields = HANDSHAKE.replace(of, by);
            assert_eq!((refusal(&fields), offer(&fields)), (Some(reason), None), "{by}");
        }
        let asked = |method, version| with(method, version, HANDSHAKE, |request| handshake(&request.head).err());
        assert_eq!(asked("POST", Version::Http11), Some(Refusal::NotAsked));
        assert_eq!(asked("GET", Version::Http10), Some(Refusal::NotAsked));
    }

    #[test]
    fn a_stream_of_events_is_for_clients_that_want_nothing_else() {
        for accept in ["text/event-stream", "text/event-stream;q=1, */*;q=0.1"] {
            assert_eq!(offer(&format!("Accept: {accept}")), Some(Offer::EventStream), "{accept}");
        }
        assert_eq!(offer("Accept: text/html\nAccept: text/event-stream"), Some(Offer::EventStream));
        for accept in ["text/html", "*/*", "text/html, text/event-stream", "Text/Event-Stream"] {
            assert_eq!(offer(&format!("Accept: {accept}")), None, "{accept}");
        }
        assert_eq!(with("POST", Version::Http11, "Accept: text/event-stream", Offer::of), None);
        let broken = HANDSHAKE.replace("13", "12") + "\nAccept: text/event-stream";
        assert_eq!(offer(&broken), Some(Offer::EventStream));
    }

    #[test]
    fn a_web_server_in_front_keeps_its_connections() {
        let gateway = Gateway::new(Role::Responder, b"", &[], Content::None);
        let offer =
            with("GET", Version::Http11, HANDSHAKE, |request| Offer::of(&Request { gateway: Some(gateway), ..*request }));
        assert_eq!(offer, None);
    }
}
