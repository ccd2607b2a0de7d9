//! Parses the addresses of listeners.

use super::handshakes::{parse, show};
use super::proxy_protocol::take_choice;
use super::settings::{ListenAddress, Protocol, SocketAddress};
use std::fmt;
use std::net::Ipv6Addr;

/// Bytes of the path of a Unix socket: `sun_path` has 108 (Linux, unix(7)), one of them for the NUL.
const SOCKET_PATH_BYTES: usize = 107;

const EXPECTED: &str = "expected HOST:PORT, :PORT, [IPV6]:PORT, or the path of a Unix socket: /PATH, ./PATH, unix:PATH; with \
     https:// in front, for TLS; with fcgi:// or fcgi+unix: in front, for FastCGI";

impl ListenAddress {
    /// Parses an address: `127.0.0.1:5000`, `[::1]:5000`, `localhost:5000`, `:5000` or `5000` (all interfaces),
    /// `http://127.0.0.1:5000`, `/path.sock`, `./path.sock`, `unix:path`. After the path of a Unix socket, `?mode=660` or
    /// `:mode=660` sets the permission bits of the socket file. Addresses for FastCGI are `fcgi://127.0.0.1:9000` and
    /// `fcgi+unix:path`. Addresses for TLS are `https://127.0.0.1:8443?cert=FILE&key=FILE` or, as in other servers, `ssl://…`
    /// and `:8443:ssl`. `?proxy_protocol=on` may follow every address for HTTP.
    ///
    /// # Errors
    /// The expected form of addresses.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (text, proxy_protocol) = take_choice(text.trim())?;
        let address = Self::parse_without_options(&text)?;
        Ok(Self { proxy_protocol, ..address })
    }

    /// Whether the address says itself that its connections are encrypted: `https://`, `ssl://`, `:8443:ssl`.
    #[must_use]
    pub fn says_encrypted(&self) -> bool {
        self.certificates.is_some()
    }

    fn parse_without_options(text: &str) -> Result<Self, String> {
        if let Some((rest, protocol)) = speaker(text) {
            return Ok(Self::parse_place(rest, protocol)?.speaking(protocol));
        }
        Self::parse_place(text, Protocol::Http)
    }

    fn parse_place(text: &str, protocol: Protocol) -> Result<Self, String> {
        if let Some(path) = socket_path(text) {
            return parse_socket(path);
        }
        let rest = match text.split_once("://") {
            Some(("http", authority)) => {
                let default_port = (protocol == Protocol::Http).then_some(80);
                return parse_tcp(authority.strip_suffix('/').unwrap_or(authority), default_port);
            }
            Some(("tcp", authority)) => authority,
            Some((scheme @ ("https" | "ssl" | "tls"), rest)) if protocol == Protocol::Http => {
                let (authority, query) = rest.split_once('?').unwrap_or((rest, ""));
                let (files, handshakes) = parse(query)?;
                let authority = authority.strip_suffix('/').unwrap_or(authority);
                let default_port = (scheme == "https").then_some(443);
                return Ok(Self { handshakes, ..parse_tcp(authority, default_port)?.encrypted(files) });
            }
            Some(_) => return Err(EXPECTED.to_owned()),
            None => text,
        };
        if let Some(rest) = rest.strip_suffix(":ssl").filter(|_| protocol == Protocol::Http) {
            return Ok(parse_tcp(rest, None)?.encrypted(Vec::new()));
        }
        parse_tcp(rest, None)
    }
}

/// Splits an address into the protocol of its scheme and the rest.
fn speaker(text: &str) -> Option<(&str, Protocol)> {
    if text.starts_with("http://") {
        return Some((text, Protocol::Http));
    }
    for (scheme, protocol) in [("fcgi", Protocol::FastCgi), ("fastcgi", Protocol::FastCgi), ("http", Protocol::Http)] {
        let Some(rest) = text.strip_prefix(scheme) else { continue };
        if let Some(authority) = rest.strip_prefix("://") {
            return Some((authority.strip_suffix('/').unwrap_or(authority), protocol));
        }
        if let Some(place) = rest.strip_prefix('+').filter(|place| place.starts_with("unix:")) {
            return Some((place, protocol));
        }
    }
    None
}

