//! The addresses of upstreams.

use rustix::net::SocketAddrUnix;
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};

const HTTP: &str = "http://";
const UNIX: &str = "http+unix:";

/// The port of URLs without one.
const PORT: u16 = 80;

/// An upstream as its user has written it: `http://HOST:PORT` or `http+unix:/PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    name: String,
    place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Internet { host: String, port: u16 },
    Unix(String),
}

/// An address that can be connected to.
#[derive(Clone, Debug)]
pub(crate) enum Address {
    Internet(SocketAddr),
    Unix(SocketAddrUnix),
}

/// An upstream whose name has been looked up.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) name: String,
    /// The value of Host for clients that send none.
    pub(crate) authority: String,
    /// Never empty.
    pub(crate) addresses: Vec<Address>,
}

/// Whether a text is meant as the URL of an upstream, valid or not, and not as the name of a file.
#[must_use]
pub fn is_upstream(text: &str) -> bool {
    [HTTP, UNIX, "https://"]
        .iter()
        .any(|scheme| text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)))
}

/// The form of an upstream, for messages.
const EXPECTED: &str = "expected http://HOST:PORT or http+unix:/PATH";

impl Upstream {
    /// Reads a URL.
    ///
    /// # Errors
    /// The expected form, as the end of a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let name = text.to_owned();
        let after = |scheme: &str| {
            text.get(..scheme.len()).filter(|start| start.eq_ignore_ascii_case(scheme)).map(|_| &text[scheme.len()..])
        };
        if after("https://").is_some() {
            return Err(format!("{EXPECTED}; upstreams are not encrypted"));
        }
        if let Some(path) = after(UNIX) {
            let path = path.strip_prefix("//").unwrap_or(path);
            return match SocketAddrUnix::new(path) {
                Ok(_) if path.starts_with('/') => Ok(Self { name, place: Place::Unix(path.to_owned()) }),
                Ok(_) => Err(format!("{EXPECTED}, with an absolute path")),
                Err(_) => Err(format!("{EXPECTED}; the path is too long for a socket")),
            };
        }
        let authority = after(HTTP).ok_or(EXPECTED)?;
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        if authority.contains(['/', '?', '#']) {
            return Err(format!("{EXPECTED}, without a path: clients' paths are passed on as they are"));
        }
        if authority.contains('@') {
            return Err(format!("{EXPECTED}, without a user"));
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, digits)) if !digits.ends_with(']') => {
                let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
                (host, is_number.then(|| digits.parse().ok()).flatten().filter(|port| *port > 0).ok_or(EXPECTED)?)
            }
            _ => (authority, PORT),
        };
        let plain = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let fits = match plain {
            Some(literal) => literal.parse::<std::net::Ipv6Addr>().is_ok(),
            None => !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)),
        };
        if !fits {
            return Err(EXPECTED.to_owned());
        }
        Ok(Self { name, place: Place::Internet { host: plain.unwrap_or(host).to_owned(), port } })
    }

    /// Reads URLs with commas between them.
    ///
    /// # Errors
    /// The invalid URL, and the expected form.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, String> {
        if let Some((_, host)) = text.rsplit_once('@').filter(|_| !text.contains(UNIX)) {
            // A password may have any characters, commas too.
            return Err(format!("bad upstream `***@{}`: {EXPECTED}, without a user", host.escape_debug()));
        }
        text.split(',')
            .map(|url| Self::parse(url).map_err(|why| format!("bad upstream `{}`: {why}", url.escape_debug())))
            .collect()
    }

    /// Looks up the addresses.
    pub(crate) fn resolve(&self) -> Result<Target, String> {
        let failed = |error: std::io::Error| format!("upstream {}: cannot find its address: {error}", self.name);
        let (addresses, authority) = match &self.place {
            Place::Unix(path) => {
                let address = SocketAddrUnix::new(path.as_str()).map_err(|error| failed(error.into()))?;
                (vec![Address::Unix(address)], "localhost".to_owned())
            }
            Place::Internet { host, port } => {
                let found = (host.as_str(), *port).to_socket_addrs().map_err(failed)?;
                (found.map(Address::Internet).collect(), self.name[HTTP.len()..].trim_end_matches('/').to_owned())
            }
        };
        if addresses.is_empty() {
            return Err(format!("upstream {}: it has no address", self.name));
        }
        Ok(Target { name: self.name.clone(), authority, addresses })
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::{Upstream, is_upstream};

    #[test]
    fn urls_of_upstreams() {
        for (text, authority) in [
            ("http://127.0.0.1:3000", "127.0.0.1:3000"),
            ("http://127.0.0.1:3000/", "127.0.0.1:3000"),
            ("HTTP://[::1]:3000", "[::1]:3000"),
            ("http://[::1]", "[::1]"),
            ("http://localhost", "localhost"),
            ("http+unix:/run/app.sock", "localhost"),
            ("http+unix:///run/app.sock", "localhost"),
        ] {
            let upstream = Upstream::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"));
            assert!(is_upstream(text));
            assert_eq!(upstream.resolve().expect("local names").authority, authority, "{text}");
        }
        for text in [
            "",
            "app.psgi",
            "http:/127.0.0.1",
            "http://",
            "http://:80",
            "http://a:",
            "http://a:0",
            "http://a:65536",
            "http://a:+1",
            "http://a/b",
            "http://a?b",
            "http://u@a",
            "http://u:p@a",
            "http://a b",
            "http://[::1",
            "http://[x]",
            "https://a",
            "http+unix:run/app.sock",
            "http+unix:",
        ] {
            assert!(Upstream::parse(text).is_err(), "{text}");
        }
        assert!(Upstream::parse(&format!("http+unix:/{}", "x".repeat(200))).is_err());
        assert_eq!(Upstream::parse_list("http://a,http://b").map(|list| list.len()), Ok(2));
        assert!(Upstream::parse_list("http://a,").is_err());
        assert!(!is_upstream("httpd.psgi") && !is_upstream("") && is_upstream("https://x"));
    }
}
