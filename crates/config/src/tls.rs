//! The settings of encryption for all addresses.

use super::handshakes::{Handshakes, Offer};
use oribi_tls::{CertificateFiles, Options, Suites, Verify, Version};
use std::path::PathBuf;

/// The settings of encryption.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Files with certificates, for addresses that name none.
    pub(crate) certificates: Vec<PathBuf>,
    /// Files with the keys of `certificates`, in the same order. A certificate without an entry here has its key in its own
    /// file.
    pub(crate) keys: Vec<PathBuf>,
    /// Files with OCSP responses of the authorities for the certificates, in the same order.
    pub(crate) statuses: Vec<PathBuf>,
    /// Files with certificates that this server orders, each with its key.
    pub(crate) ordered: Vec<PathBuf>,
    /// The user's choice for addresses without a scheme, if any.
    pub(crate) wanted: Option<bool>,
    /// Whether connections are encrypted at TCP addresses without a scheme, and at TCP sockets that another program has opened.
    pub(crate) by_default: bool,
    /// The oldest version of TLS.
    pub(crate) oldest: Version,
    /// The accepted cipher suites.
    pub(crate) suites: Suites,
    /// Whether clients are asked for certificates.
    pub(crate) clients: Verify,
    /// A file with the authorities that may sign certificates of clients.
    pub(crate) authorities: Option<PathBuf>,
}

impl Tls {
    /// The certificates for addresses that name none.
    #[must_use]
    pub(crate) fn files(&self) -> Vec<CertificateFiles> {
        let key = |place: usize| self.keys.get(place).unwrap_or(&self.certificates[place]).clone().into();
        let one = |(place, certificate): (usize, &PathBuf)| CertificateFiles {
            certificate: certificate.clone().into(),
            key: key(place),
            status: self.statuses.get(place).cloned(),
        };
        let given = self.certificates.iter().enumerate().map(one);
        let ordered = self.ordered.iter().map(|file| CertificateFiles {
            certificate: file.clone().into(),
            key: file.clone().into(),
            status: None,
        });
        given.chain(ordered).collect()
    }

    /// Whether there is any certificate for addresses that name none.
    pub(super) fn has_any(&self) -> bool {
        !self.certificates.is_empty() || !self.ordered.is_empty()
    }

    /// Returns the offer with these files and with the rules `said`. Rules that are `None` there are taken from the rules for
    /// all addresses.
    pub(super) fn offer(&self, files: Vec<CertificateFiles>, said: &Handshakes) -> Offer {
        let clients = said.clients.unwrap_or(self.clients);
        let authorities = said.authorities.as_ref().or(self.authorities.as_ref()).filter(|_| clients != Verify::None);
        let options = Options {
            oldest: said.oldest.unwrap_or(self.oldest),
            suites: said.suites.clone().unwrap_or_else(|| self.suites.clone()),
            clients,
        };
        Offer { files, authorities: authorities.cloned(), options }
    }
}
