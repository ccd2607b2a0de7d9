//! Step 1, write down: the request for the upstream, from that of the client.

use crate::fields::{connection_options, is_named, is_of_connection, starts_with};
use crate::forwarded::{self, Described};
use oribi_host::{Content, Request};
use oribi_message::list::members;
use oribi_message::{FieldPair, KnownField, TargetForm, Trailers, Version};
use oribi_proto::h1::Framing;
use oribi_proto::h1::client::{InvalidRequest, Machine, RequestLine};
use std::borrow::Cow;
use std::io;
use std::os::fd::OwnedFd;

/// The bytes for which a head has room beside those of the client: more than the written fields mostly need.
const WRITTEN: usize = 512;

/// The most bytes of a method and a path in messages.
const LABEL_BYTES: usize = 80;

/// A request in the form for an upstream. It can be sent again from its start.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// The head, and all content that is in memory, framed.
    pub(crate) first: Vec<u8>,
    /// The machine after these bytes.
    pub(crate) machine: Machine,
    /// Content that follows from a file.
    pub(crate) file: Option<ContentFile>,
    /// Whether a second arrival does no harm (RFC 9110, section 9.2.2).
    pub(crate) is_idempotent: bool,
}

/// Content in a file.
#[derive(Debug)]
pub(crate) struct ContentFile {
    pub(crate) file: OwnedFd,
    pub(crate) size: u64,
    /// Trailers that follow, if the content is in chunks.
    pub(crate) trailers: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The reason why a request cannot be passed on.
#[derive(Debug)]
pub(crate) enum Unsendable {
    /// It breaks a rule of HTTP/1.
    Invalid(InvalidRequest),
    /// Its content cannot be read.
    Content(io::Error),
}

impl Outgoing {
    /// Makes the request for an upstream. `authority` is the Host for clients that have sent none.
    pub(crate) fn of(request: &Request<'_>, authority: &str) -> Result<Self, Unsendable> {
        let head = &request.head;
        let options = connection_options(head.fields());
        let is_absolute = head.form() == TargetForm::Absolute;
        let host = head.authority().filter(|_| is_absolute).or_else(|| head.field(KnownField::Host)).unwrap_or_default();
        let host = if host.is_empty() { authority.as_bytes() } else { host };
        let upgrade = upgrade(request);
        let described = forwarded::describe(request, host);
        let takes_trailers = head
            .fields()
            .filter(|(known, ..)| *known == Some(KnownField::Te))
            .any(|(_, _, value)| members(value).any(|coding| coding.eq_ignore_ascii_case(b"trailers")));
        let via: &[u8] = match head.version() {
            Version::Http10 => b"1.0 oribi",
            Version::Http11 => b"1.1 oribi",
            Version::Http2 => b"2 oribi",
        };
        let has_real_ip = head.field(KnownField::XRealIp).is_some();
        let is_passed =
            |known: Option<KnownField>, name: &[u8]| !is_left_out(request, known, name) && !is_named(&options, known, name);
        let passed = head.fields().filter(|(known, name, _)| is_passed(*known, name));
        let Described { x_forwarded_for, forwarded, scheme, port } = &described;
        let written: [(&[u8], Option<&[u8]>); 8] = [
            (b"X-Forwarded-For", Some(x_forwarded_for)),
            (b"X-Forwarded-Proto", Some(scheme)),
            (b"X-Forwarded-Host", Some(host)),
            (b"X-Forwarded-Port", Some(port)),
            (b"X-Real-IP", has_real_ip.then(|| request.remote_address())),
            (b"Forwarded", Some(forwarded)),
            (b"Via", Some(via)),
            (b"Upgrade", upgrade),
        ];
        let fields = [(&b"Host"[..], host)]
            .into_iter()
            .chain(passed.map(|(_, name, value)| (name, value)))
            .chain(written.into_iter().filter_map(|(name, value)| Some((name, value?))));
        // An upstream may merge them into the head, where the fields about the client are those of proxies.
        let follows = |name: &[u8]| is_passed(KnownField::lookup(name), name) && !starts_with(name, b"x-forwarded-");
        let trailers: Vec<FieldPair<'_>> =
            request.trailers.into_iter().flat_map(Trailers::fields).filter(|(name, _)| follows(name)).collect();
        let content = match request.content.size() {
            None => Framing::None,
            Some(_) if !trailers.is_empty() => Framing::Chunked,
            Some(0) => Framing::Empty,
            Some(size) => Framing::Length(size),
        };
        let target = if is_absolute { origin_form(head.path_and_query()) } else { Cow::Borrowed(head.target()) };
        let line = RequestLine {
            method: head.method(),
            target: &target,
            content,
            upgrades: upgrade.is_some(),
            trailers: takes_trailers,
        };
        let (mut machine, mut first) = (Machine::new(), Vec::with_capacity(head.bytes().len() + WRITTEN));
        machine.write_head(&line, fields, &mut first).map_err(Unsendable::Invalid)?;
        let mut file = None;
        match request.content {
            Content::None => {}
            Content::Memory(bytes) => {
                machine
                    .write_content(bytes, &mut first)
                    .and_then(|()| machine.finish_request(&trailers, &mut first))
                    .map_err(Unsendable::Invalid)?;
            }
            Content::File { file: descriptor, size } => {
                let descriptor = descriptor.try_clone_to_owned().map_err(Unsendable::Content)?;
                let trailers = trailers.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
                file = Some(ContentFile { file: descriptor, size, trailers });
            }
        }
        let is_idempotent = matches!(head.method(), b"GET" | b"HEAD" | b"OPTIONS" | b"TRACE" | b"PUT" | b"DELETE");
        Ok(Self { first, machine, file, is_idempotent })
    }