/// Returns the path if `text` names a Unix socket: by the scheme `unix:`, by a slash, or (as in plackup) by the extension
/// `.sock` or `.socket`.
fn socket_path(text: &str) -> Option<&str> {
    if let Some(path) = text.strip_prefix("unix://").or_else(|| text.strip_prefix("unix:")) {
        return Some(path);
    }
    let named = text.starts_with('/') || (text.contains('/') && !text.contains("://"));
    let name = text.split(['?', ':']).next().unwrap_or(text);
    (named || name.ends_with(".sock") || name.ends_with(".socket")).then_some(text)
}

/// Parses the path of a Unix socket with its optional mode.
pub(super) fn parse_socket(text: &str) -> Result<ListenAddress, String> {
    let text = text.strip_prefix("unix:").unwrap_or(text);
    let (path, mode) = match text.rsplit_once("?mode=").or_else(|| text.rsplit_once(":mode=")) {
        Some((path, mode)) => (path, Some(parse_mode(mode)?)),
        None => (text, None),
    };
    if path.is_empty() || path.contains(['\0', '?']) || path.ends_with('/') {
        return Err("expected the path of a Unix socket, as in /run/app.sock or /run/app.sock?mode=660".to_owned());
    }
    if path.len() > SOCKET_PATH_BYTES {
        return Err(format!("expected a path of at most {SOCKET_PATH_BYTES} bytes: Unix sockets allow no more"));
    }
    Ok(ListenAddress::unix(path, mode))
}

fn parse_mode(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 && !text.starts_with('+') => Ok(mode),
        _ => Err("expected permission bits as an octal number, as in ?mode=660".to_owned()),
    }
}

fn parse_tcp(text: &str, default_port: Option<u16>) -> Result<ListenAddress, String> {
    if let Some(inside) = text.strip_prefix('[') {
        let Some((host, rest)) = inside.split_once(']') else { return Err("expected ] after the IPv6 address".to_owned()) };
        let port = match (rest.strip_prefix(':'), default_port) {
            (Some(port), _) => parse_port(port)?,
            (None, Some(port)) if rest.is_empty() => port,
            _ => return Err("expected a port after the IPv6 address: [::1]:5000".to_owned()),
        };
        return Ok(ListenAddress::tcp(&parse_host(&format!("[{host}]"))?, port));
    }
    if text.bytes().filter(|&byte| byte == b':').count() > 1 {
        return Err("expected brackets around an IPv6 address: [::1]:5000".to_owned());
    }
    match (text.rsplit_once(':'), default_port) {
        (Some((host, port)), _) => {
            let port = parse_port(port)?;
            Ok(ListenAddress::tcp(&parse_host(host)?, port))
        }
        (None, Some(port)) if !text.is_empty() => Ok(ListenAddress::tcp(&parse_host(text)?, port)),
        (None, None) if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Ok(ListenAddress::tcp("", parse_port(text)?))
        }
        _ => Err(EXPECTED.to_owned()),
    }
}

/// Parses a host to listen on; empty and `*` mean all interfaces. Removes brackets around an IPv6 address.
pub(super) fn parse_host(text: &str) -> Result<String, String> {
    let text = text.trim();
    let bracketed = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let bare = bracketed.unwrap_or(text);
    if text.is_empty() || text == "*" {
        return Ok(String::new());
    }
    let fits = if bracketed.is_some() || bare.contains(':') {
        bare.parse::<Ipv6Addr>().is_ok()
    } else {
        bare.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
    };
    if fits { Ok(bare.to_owned()) } else { Err("expected a host name, an IPv4 or an IPv6 address".to_owned()) }
}

