//! Decides which addresses are encrypted, and with which certificates and rules.

use super::acme;
use super::error::SettingError;
use super::handshakes::{Handshakes, Offer, show_verify};
use super::settings::{ListenAddress, Protocol, Settings, SocketAddress};
use oribi_tls::{Secret, Server, Verify};

impl Settings {
    /// The TLS offer for clients at `address`; `None` without encryption.
    #[must_use]
    pub fn offer_of(&self, address: &ListenAddress) -> Option<Offer> {
        match &address.certificates {
            Some(files) if !files.is_empty() => Some(self.tls.offer(files.clone(), &address.handshakes)),
            Some(_) => Some(self.tls.offer(self.tls.files(), &address.handshakes)),
            None if address.protocol.is_none() && matches!(address.socket, SocketAddress::Tcp { .. }) => self.default_offer(),
            None => None,
        }
    }

    /// The TLS offer at TCP sockets that another program opened; `None` without encryption.
    #[must_use]
    pub fn default_offer(&self) -> Option<Offer> {
        let is_encrypted = self.tls.by_default && self.protocol == Protocol::Http;
        is_encrypted.then(|| self.tls.offer(self.tls.files(), &Handshakes::default()))
    }
}

impl Settings {
    /// Reads the certificates of all addresses. Returns lines for the operator: the names in the certificates, and warnings.
    ///
    /// # Errors
    /// The file that cannot be used, and the reason.
    pub fn look_at_certificates(&self) -> Result<Vec<String>, String> {
        let mut seen = Vec::new();
        let mut lines = Vec::new();
        let addresses = self.listen.iter().filter_map(|address| self.offer_of(address));
        for mut offer in addresses.chain(self.default_offer()) {
            if seen.contains(&offer) {
                continue;
            }
            seen.push(offer.clone());
            for (names, file) in self.acme.not_there() {
                let before = offer.files.len();
                offer.files.retain(|files| files.certificate.path() != Some(&file));
                if offer.files.len() < before {
                    lines.push(format!("{names} (ordered when the server runs: --acme, {})", self.acme.challenge.name()));
                }
            }
            if offer.files.is_empty() {
                continue;
            }
            let server = Server::new(offer.read()?, offer.options.clone(), Secret::new()?)?;
            lines.push(server.to_string());
            lines.extend(server.troubles());
        }
        lines.extend(oribi_acme::pauses(&self.acme));
        Ok(lines)
    }
}

const NEEDED: &str =
    "it needs a certificate: give --ssl-cert FILE and --ssl-key FILE, or write https://HOST:PORT?cert=FILE&key=FILE";

const VOUCHING: &str =
    "clients are asked for certificates, but no CA for them is given: give --ssl-ca FILE, or append &ca=FILE to the address";

/// Decides which addresses are encrypted, and refuses addresses that cannot be.
pub(super) fn settle(settings: &mut Settings) -> Result<(), SettingError> {
    acme::settle(settings)?;
    let is_named = settings.listen.iter().any(|address| address.certificates.is_some());
    let tls = &mut settings.tls;
    if let Some(key) = tls.keys.get(tls.certificates.len()) {
        let why = "there is no certificate for this key: give as many --ssl-cert FILE, in the same order";
        return Err(SettingError::bad("ssl-key", key.display().to_string(), why));
    }
    // A certificate that no address refers to is used at all addresses.
    tls.by_default = tls.wanted.unwrap_or(tls.has_any() && !is_named);
    if tls.by_default && !tls.has_any() {
        return Err(SettingError::bad("ssl", "on", NEEDED));
    }
    if !tls.certificates.is_empty() && !tls.by_default && !is_named {
        let why = "nothing uses it: no address says https://, and --no-ssl is given";
        return Err(SettingError::bad("ssl-cert", tls.certificates[0].display().to_string(), why));
    }
    if let Some(status) = tls.statuses.get(tls.certificates.len()) {
        let why = "there is no certificate for this response: give as many --ssl-cert FILE, in the same order";
        return Err(SettingError::bad("ssl-ocsp", status.display().to_string(), why));
    }
    acme::choose_challenge(settings)?;
    let offers = settings.listen.iter().filter_map(|address| Some((Some(address), settings.offer_of(address)?)));
    let offers: Vec<_> = offers.chain(settings.default_offer().map(|offer| (None, offer))).collect();
    for (address, offer) in &offers {
        let why = match () {
            () if offer.files.is_empty() => NEEDED,
            () if offer.options.clients != Verify::None && offer.authorities.is_none() => VOUCHING,
            () => continue,
        };
        return Err(match address {
            Some(address) => SettingError::bad("listen", address.to_string(), why),
            None => SettingError::bad("ssl-verify-client", show_verify(offer.options.clients), why),
        });
    }
    let asks = |(_, offer): &(_, Offer)| offer.options.clients != Verify::None;
    if settings.tls.clients != Verify::None && !offers.iter().any(asks) {
        let why = "no connection is encrypted: also give --ssl-cert FILE, or write https://HOST:PORT?cert=FILE&key=FILE";
        return Err(SettingError::bad("ssl-verify-client", show_verify(settings.tls.clients), why));
    }
    match &settings.tls.authorities {
        Some(file) if !offers.iter().any(asks) => {
            let why = "no client is asked for a certificate: give --ssl-verify-client required, or optional";
            Err(SettingError::bad("ssl-ca", file.display().to_string(), why))
        }
        _ => Ok(()),
    }
}
