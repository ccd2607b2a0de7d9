//! Decides which addresses are encrypted, and with which certificates and rules.

use super::acme;
use super::contradiction::{Contradictions, ENCRYPTION};
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
        let mut lines = Vec::new();
        for (_, mut offer) in self.offers() {
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

    /// Returns the reasons for which certificates cannot be used, each with the first address that offers them. Those that the
    /// addresses of `served` offer are left out: a running server keeps the ones that it has read.
    #[must_use]
    pub fn unusable_certificates(&self, served: Option<&Self>) -> Vec<(Option<&ListenAddress>, String)> {
        let served: Vec<Offer> = served.map_or_else(Vec::new, |served| served.offers().map(|(_, offer)| offer).collect());
        let mut found: Vec<(_, String)> = Vec::new();
        for (address, mut offer) in self.offers().filter(|(_, offer)| !served.contains(offer)) {
            for (_, file) in self.acme.not_there() {
                offer.files.retain(|files| files.certificate.path() != Some(&file));
            }
            for why in offer.troubles() {
                if !found.iter().any(|(_, known)| *known == why) {
                    found.push((address, why));
                }
            }
        }
        found
    }

    /// The different offers, each with its first address; `None` for that at sockets of other programs.
    fn offers(&self) -> impl Iterator<Item = (Option<&ListenAddress>, Offer)> {
        let addresses = self.listen.iter().filter_map(|address| Some((Some(address), self.offer_of(address)?)));
        let mut seen = Vec::new();
        addresses.chain(self.default_offer().map(|offer| (None, offer))).filter(move |(_, offer)| {
            let is_new = !seen.contains(offer);
            seen.push(offer.clone());
            is_new
        })
    }
}

const NEEDED: &str =
    "it needs a certificate: give --ssl-cert FILE and --ssl-key FILE, or write https://HOST:PORT?cert=FILE&key=FILE";

const VOUCHING: &str =
    "clients are asked for certificates, but no CA for them is given: give --ssl-ca FILE, or append &ca=FILE to the address";

/// Decides which addresses are encrypted, and refuses addresses that cannot be.
pub(super) fn settle(settings: &mut Settings, found: &mut Contradictions) {
    acme::settle(settings, found);
    let is_named = settings.listen.iter().any(|address| address.certificates.is_some());
    let tls = &mut settings.tls;
    let one_key_more = tls.keys.get(tls.certificates.len());
    if let Some(key) = one_key_more {
        let why = "there is no certificate for this key: give as many --ssl-cert FILE, in the same order";
        found.add("ssl-key", key.display().to_string(), why, ENCRYPTION);
    }
    // A certificate that no address refers to is used at all addresses.
    tls.by_default = tls.wanted.unwrap_or(tls.has_any() && !is_named);
    let lacks_any = tls.by_default && !tls.has_any();
    if lacks_any && one_key_more.is_none() {
        found.add("ssl", "on", NEEDED, ENCRYPTION);
    }
    if !tls.certificates.is_empty() && !tls.by_default && !is_named {
        let why = "nothing uses it: no address says https://, and --no-ssl is given";
        found.add("ssl-cert", tls.certificates[0].display().to_string(), why, ENCRYPTION);
    }
    if let Some(status) = tls.statuses.get(tls.certificates.len()) {
        let why = "there is no certificate for this response: give as many --ssl-cert FILE, in the same order";
        found.add("ssl-ocsp", status.display().to_string(), why, ENCRYPTION);
    }
    acme::choose_challenge(settings, found);
    let offers = settings.listen.iter().filter_map(|address| Some((Some(address), settings.offer_of(address)?)));
    let offers: Vec<_> = offers.chain(settings.default_offer().map(|offer| (None, offer))).collect();
    for (address, offer) in &offers {
        let why = match () {
            () if offer.files.is_empty() => NEEDED,
            () if offer.options.clients != Verify::None && offer.authorities.is_none() => VOUCHING,
            () => continue,
        };
        // That the server has no certificate at all is a mistake of its own.
        let is_default = address.is_none_or(|address| address.certificates.is_none());
        match address {
            _ if is_default && lacks_any => {}
            Some(address) => found.add("listen", address.to_string(), why, ENCRYPTION),
            None => found.add("ssl-verify-client", show_verify(offer.options.clients), why, ENCRYPTION),
        }
    }
    let asks = |(_, offer): &(_, Offer)| offer.options.clients != Verify::None;
    if settings.tls.clients != Verify::None && !offers.iter().any(asks) {
        let why = "no connection is encrypted: also give --ssl-cert FILE, or write https://HOST:PORT?cert=FILE&key=FILE";
        found.add("ssl-verify-client", show_verify(settings.tls.clients), why, ENCRYPTION);
    }
    if let Some(file) = &settings.tls.authorities
        && !offers.iter().any(asks)
    {
        let why = "no client is asked for a certificate: give --ssl-verify-client required, or optional";
        found.add("ssl-ca", file.display().to_string(), why, ENCRYPTION);
    }
}
