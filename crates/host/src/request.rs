//! A complete request, as a host gets it.

use crate::{Content, Gateway};
use oribi_message::{KnownField, KnownVariable, RequestHead, TargetForm, Trailers};

/// One end of a connection: as text for the CGI-like interfaces, and in bytes because languages differ in their encodings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint<'a> {
    /// An address or a host name; empty for the peer of a Unix socket. Only an IPv6 address of the server has brackets.
    pub address: &'a [u8],
    /// The port in decimal; `0` for a Unix socket.
    pub port: &'a [u8],
}

/// A complete request: head, content and the facts about the connection.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Method, target, version and fields.
    pub head: RequestHead<'a>,
    /// The content.
    pub content: Content<'a>,
    /// The trailer fields; `None` without any. A host passes them on separately from the fields of the head.
    pub trailers: Option<&'a Trailers>,
    /// The peer of the connection.
    pub remote: Endpoint<'a>,
    /// The name and port of this server on the listener that took the connection.
    pub server: Endpoint<'a>,
    /// Whether the port of `server` is the one that clients connect to, as a trusted proxy reports, and Host has none.
    pub forwarded_port: bool,
    /// Whether the name of `server` was chosen (`--server-name`), so that Host does not change it.
    pub chosen_name: bool,
    /// Whether the connection is encrypted, or the client's connection is, as a trusted proxy reports.
    pub https: bool,
    /// Whether the app gets fields with underscores in their names, if they cannot be mistaken for others.
    pub underscores: bool,
    /// Additional variables, of a web server in front or, about an encrypted connection, of the server itself; `None`
    /// without any.
    pub gateway: Option<Gateway<'a>>,
}

impl<'a> Request<'a> {
    /// The variables of the web server that has sent the request; `None` for requests over HTTP.
    #[must_use]
    pub fn web_server(&self) -> Option<&Gateway<'a>> {
        self.gateway.as_ref().filter(|gateway| !gateway.is_own())
    }

    /// REMOTE_ADDR. The peer of a Unix socket has no address but is on this machine, and apps expect an IP address: so it is
    /// 127.0.0.1, as in Puma and Unicorn.
    #[must_use]
    pub fn remote_address(&self) -> &'a [u8] {
        if self.remote.address.is_empty() { b"127.0.0.1" } else { self.remote.address }
    }

    /// SERVER_NAME and SERVER_PORT, from which apps make URLs for their clients. The variables of a web server (FastCGI)
    /// override all else.
    ///
    /// The name is the one in Host, an address of IPv6 with its brackets (RFC 3875, section 4.1.14). The listener's name is
    /// for clients that send no Host, unless it was chosen.
    ///
    /// The port is the one in Host, or the port of the scheme if Host has none. The listener's port is used only for clients
    /// that send no Host: without a proxy in front, Host has that port anyway, and behind a proxy, clients do not connect to
    /// it.
    #[must_use]
    pub fn named_server(&self) -> Endpoint<'a> {
        let host = self.host().unwrap_or_default();
        let (name, port) = split_port(host);
        let named = !name.is_empty() && !self.chosen_name && !self.is_told(KnownVariable::ServerName);
        let port = match port {
            _ if self.forwarded_port || self.is_told(KnownVariable::ServerPort) => self.server.port,
            Some(port) => port,
            None if host.is_empty() && self.server.port != b"0" => self.server.port,
            None => self.default_port(),
        };
        Endpoint { address: if named { name } else { self.server.address }, port }
    }

    /// See [`Request::named_server`].
    #[must_use]
    pub fn server_name(&self) -> &'a [u8] {
        self.named_server().address
    }

    /// See [`Request::named_server`].
    #[must_use]
    pub fn server_port(&self) -> &'a [u8] {
        self.named_server().port
    }

    /// Whether a web server in front has sent this variable, with a value.
    fn is_told(&self, wanted: KnownVariable) -> bool {
        self.gateway.as_ref().is_some_and(|gateway| gateway.get(wanted).is_some_and(|value| !value.is_empty()))
    }

    /// The name and port that the client has requested.
    fn host(&self) -> Option<&'a [u8]> {
        self.absolute_authority().or_else(|| self.head.field(KnownField::Host))
    }

    /// The authority of a target in absolute form, which overrides Host.
    pub(crate) fn absolute_authority(&self) -> Option<&'a [u8]> {
        self.head.authority().filter(|_| self.head.form() == TargetForm::Absolute)
    }

    /// Returns the port that apps need in Host to make URLs for their clients, if Host lacks it: a port that a trusted proxy
    /// reports and that is not the port of the scheme.
    pub(crate) fn missing_port(&self) -> Option<&'a [u8]> {
        (self.forwarded_port && self.server.port != self.default_port()).then_some(self.server.port)
    }

    const fn default_port(&self) -> &'a [u8] {
        if self.https { b"443" } else { b"80" }
    }
}

/// The port after the last colon, unless that colon is within an IPv6 address.
#[must_use]
pub fn port_of(authority: &[u8]) -> Option<&[u8]> {
    split_port(authority).1
}

/// The name, and the port after the last colon.
fn split_port(authority: &[u8]) -> (&[u8], Option<&[u8]>) {
    let digits = authority.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (rest, port) = authority.split_at(authority.len() - digits);
    match rest.strip_suffix(b":") {
        Some(name) => (name, (!port.is_empty()).then_some(port)),
        None => (authority, None),
    }
}

#[cfg(test)]
mod tests {
    use super::{Endpoint, Request};
    use crate::{Content, Gateway};
    use oribi_message::{FieldLayout, HeadLayout, KnownField, KnownVariable, RequestHead, Role, Span, TargetForm, Variable};