    /// Method and path, for messages.
    pub(crate) fn label(&self) -> String {
        let mut words = self.first.split(|byte| *byte == b' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
        let mut label = format!("{} {}", method.escape_ascii(), path.escape_ascii());
        if label.len() > LABEL_BYTES {
            label.truncate(LABEL_BYTES);
            label.push('…');
        }
        label
    }
}

/// The target of an absolute URL without a path is that of its root (RFC 9112, section 3.2.1).
fn origin_form(path_and_query: &[u8]) -> Cow<'_, [u8]> {
    if path_and_query.starts_with(b"/") { path_and_query.into() } else { [b"/", path_and_query].concat().into() }
}

/// The protocol that the client asks for, if its connection can change to another one.
fn upgrade<'a>(request: &Request<'a>) -> Option<&'a [u8]> {
    let head = &request.head;
    let fits = head.version() == Version::Http11 && request.web_server().is_none() && request.content.size().is_none();
    let asked = |(known, _, value): (Option<KnownField>, &[u8], &[u8])| {
        known == Some(KnownField::Connection) && members(value).any(|option| option.eq_ignore_ascii_case(b"upgrade"))
    };
    // HTTP/2 without TLS would take its requests past the routes, limits and fields of this server.
    let is_h2c = |(known, _, value): (Option<KnownField>, &[u8], &[u8])| {
        known == Some(KnownField::Upgrade) && members(value).any(|protocol| protocol.eq_ignore_ascii_case(b"h2c"))
    };
    let is_allowed = fits && head.fields().any(asked) && !head.fields().any(is_h2c);
    head.field(KnownField::Upgrade).filter(|_| is_allowed)
}

/// Whether a field of the client is not passed on: it is about the connection, or the proxy writes its own.
fn is_left_out(request: &Request<'_>, known: Option<KnownField>, name: &[u8]) -> bool {
    if is_of_connection(known, name) || forwarded::writes(known) {
        return true;
    }
    // All content is here, so no upstream needs to agree to get it.
    matches!(known, Some(KnownField::Host | KnownField::ContentLength | KnownField::Expect))
        || known.is_none() && name.contains(&b'_') && !(request.underscores && is_own_name(name))
}

/// Whether a name with underscores is no other spelling of a name that upstreams trust, in the eyes of one that does not
/// distinguish the two.
fn is_own_name(name: &[u8]) -> bool {
    let spelled: Vec<u8> = name.iter().map(|byte| if *byte == b'_' { b'-' } else { byte.to_ascii_lowercase() }).collect();
    KnownField::lookup(&spelled).is_none() && !spelled.starts_with(b"x-forwarded-") && !spelled.starts_with(b"proxy-")
}

#[cfg(test)]
mod tests {
    use super::Outgoing;
    use oribi_host::{Content, Endpoint, Request};
    use oribi_message::{HeadLayout, RequestHead, Trailers};
    use oribi_proto::h1::{Limits, Machine};

