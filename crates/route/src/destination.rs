//! Addresses at which requests arrive.

use crate::network::Network;
use crate::pattern::Pattern;
use alloc::format;
use alloc::string::String;
use core::net::IpAddr;

const EXPECTED: &str = "expected an address or a network, perhaps with ports, such as 192.0.2.1, 10.0.0.0/8:8080, \
     [2001:db8::1]:443 or *:8000-8099, or unix, or unix:/PATH";

/// The address at which a request arrived: that of this machine, not of a proxy in front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination<'a> {
    /// TCP.
    Internet {
        /// The address; `None` if it is not known, so that it is in no network.
        address: Option<IpAddr>,
        /// The port.
        port: u16,
    },
    /// A Unix socket, with its path; the path is empty if the socket has none.
    Unix(&'a [u8]),
}

/// A pattern for these addresses.
#[derive(Debug)]
pub(crate) enum DestinationPattern {
    Internet {
        /// `None`: all addresses.
        network: Option<Network>,
        /// The first and the last port.
        ports: (u16, u16),
    },
    /// `None`: all Unix sockets.
    Unix(Option<Pattern>),
}

impl DestinationPattern {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let expected = || format!("bad destination; {EXPECTED}");
        if text == "unix" {
            return Ok(Self::Unix(None));
        }
        if let Some(path) = text.strip_prefix("unix://").or_else(|| text.strip_prefix("unix:")) {
            let path = without_dot(path.as_bytes()).len();
            let path = &text[text.len() - path..];
            let is_path = !path.is_empty() && !path.ends_with('/') && !path.contains(['\0', '?']);
            return if is_path { Ok(Self::Unix(Some(Pattern::plain(path)))) } else { Err(expected()) };
        }
        let (network, ports) = match text.strip_prefix('[') {
            Some(rest) => {
                let (network, rest) = rest.split_once(']').ok_or_else(expected)?;
                let ports = if rest.is_empty() { None } else { Some(rest.strip_prefix(':').ok_or_else(expected)?) };
                (network, ports)
            }
            // Several colons are those of an address of IPv6.
            None => match text.split_once(':') {
                Some((network, ports)) if !ports.contains(':') => (network, Some(ports)),
                _ => (text, None),
            },
        };
        if ports.is_some() && matches!(network, "*" | "") && !text.starts_with('[') {
            return Ok(Self::Internet { network: None, ports: ports.and_then(read_ports).ok_or_else(expected)? });
        }
        if text.starts_with('[') && !network.contains(':') {
            return Err(expected());
        }
        let network = Network::parse(network).map_err(|why| match why.strip_prefix("bad network; ") {
            Some(reason) if !reason.starts_with("expected") => format!("bad destination; {reason}"),
            _ => expected(),
        })?;
        let ports = match ports {
            Some(ports) => read_ports(ports).ok_or_else(expected)?,
            None => (0, u16::MAX),
        };
        Ok(Self::Internet { network: Some(network), ports })
    }

    /// Whether the pattern depends on more than the port.
    pub(crate) const fn needs_address(&self) -> bool {
        matches!(self, Self::Internet { network: Some(_), .. })
    }

    /// Whether a request that arrived at `destination` fits.
    pub(crate) fn matches(&self, destination: Destination<'_>) -> bool {
        match (self, destination) {
            (Self::Unix(pattern), Destination::Unix(path)) => {
                pattern.as_ref().is_none_or(|pattern| pattern.matches(without_dot(path)))
            }
            (Self::Internet { network, ports: (first, last) }, Destination::Internet { address, port }) => {
                (*first..=*last).contains(&port)
                    && network.is_none_or(|network| address.is_some_and(|address| network.includes(address.to_canonical())))
            }
            _ => false,
        }
    }
}

/// A path without the `./` that a relative one may begin with.
fn without_dot(path: &[u8]) -> &[u8] {
    path.strip_prefix(b"./").unwrap_or(path)
}

/// Reads a port, or two with a hyphen.
fn read_ports(text: &str) -> Option<(u16, u16)> {
    let port = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|port| digits && *port > 0)
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (port(first)?, port(last)?);
    (first <= last).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_fits_addresses_and_ports() {
        for (pattern, address, expected) in [
            ("10.0.0.1", "10.0.0.1:80", true),
            ("10.0.0.1", "10.0.0.2:80", false),
            ("10.0.0.0/8:80", "10.9.0.1:80", true),
            ("10.0.0.0/8:80", "10.9.0.1:81", false),
            ("10.0.0.1:80-89", "10.0.0.1:89", true),
            ("10.0.0.1:80-89", "10.0.0.1:90", false),
            ("*:443", "10.0.0.1:443", true),
            (":443", "[::1]:443", true),
            ("*:443", "[::1]:444", false),
            ("::1", "[::1]:1", true),
            ("[::1]", "[::1]:65535", true),
            ("[::1]:80", "[::1]:80", true),
            ("[::1]:80", "[::2]:80", false),
            ("[2001:db8::/32]:80-81", "[2001:db8::9]:81", true),
            ("10.0.0.1:80", "[::ffff:10.0.0.1]:80", true),
            ("unix", "10.0.0.1:80", false),
        ] {
            let address: core::net::SocketAddr = address.parse().expect("an address");
            let destination = Destination::Internet { address: Some(address.ip()), port: address.port() };
            let pattern = DestinationPattern::parse(pattern).expect(pattern);
            assert_eq!(pattern.matches(destination), expected, "{pattern:?} {address}");
            assert!(
                !pattern.matches(Destination::Internet { address: None, port: address.port() }) || !pattern.needs_address()
            );
            let is_unix = matches!(pattern, DestinationPattern::Unix(_));
            assert_eq!(pattern.matches(Destination::Unix(b"/run/app.sock")), is_unix);
        }
    }

    #[test]
    fn a_pattern_fits_paths_of_unix_sockets() {
        for (pattern, path, expected) in [
            ("unix", "", true),
            ("unix", "/a.sock", true),
            ("unix:/run/a.sock", "/run/a.sock", true),
            ("unix:///run/a.sock", "/run/a.sock", true),
            ("unix:/run/a.sock", "/run/b.sock", false),
            ("unix:/run/a.sock", "run/a.sock", false),
            ("unix:/run/*.sock", "/run/a.sock", true),
            ("unix:/run/*", "/srv/a.sock", false),
            ("unix:a.sock", "./a.sock", true),
            ("unix:./a.sock", "a.sock", true),
            ("unix:~a", "~a", true),
            ("unix:~a", "a", false),
            ("unix:@name", "@name", true),
            ("*:80", "80", false),
        ] {
            let parsed = DestinationPattern::parse(pattern).expect(pattern);
            assert_eq!(parsed.matches(Destination::Unix(path.as_bytes())), expected, "{pattern} {path}");
            assert!(!parsed.needs_address());
        }
    }

    #[test]
    fn a_bad_pattern_is_an_error() {
        for pattern in [
            "x",
            "*",
            "*:",
            ":",
            "*:0",
            "*:65536",
            "*:+80",
            "*:80-",
            "*:81-80",
            "*:80-81-82",
            "10.0.0.1:",
            "10.0.0.1/8:80",
            "[10.0.0.1]:80",
            "[::1",
            "[::1]80",
            "[::1]:",
            "[*]:80",
            "[]:80",
            "localhost:80",
            "unix:",
            "unix:./",
            "unix:/a/",
            "unix:/a?mode=660",
            "Unix",
        ] {
            let error = DestinationPattern::parse(pattern).expect_err(pattern);
            assert!(error.starts_with("bad destination; "), "{error}");
        }
    }
}
