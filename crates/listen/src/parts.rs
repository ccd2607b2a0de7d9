//! The parts of a listener for its users: everything but the sockets, the sockets of others, and its encryption.

use super::listener::Listener;
use oribi_config::{Protocol, ProxyProtocol};
use oribi_tls::{Server, Start};
use std::sync::Arc;

/// Returns the address in the name of a listener, which is the same for each protocol that its clients may use.
#[must_use]
pub fn address_in(display: &str) -> &str {
    let unix = display.strip_prefix("fcgi+").unwrap_or(display);
    if unix.starts_with("unix:") { unix } else { display.split_once("://").map_or(display, |(_, address)| address) }
}

impl Listener {
    /// Returns the address in the name.
    #[must_use]
    pub fn address(&self) -> &str {
        address_in(&self.display)
    }

    /// Adopts the sockets again, without the options that the listener has had: see [`Listener::adopted`].
    ///
    /// # Errors
    /// The operating system refused a call, or there is no socket.
    pub fn adopted_again(self, host: &str, protocol: Protocol) -> Result<Self, String> {
        let mut sockets = self.sockets.into_iter();
        let first = sockets.next().ok_or_else(|| format!("{} has no socket", self.display))?;
        let mut adopted = Self::adopted(first, host, protocol)?;
        adopted.sockets.extend(sockets);
        (adopted.lent, adopted.stored) = (self.lent, self.stored);
        Ok(adopted)
    }

    /// Adds sockets that are bound to the same address.
    pub fn add_sockets(&mut self, others: impl IntoIterator<Item = Self>) {
        self.sockets.extend(others.into_iter().flat_map(|other| other.sockets));
    }

    /// Returns the path of a Unix socket as its address has it, `@` and the name of an abstract one, or nothing for one without a
    /// name. `None` for TCP.
    #[must_use]
    pub fn socket_path(&self) -> Option<&str> {
        let path = self.display.strip_prefix("fcgi+").unwrap_or(&self.display).strip_prefix("unix:");
        path.filter(|_| self.unix)
    }

    /// Returns everything but the sockets and the file.
    #[must_use]
    pub fn description(&self) -> Self {
        Self {
            id: self.id,
            sockets: Vec::new(),
            display: self.display.clone(),
            protocol: self.protocol,
            proxy_protocol: self.proxy_protocol,
            server_name: self.server_name.clone(),
            server_port: self.server_port.clone(),
            unix: self.unix,
            lent: self.lent,
            stored: self.stored,
            offer: self.offer.clone(),
            tls: self.tls.clone(),
            thumbprint: self.thumbprint.clone(),
            file: None,
        }
    }

    /// Returns the server that encrypts the connections, and when it begins; `None` without encryption.
    #[must_use]
    pub fn encryption(&self) -> Option<(Arc<Server>, Start)> {
        let start = if self.proxy_protocol == ProxyProtocol::Off { Start::AtOnce } else { Start::WhenAsked };
        self.tls.clone().map(|server| (server, start))
    }
}
