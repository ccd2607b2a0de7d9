//! Which addresses are encrypted, with which certificates.

use super::error::SettingError;
use super::settings::{ListenAddress, Protocol, Settings, SocketAddress};
use oribi_tls::{CertificateFiles, Material, Secret, Server};

impl Settings {
    /// The files with the certificates of `address`; `None`: its connections are not encrypted.
    #[must_use]
    pub fn certificates_of(&self, address: &ListenAddress) -> Option<Vec<CertificateFiles>> {
        match &address.certificates {
            Some(files) if !files.is_empty() => Some(files.clone()),
            Some(_) => Some(self.tls.files()),
            None if address.protocol.is_none() && matches!(address.socket, SocketAddress::Tcp { .. }) => {
                self.default_certificates()
            }
            None => None,
        }
    }

    /// The same for TCP sockets that another program has opened.
    #[must_use]
    pub fn default_certificates(&self) -> Option<Vec<CertificateFiles>> {
        (self.tls.by_default && self.protocol == Protocol::Http).then(|| self.tls.files())
    }
}

impl Settings {
    /// Reads the certificates of all addresses, and says what they are for and what an operator should know of them.
    ///
    /// # Errors
    /// Says what is wrong, and with which file.
    pub fn look_at_certificates(&self) -> Result<Vec<String>, String> {
        let mut seen = Vec::new();
        let mut lines = Vec::new();
        let addresses = self.listen.iter().filter_map(|address| self.certificates_of(address));
        for files in addresses.chain(self.default_certificates()) {
            if seen.contains(&files) {
                continue;
            }
            let server = Server::new(Material::read(&files)?, self.tls.options(), Secret::new()?)?;
            lines.push(server.to_string());
            lines.extend(server.troubles());
            seen.push(files);
        }
        Ok(lines)
    }
}

const NEEDED: &str =
    "it needs a certificate: give --ssl-cert FILE and --ssl-key FILE, or write https://HOST:PORT?cert=FILE&key=FILE";

/// Decides which addresses are encrypted, and refuses what cannot be.
pub(super) fn settle(settings: &mut Settings) -> Result<(), SettingError> {
    let is_named = settings.listen.iter().any(|address| address.certificates.is_some());
    let tls = &mut settings.tls;
    if let Some(key) = tls.keys.get(tls.certificates.len()) {
        let why = "there is no certificate for this key: give as many --ssl-cert FILE, in the same order";
        return Err(SettingError::bad("ssl-key", key.display().to_string(), why));
    }
    // Who gives a certificate and no address for it means all addresses.
    tls.by_default = tls.wanted.unwrap_or(!tls.certificates.is_empty() && !is_named);
    if tls.by_default && tls.certificates.is_empty() {
        return Err(SettingError::bad("ssl", "on", NEEDED));
    }
    if !tls.certificates.is_empty() && !tls.by_default && !is_named {
        let why = "nothing uses it: no address says https://, and --no-ssl is given";
        return Err(SettingError::bad("ssl-cert", tls.certificates[0].display().to_string(), why));
    }
    match settings.listen.iter().find(|address| settings.certificates_of(address).is_some_and(|files| files.is_empty())) {
        Some(address) => Err(SettingError::bad("listen", address.to_string(), NEEDED)),
        None => Ok(()),
    }
}
