//! The parts of a listener for its users: everything but the sockets, the sockets of others, and its encryption.

use super::listener::Listener;
use oribi_config::ProxyProtocol;
use oribi_tls::{Server, Start};
use std::sync::Arc;

impl Listener {
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