    /// SERVER_PORT of a request with this Host.
    fn port(host: Option<&str>, listener: &str, https: bool) -> String {
        with_host(host, listener, https, |request| request.server_port().to_vec())
    }

    /// SERVER_NAME of a request with this Host.
    fn name(host: Option<&str>, chosen_name: bool) -> String {
        with_host(host, "5000", false, |request| Request { chosen_name, ..*request }.server_name().to_vec())
    }

    fn with_host(host: Option<&str>, listener: &str, https: bool, wanted: impl Fn(&Request<'_>) -> Vec<u8>) -> String {
        let mut layout = HeadLayout::default();
        let bytes = host.unwrap_or_default().as_bytes();
        let value = Span::new(0, bytes.len());
        if host.is_some() {
            layout.fields.push(FieldLayout { name: Span::default(), value, known: Some(KnownField::Host) });
        }
        let request = request(RequestHead::new(bytes, &layout), listener, https);
        String::from_utf8(wanted(&request)).expect("ASCII")
    }

    fn request<'a>(head: RequestHead<'a>, listener: &'a str, https: bool) -> Request<'a> {
        Request {
            head,
            content: Content::None,
            trailers: None,
            remote: Endpoint { address: b"", port: b"0" },
            server: Endpoint { address: b"localhost", port: listener.as_bytes() },
            forwarded_port: false,
            chosen_name: false,
            https,
            underscores: false,
            gateway: None,
        }
    }

    #[test]
    fn the_port_is_the_one_that_clients_connect_to() {
        for listener in ["5000", "0"] {
            for (host, expected) in [
                ("example.org:8080", "8080"),
                ("[::1]:5000", "5000"),
                ("example.org", "80"),
                ("[::1]", "80"),
                ("[2001:db8::443]", "80"),
                ("example.org:", "80"),
            ] {
                assert_eq!(port(Some(host), listener, false), expected, "{host}");
            }
            assert_eq!(port(Some("example.org"), listener, true), "443");
        }
        for host in [None, Some("")] {
            assert_eq!(port(host, "5000", false), "5000");
            assert_eq!(port(host, "0", false), "80");
            assert_eq!(port(host, "0", true), "443");
        }
    }

    #[test]
    fn the_name_is_the_one_that_clients_ask_for() {
        for (host, expected) in [
            ("example.org:8080", "example.org"),
            ("Example.org", "Example.org"),
            ("example.org:", "example.org"),
            ("192.0.2.1:80", "192.0.2.1"),
            ("[::1]:5000", "[::1]"),
            ("[2001:db8::443]", "[2001:db8::443]"),
            ("", "localhost"),
            (":80", "localhost"),
        ] {
            assert_eq!(name(Some(host), false), expected, "{host}");
            assert_eq!(name(Some(host), true), "localhost", "{host}");
        }
        assert_eq!(name(None, false), "localhost");
    }

    #[test]
    fn what_a_trusted_proxy_says_stands_above_host() {
        let layout = HeadLayout::default();
        for (https, port, missing) in [(true, "443", None), (true, "8443", Some("8443")), (false, "443", Some("443"))] {
            let mut request = request(RequestHead::new(b"", &layout), port, https);
            assert_eq!(request.missing_port(), None);
            request.forwarded_port = true;
            assert_eq!((request.server_port(), request.missing_port()), (port.as_bytes(), missing.map(str::as_bytes)));
        }
    }

    #[test]
    fn the_authority_of_the_target_stands_above_host() {
        let bytes = b"a:81b:82";
        let mut layout = HeadLayout { form: TargetForm::Absolute, authority: Some(Span::new(0, 4)), ..HeadLayout::default() };
        let (name, value) = (Span::default(), Span::new(4, 8));
        layout.fields.push(FieldLayout { name, value, known: Some(KnownField::Host) });
        let request = request(RequestHead::new(bytes, &layout), "5000", false);
        assert_eq!((request.server_name(), request.server_port()), (&b"a"[..], &b"81"[..]));
    }

    #[test]
    fn what_a_web_server_says_stands_above_host() {
        let (bytes, layout) = (b"8443", HeadLayout::default());
        for (value, expected) in [(Span::new(0, 4), b"8443"), (Span::default(), b"9000")] {
            let variables = [Variable { name: Span::default(), value, known: Some(KnownVariable::ServerPort) }];
            let listener = if value.is_empty() { "9000" } else { "8443" };
            let mut request = request(RequestHead::new(bytes, &layout), listener, false);
            request.gateway = Some(Gateway::new(Role::Responder, bytes, &variables, Content::None));
            assert_eq!(request.server_port(), expected);
        }
        let (bytes, mut layout) = (b"front.exampleclient.example", HeadLayout::default());
        let value = Span::new(13, 27);
        layout.fields.push(FieldLayout { name: Span::default(), value, known: Some(KnownField::Host) });
        for (value, expected) in [(Span::new(0, 13), "localhost"), (Span::default(), "client.example")] {
            let variables = [Variable { name: Span::default(), value, known: Some(KnownVariable::ServerName) }];
            let mut request = request(RequestHead::new(bytes, &layout), "80", false);
            request.gateway = Some(Gateway::new(Role::Responder, bytes, &variables, Content::None));
            assert_eq!(request.server_name(), expected.as_bytes(), "the gateway's value is in `server`");
        }
    }

    #[test]
    fn the_peer_of_a_unix_socket_is_this_machine() {
        let layout = HeadLayout::default();
        let mut request = request(RequestHead::new(b"", &layout), "0", false);
        assert_eq!(request.remote_address(), b"127.0.0.1");
        request.remote.address = b"2001:db8::1";
        assert_eq!(request.remote_address(), b"2001:db8::1");
    }
}