/// Parses a port; 0 lets the kernel choose.
pub(super) fn parse_port(text: &str) -> Result<u16, String> {
    let text = text.trim();
    match text.parse() {
        Ok(port) if !text.starts_with('+') => Ok(port),
        _ => Err("expected a port from 0 to 65535, as in 127.0.0.1:5000 (0: the kernel chooses)".to_owned()),
    }
}

impl fmt::Display for ListenAddress {
    /// Formats the value so that [`ListenAddress::parse`] can parse it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.protocol.map(|protocol| match protocol {
            Protocol::Http if self.certificates.is_some() => "https",
            Protocol::Http => "http",
            Protocol::FastCgi => "fcgi",
        });
        if let Some(scheme) = scheme {
            let between = if matches!(self.socket, SocketAddress::Tcp { .. }) { "://" } else { "+" };
            write!(formatter, "{scheme}{between}")?;
        }
        match &self.socket {
            SocketAddress::Tcp { host, port } if host.is_empty() => write!(formatter, "*:{port}"),
            SocketAddress::Tcp { host, port } if host.contains(':') => write!(formatter, "[{host}]:{port}"),
            SocketAddress::Tcp { host, port } => write!(formatter, "{host}:{port}"),
            SocketAddress::Unix { path, mode: None } => write!(formatter, "unix:{}", path.display()),
            SocketAddress::Unix { path, mode: Some(mode) } => write!(formatter, "unix:{}?mode={mode:03o}", path.display()),
        }?;
        let query = show(self.certificates.as_deref().unwrap_or_default(), &self.handshakes);
        if !query.is_empty() {
            write!(formatter, "?{query}")?;
        }
        let Some(choice) = self.proxy_protocol else { return Ok(()) };
        let has_options = !query.is_empty() || matches!(self.socket, SocketAddress::Unix { mode: Some(_), .. });
        write!(formatter, "{}proxy_protocol={}", if has_options { '&' } else { '?' }, choice.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ProxyProtocol::{Off, Required};
    use crate::handshakes::Handshakes;
    use Protocol::{FastCgi, Http};
    use oribi_proto::proxy_protocol::Versions::{Both, One, Two};
    use oribi_tls::{CertificateFiles, Pem, Suites, Verify, Version};

    fn vouched(file: &str, clients: Verify) -> Handshakes {
        Handshakes { authorities: Some(file.into()), clients: Some(clients), ..Handshakes::default() }
    }

    fn tcp(host: &str, port: u16) -> ListenAddress {
        ListenAddress::tcp(host, port)
    }

    fn files(pairs: &[(&str, &str)]) -> Vec<CertificateFiles> {
        let one = |&(certificate, key): &(&str, &str)| CertificateFiles {
            certificate: certificate.into(),
            key: key.into(),
            status: None,
        };
        pairs.iter().map(one).collect()
    }

    fn unix(path: &str, mode: Option<u32>) -> ListenAddress {
        ListenAddress::unix(path, mode)
    }

    #[test]
    fn addresses() {
        for (text, expected) in [
            (":5000", tcp("", 5000)),
            ("5000", tcp("", 5000)),
            ("*:5000", tcp("", 5000)),
            ("127.0.0.1:5000", tcp("127.0.0.1", 5000)),
            ("[::1]:5000", tcp("::1", 5000)),
            ("[::]:5000", tcp("::", 5000)),
            ("localhost:0", tcp("localhost", 0)),
            ("http://127.0.0.1:5000", tcp("127.0.0.1", 5000).speaking(Http)),
            ("http://127.0.0.1:5000/", tcp("127.0.0.1", 5000).speaking(Http)),
            ("http://localhost", tcp("localhost", 80).speaking(Http)),
            ("http://[::1]", tcp("::1", 80).speaking(Http)),
            ("http://*:5000", tcp("", 5000).speaking(Http)),
            ("http+unix:/a", unix("/a", None).speaking(Http)),
            ("fcgi://127.0.0.1:9000", tcp("127.0.0.1", 9000).speaking(FastCgi)),
            ("fastcgi://[::1]:9000/", tcp("::1", 9000).speaking(FastCgi)),
            ("fcgi://:9000", tcp("", 9000).speaking(FastCgi)),
            ("fcgi:///run/app.sock", unix("/run/app.sock", None).speaking(FastCgi)),
            ("fcgi+unix:///run/app.sock", unix("/run/app.sock", None).speaking(FastCgi)),
            ("fcgi+unix:app?mode=660", unix("app", Some(0o660)).speaking(FastCgi)),
            ("tcp://0.0.0.0:9292", tcp("0.0.0.0", 9292)),
            ("https://localhost", tcp("localhost", 443).encrypted(vec![])),
            ("https://:8443/", tcp("", 8443).encrypted(vec![])),
            (":5000:ssl", tcp("", 5000).encrypted(vec![])),
            ("[::1]:5000:ssl", tcp("::1", 5000).encrypted(vec![])),
            ("ssl://0.0.0.0:9292?key=/k.pem&cert=/c%26.pem", tcp("0.0.0.0", 9292).encrypted(files(&[("/c&.pem", "/k.pem")]))),
            (
                "ssl://:9292?cert=c&key=k&verify_mode=none&no_tlsv1=true",
                ListenAddress {
                    handshakes: Handshakes { clients: Some(Verify::None), ..Handshakes::default() },
                    ..tcp("", 9292).encrypted(files(&[("c", "k")]))
                },
            ),
            (
                "ssl://:9292?cert=c&key=k&verify_mode=force_peer&ca=/ca",
                ListenAddress { handshakes: vouched("/ca", Verify::Required), ..tcp("", 9292).encrypted(files(&[("c", "k")])) },
            ),
            (
                "https://:1?verify_mode=peer&ca=a",
                ListenAddress { handshakes: vouched("a", Verify::Optional), ..tcp("", 1).encrypted(vec![]) },
            ),
            ("https://:1?cert=a&key=b&cert=c", tcp("", 1).encrypted(files(&[("a", "b"), ("c", "c")]))),
            ("/run/app.sock", unix("/run/app.sock", None)),
            ("/run/app", unix("/run/app", None)),
            ("./x.sock", unix("./x.sock", None)),
            ("run/x", unix("run/x", None)),
            ("app.sock", unix("app.sock", None)),
            ("unix:/run/app.sock", unix("/run/app.sock", None)),
            ("unix:///run/app.sock", unix("/run/app.sock", None)),
            ("unix:app", unix("app", None)),
            ("/run/app.sock:mode=660", unix("/run/app.sock", Some(0o660))),
            ("/run/app.sock?mode=0660", unix("/run/app.sock", Some(0o660))),
            ("app.sock?mode=600", unix("app.sock", Some(0o600))),
            (":80?proxy_protocol=on", tcp("", 80).greeted(Required(Both))),
            ("http://a.b/?proxy_protocol=v2", tcp("a.b", 80).speaking(Http).greeted(Required(Two))),
            ("[::1]:80?proxy_protocol=off", tcp("::1", 80).greeted(Off)),
            ("/a?proxy_protocol=v1&mode=660", unix("/a", Some(0o660)).greeted(Required(One))),
        ] {
            assert_eq!(ListenAddress::parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn texts_are_taken_and_never_shown() {
        let address = ListenAddress::parse("ssl://:9292?cert_pem=a%0Acert&key_pem=a%0Akey").expect("it is one");
        let files = |certificate, key| vec![CertificateFiles { certificate, key, status: None }];
        assert_eq!(address, tcp("", 9292).encrypted(files(Pem::text(b"a\ncert"), Pem::text(b"a\nkey"))));
        let shown = address.to_string();
        assert_eq!(shown, "https://*:9292?cert_pem=***&key_pem=***");
        assert!(!format!("{address:?}").contains("key\""), "{address:?}");
        let withheld = ListenAddress::parse(&shown).expect("it is shown so that it can be read");
        assert_eq!(withheld, tcp("", 9292).encrypted(files(Pem::Withheld, Pem::Withheld)));
        assert!(ListenAddress::parse("https://:1?cert=c&key_pem=").is_err());
    }

    #[test]
    fn what_does_not_fit() {
        for (text, part) in [
            ("", "expected HOST:PORT"),
            ("localhost", "expected HOST:PORT"),
            ("::1:5000", "brackets"),
            ("[::1]", "port after"),
            ("[::1:5000", "expected ]"),
            ("[zz]:5000", "host name"),
            ("a b:5000", "host name"),
            ("127.0.0.1:65536", "65535"),
            ("127.0.0.1:", "65535"),
            ("127.0.0.1:+80", "65535"),
            ("ssl://localhost", "expected HOST:PORT"),
            ("https://localhost?cert=", "cert=FILE"),
            ("https://localhost?key=b", "cert=FILE"),
            ("https://localhost?cert=a&key=b&key=c", "cert=FILE"),
            ("https://localhost?cert=a&verify_mode=perhaps", "force_peer"),
            ("https://localhost?cert=a&ocsp=b&ocsp=c", "cert=FILE"),
            ("https://localhost?cert=a&ca=b&ca=c", "only once"),
            ("https://localhost?cert=a&ciphers=RC4", "there is no suite `RC4`"),
            ("https://localhost?cert=a&min_version=1.1", "1.2 or 1.3"),
            ("https://localhost?cert=a&verify=peer", "`verify`"),
            ("https://localhost?cert=%zz", "percent"),
            ("https:///run/app.sock", "host name"),
            ("fcgi://:9000:ssl", "brackets"),
            ("ftp://localhost", "expected HOST:PORT"),
            ("fcgi://localhost", "expected HOST:PORT"),
            ("fcgi://https://localhost", "expected HOST:PORT"),
            ("fcgi+tcp:9000", "host name"),
            ("unix:", "path"),
            ("/run/", "path"),
            ("/run/app.sock?mode=999", "octal"),
            ("/run/app.sock?mode=7777", "octal"),
            ("/run/app.sock?umask=0", "path"),
            (":80?proxy_protocol=v3", "v1, v2 or on"),
            (":80?proxy_protocol=v1&proxy_protocol=v1", "once"),
            (":80?proxy-protocol=v1", "65535"),
        ] {
            let error = ListenAddress::parse(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!(ListenAddress::parse(&format!("/{}", "a".repeat(107))).is_err());
        assert!(ListenAddress::parse(&format!("/{}", "a".repeat(106))).is_ok());
    }

    #[test]
    fn what_is_shown_can_be_read_again() {
        for address in
            [tcp("", 80), tcp("::1", 80), tcp("a.b", 0), unix("/a", None), unix("b", Some(0o60)), unix("/a", Some(0))]
        {
            let greeted = address.clone().greeted(Required(Both));
            for address in [address.clone(), greeted, address.clone().speaking(Http), address.speaking(FastCgi)] {
                assert_eq!(ListenAddress::parse(&address.to_string()), Ok(address));
            }
        }
        for pairs in [&[][..], &[("/a b&?%=", "key")], &[("a", "a"), ("b", "c")]] {
            let address = tcp("::1", 443).encrypted(files(pairs));
            let handshakes = Handshakes {
                oldest: Some(Version::Tls13),
                suites: Some(Suites::parse("TLS_AES_128_GCM_SHA256:ECDHE-RSA-AES128-GCM-SHA256").expect("known")),
                ..vouched("/c&a", Verify::None)
            };
            let strict = ListenAddress { handshakes, ..address.clone().greeted(Required(Both)) };
            for mut address in [address, strict] {
                assert_eq!(ListenAddress::parse(&address.to_string()), Ok(address.clone()));
                for (place, files) in address.certificates.iter_mut().flatten().take(1).enumerate() {
                    files.status = Some(format!("/ocsp?{place}").into());
                }
                assert_eq!(ListenAddress::parse(&address.to_string()), Ok(address));
            }
        }
    }
}
