//! Protects the dashboard from pages of other origins that the viewer's browser loads.
//!
//! A browser on the same machine or in the same network may reach the metrics address, and so may every page in that browser.
//! Such a page cannot read the responses of another origin. But the page's own name may suddenly resolve to the address of
//! this server (DNS rebinding). The browser then treats this server as the page's own origin, though the field Host still has
//! the page's name. So the dashboard is served only under an IP address, `localhost` or a configured name: a foreign page can
//! have none of these.

use oribi_config::{ListenAddress, SocketAddress};
use oribi_message::{KnownField, RequestHead};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The names under which the dashboard is served.
#[derive(Debug)]
pub(in super::super) struct Guard {
    names: Vec<String>,
}

/// The reason for a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Stranger {
    /// The field Host is not a name of the dashboard.
    Host,
    /// The field Origin is that of another page.
    Origin,
}

impl Guard {
    /// Creates the guard of a dashboard with these names at `address`. The host name of `address` is also accepted.
    pub(in super::super) fn new(names: &[String], address: &ListenAddress) -> Self {
        let own = match &address.socket {
            SocketAddress::Tcp { host, .. } if !host.is_empty() => Some(host),
            SocketAddress::Tcp { .. } | SocketAddress::Unix { .. } => None,
        };
        Self { names: names.iter().chain(own).map(|name| name.to_ascii_lowercase()).collect() }
    }

    /// Checks whether a request may see the dashboard.
    pub(in super::super) fn admit(&self, head: &RequestHead<'_>) -> Result<(), Stranger> {
        // Browsers always send Host. They send an absolute target only to proxies, so its authority must be accepted in
        // addition to Host.
        let values = |wanted| head.fields().filter(move |(known, ..)| *known == Some(wanted)).map(|(_, _, value)| value);
        let hosts = values(KnownField::Host).chain(head.authority());
        if !hosts.clone().all(|host| self.knows(host)) {
            return Err(Stranger::Host);
        }
        let is_own = |origin: &[u8]| {
            let of_origin = origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"));
            of_origin.is_some_and(|authority| hosts.clone().any(|host| host.eq_ignore_ascii_case(authority)))
        };
        if values(KnownField::Origin).all(is_own) { Ok(()) } else { Err(Stranger::Origin) }
    }

    /// Whether the dashboard has the name in `authority`, where a port may follow the name.
    fn knows(&self, authority: &[u8]) -> bool {
        let Ok(authority) = std::str::from_utf8(authority) else { return false };
        if let Some(rest) = authority.strip_prefix('[') {
            let Some((address, port)) = rest.split_once(']') else { return false };
            return address.parse::<Ipv6Addr>().is_ok() && (port.is_empty() || port.starts_with(':'));
        }
        let name = authority.split_once(':').map_or(authority, |(name, _)| name);
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        name == "localhost" || name.parse::<Ipv4Addr>().is_ok() || self.names.contains(&name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oribi_message::HeadLayout;
    use oribi_proto::h1::{Event, Limits, Machine};

    fn admit(guard: &Guard, target: &str, fields: &str) -> Result<(), Stranger> {
        let (text, mut layout) = (format!("GET {target} HTTP/1.1\r\n{fields}\r\n"), HeadLayout::default());
        let step = Machine::new().handle_input(text.as_bytes(), &mut layout, &Limits::default());
        assert!(matches!(step.event, Event::Head { .. }), "{text:?}: {:?}", step.event);
        guard.admit(&RequestHead::new(text.as_bytes(), &layout))
    }

    #[test]
    fn it_is_asked_for_by_an_address_by_localhost_or_by_a_given_name() {
        let guard = Guard::new(&["stats.example.org".to_owned()], &ListenAddress::tcp("Box", 9090));
        for host in [
            "127.0.0.1",
            "127.0.0.1:9090",
            "192.0.2.7",
            "[::1]",
            "[::1]:9090",
            "[fe80::1]:80",
            "localhost",
            "LocalHost:9090",
            "localhost.:9090",
            "stats.example.org",
            "STATS.example.org:80",
            "box:9090",
        ] {
            assert_eq!(admit(&guard, "/", &format!("Host: {host}\r\n")), Ok(()), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:9090",
            "127.0.0.1.evil.example",
            "evil.stats.example.org",
            "localhost.evil.example",
            "127.0.0.1x",
            "1",
            "0x7f.1",
            ".",
        ] {
            assert_eq!(admit(&guard, "/", &format!("Host: {host}\r\n")), Err(Stranger::Host), "{host}");
        }
        assert_eq!(admit(&guard, "http://evil.example/", "Host: localhost\r\n"), Err(Stranger::Host));
        assert_eq!(admit(&guard, "http://localhost/", "Host: evil.example\r\n"), Err(Stranger::Host));
        let nameless = Guard::new(&[], &ListenAddress::tcp("", 9090));
        assert_eq!(admit(&nameless, "/", "Host: box\r\n"), Err(Stranger::Host));
        assert_eq!(admit(&nameless, "/", "Host:\r\n"), Err(Stranger::Host));
    }

    #[test]
    fn a_page_from_elsewhere_gets_nothing() {
        let guard = Guard::new(&[], &ListenAddress::unix("/run/a.sock", None));
        let with = |origin: &str| admit(&guard, "/events", &format!("Host: localhost:9090\r\nOrigin: {origin}\r\n"));
        for origin in ["http://localhost:9090", "https://localhost:9090", "http://LOCALHOST:9090"] {
            assert_eq!(with(origin), Ok(()), "{origin}");
        }
        for origin in ["null", "", "http://evil.example", "http://localhost", "http://localhost:80", "localhost:9090"] {
            assert_eq!(with(origin), Err(Stranger::Origin), "{origin}");
        }
        let both = "Host: localhost\r\nOrigin: http://localhost\r\nOrigin: http://evil.example\r\n";
        assert_eq!(admit(&guard, "/events", both), Err(Stranger::Origin));
    }
}