    /// The head for an upstream. `change` may change the request.
    fn outgoing(head: &str, change: impl FnOnce(&mut Request<'_>)) -> String {
        let mut layout = HeadLayout::default();
        Machine::new().handle_input(head.as_bytes(), &mut layout, &Limits::default());
        let mut request = Request {
            head: RequestHead::new(head.as_bytes(), &layout),
            content: Content::None,
            trailers: None,
            remote: Endpoint { address: b"192.0.2.1", port: b"1" },
            server: Endpoint { address: b"localhost", port: b"80" },
            forwarded_port: false,
            chosen_name: false,
            https: false,
            underscores: false,
            gateway: None,
        };
        change(&mut request);
        let outgoing = Outgoing::of(&request, "upstream:3000").expect("it can be sent");
        String::from_utf8(outgoing.first).expect("text")
    }

    #[test]
    fn a_head_is_written_anew() {
        assert_eq!(
            outgoing("GET /a?b HTTP/1.1\r\nX-A: b\r\nhost: a:81\r\nConnection: x-a, close\r\nX-C: d\r\n\r\n", |_| ()),
            "GET /a?b HTTP/1.1\r\nHost: a:81\r\nX-C: d\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: http\r\n\
             X-Forwarded-Host: a:81\r\nX-Forwarded-Port: 81\r\nForwarded: for=192.0.2.1;proto=http;host=\"a:81\"\r\n\
             Via: 1.1 oribi\r\n\r\n"
        );
        assert_eq!(
            outgoing("GET / HTTP/1.0\r\n\r\n", |request| {
                request.https = true;
                request.remote.address = b"2001:db8::1";
            }),
            "GET / HTTP/1.1\r\nHost: upstream:3000\r\nX-Forwarded-For: 2001:db8::1\r\nX-Forwarded-Proto: https\r\n\
             X-Forwarded-Host: upstream:3000\r\nX-Forwarded-Port: 80\r\n\
             Forwarded: for=\"[2001:db8::1]\";proto=https;host=\"upstream:3000\"\r\nVia: 1.0 oribi\r\n\r\n"
        );
    }

    /// The value of a field in the head for an upstream.
    fn field(head: &str, name: &str) -> String {
        let prefix = format!("{name}: ");
        head.split("\r\n").filter_map(|line| line.strip_prefix(&prefix)).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn lists_of_proxies_are_continued_once() {
        for (sent, x_forwarded_for, forwarded) in [
            ("X-Forwarded-For: 10.0.0.1", "10.0.0.1, 192.0.2.1", "for=192.0.2.1;proto=http;host=\"a\""),
            ("X-Forwarded-For: 10.0.0.1, 192.0.2.1", "10.0.0.1, 192.0.2.1", "for=192.0.2.1;proto=http;host=\"a\""),
            ("X-Forwarded-For: a\r\nX-Forwarded-For: b", "a, b, 192.0.2.1", "for=192.0.2.1;proto=http;host=\"a\""),
            ("Forwarded: for=10.0.0.1", "192.0.2.1", "for=10.0.0.1, for=192.0.2.1;proto=http;host=\"a\""),
            (
                "Forwarded: for=192.0.2.1;proto=https",
                "192.0.2.1",
                "for=192.0.2.1;proto=https, for=192.0.2.1;proto=http;host=\"a\"",
            ),
            ("Forwarded: for=\"", "192.0.2.1", "for=192.0.2.1;proto=http;host=\"a\""),
            ("Forwarded: for=\\\"", "192.0.2.1", "for=192.0.2.1;proto=http;host=\"a\""),
        ] {
            let head = outgoing(&format!("GET / HTTP/1.1\r\nHost: a\r\n{sent}\r\n\r\n"), |_| ());
            assert_eq!(field(&head, "X-Forwarded-For"), x_forwarded_for, "{sent}");
            assert_eq!(field(&head, "Forwarded"), forwarded, "{sent}");
        }
    }

    #[test]
    fn trailers_have_no_names_that_the_head_may_not_have() {
        let head = "POST / HTTP/1.1\r\nHost: a\r\nConnection: x-hop\r\n\r\n";
        let trailers = |names: &[&str], underscores| {
            let trailers = Trailers::of(names.iter().map(|name| (name.as_bytes(), &b"v"[..])));
            // A request of any lifetime borrows them.
            let trailers = trailers.map(|trailers| &*Box::leak(trailers));
            let request = outgoing(head, |request| {
                (request.content, request.trailers) = (Content::Memory(b"x"), trailers);
                request.underscores = underscores;
            });
            request.split_once("\r\n\r\n").expect("a head").1.to_owned()
        };
        let refused = [
            "X_Forwarded_For",
            "Content_Length",
            "Proxy",
            "Proxy-User",
            "HTTP2-Settings",
            "X-Hop",
            "X-Forwarded-For",
            "X-Forwarded-Prefix",
            "X-Real-IP",
            "Forwarded",
        ];
        assert_eq!(trailers(&refused, true), "x");
        let names = [&refused[..], &["My_Name", "X-Sum"]].concat();
        assert_eq!(trailers(&names, false), "1\r\nx\r\n0\r\nx-sum: v\r\n\r\n");
        assert_eq!(trailers(&names, true), "1\r\nx\r\n0\r\nmy_name: v\r\nx-sum: v\r\n\r\n");
    }

    #[test]
    fn other_protocols_and_names_with_underscores_are_passed_on_only_where_they_can_be() {
        let asks = "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
        assert!(outgoing(asks, |_| ()).ends_with("Upgrade: websocket\r\nConnection: upgrade\r\n\r\n"));
        for protocols in ["h2c", "websocket, H2C", "websocket\r\nUpgrade: h2c"] {
            let asks = format!(
                "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: {protocols}\r\nHTTP2-Settings: A\r\n\r\n"
            );
            let head = outgoing(&asks, |_| ());
            assert!(!head.contains("pgrade") && !head.contains("HTTP2-Settings"), "{head}");
        }
        assert!(!outgoing(asks, |request| request.content = Content::Memory(b"x")).contains("pgrade"));
        assert!(!outgoing("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n", |_| ()).contains("pgrade"));
        assert!(!outgoing("GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n", |_| ()).contains("pgrade"));
        let names = "GET / HTTP/1.1\r\nHost: a\r\nMy_Name: a\r\nX_Forwarded_For: b\r\nContent_Length: 5\r\n\r\n";
        assert!(!outgoing(names, |_| ()).contains('_'));
        let head = outgoing(names, |request| request.underscores = true);
        assert_eq!((field(&head, "My_Name"), head.matches('_').count()), ("a".to_owned(), 1));
    }
}
