//! The path of metrics among the paths of the app, and the networks of their clients.

use super::networks::{ALLOW, show_networks};
use super::proxies::TrustedPeers;
use std::fmt;
use std::net::IpAddr;

/// A path at which clients in some networks get metrics, and all others get the app's response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsPath {
    path: String,
    allowed: Vec<TrustedPeers>,
}

impl MetricsPath {
    pub(super) const fn new(path: String, allowed: Vec<TrustedPeers>) -> Self {
        Self { path, allowed }
    }

    /// The path at which clients get metrics.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The networks whose clients get metrics there, with commas between them.
    #[must_use]
    pub fn allowed(&self) -> String {
        show_networks(&self.allowed)
    }

    /// Whether a client with this address, as text, gets metrics.
    #[must_use]
    pub fn admits(&self, address: &[u8]) -> bool {
        let address: Option<IpAddr> = std::str::from_utf8(address).ok().and_then(|address| address.parse().ok());
        // A client without an address connected to a Unix socket, through a proxy that does not report the client.
        address.is_some_and(|address| self.allowed.iter().any(|network| network.include(Some(address.to_canonical()))))
    }
}

impl fmt::Display for MetricsPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}?{ALLOW}{}", self.path, self.allowed())
    }
}

#[cfg(test)]
mod tests {
    use super::super::networks::networks;
    use super::*;

    #[test]
    fn it_is_for_clients_in_these_networks() {
        let path = MetricsPath::new("/metrics".to_owned(), networks("10.0.0.0/8,::1").expect("they are networks"));
        for address in ["10.1.2.3", "::ffff:10.1.2.3", "::1"] {
            assert!(path.admits(address.as_bytes()), "{address}");
        }
        for address in ["11.0.0.1", "::2", "", "unix", "10.1.2.3:80", "10.1.2", "fe80::1%eth0", "\u{fc}"] {
            assert!(!path.admits(address.as_bytes()), "{address}");
        }
    }
}
