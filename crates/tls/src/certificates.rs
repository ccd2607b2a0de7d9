//! Certificates: from their files to what a handshake chooses from, with messages that say what is wrong with a file.

use crate::clients::authorities;
use crate::der::{SEQUENCE, expect};
use crate::material::{Material, Pair};
use crate::pem;
use crate::validity::Validity;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::Error as PemError;
use rustls::server::ClientHello;
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys, RootCertStore};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Certificates by the names that they are for.
#[derive(Debug, Default)]
pub(crate) struct Certificates {
    all: Vec<Certificate>,
    /// The places in `all` for each name, in lower case; `*.example.org` for a wildcard.
    by_name: BTreeMap<String, Vec<usize>>,
    /// Who may vouch for clients.
    pub(crate) authorities: Option<Arc<RootCertStore>>,
}

/// What a connection is for.
#[derive(Debug)]
pub(crate) struct Aim {
    /// The server that the client has named (SNI).
    name: Box<str>,
    /// The place of the certificate that the client was shown.
    place: usize,
}

#[derive(Debug)]
pub(crate) struct Certificate {
    pub(crate) certified: Arc<CertifiedKey>,
    pub(crate) names: Vec<String>,
    pub(crate) validity: Option<Validity>,
    file: String,
}

impl Certificates {
    /// Parses and checks what was read.
    ///
    /// # Errors
    /// Says what is wrong, and with which file.
    pub(crate) fn of(material: &Material) -> Result<Self, String> {
        let all: Vec<_> = material.identities.iter().map(Certificate::of).collect::<Result<_, _>>()?;
        if all.is_empty() {
            return Err("there is no certificate".to_owned());
        }
        let mut by_name: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (place, certificate) in all.iter().enumerate() {
            for name in &certificate.names {
                by_name.entry(name.clone()).or_default().push(place);
            }
        }
        let authorities = material.authorities.as_ref().map(|(file, bytes)| authorities(file, bytes)).transpose()?;
        Ok(Self { all, by_name, authorities })
    }

    /// The place of the certificate for a client: the first that is for the name that it asks for, and whose key it understands. If
    /// none is for this name, or the client names none, the first that it understands. If it understands none, the first of all: then
    /// the handshake fails as RFC 8446, section 4.1.1, and RFC 5246, section 7.4.1.3, want it, and not with an alert that speaks of
    /// rights. `None`: there is no certificate.
    pub(crate) fn choose(&self, hello: &ClientHello<'_>) -> Option<usize> {
        let fits = |place: &usize| {
            let certificate = &self.all[*place].certified;
            certificate.key.choose_scheme(hello.signature_schemes()).is_some()
        };
        let named = hello.server_name().map(|name| self.places(name)).unwrap_or_default();
        let understood = named.iter().copied().find(fits).or_else(|| (0..self.all.len()).find(fits));
        understood.or((!self.all.is_empty()).then_some(0))
    }

    /// The certificate at a place.
    pub(crate) fn at(&self, place: usize) -> Arc<CertifiedKey> {
        self.all[place].certified.clone()
    }

    /// What a connection is for whose client has named a server, and was shown the certificate at a place. `None`: for any server,
    /// since there is no other certificate.
    pub(crate) fn aim(&self, name: &str, place: usize) -> Option<Aim> {
        (self.all.len() > 1).then(|| Aim { name: name.into(), place })
    }

    /// Whether a client with a connection for `aim` asks there for a host of another certificate: it has shown that it does not
    /// look whom it speaks to, or it has mixed up its connections (RFC 9110, section 7.4). Hosts without any certificate are left to
    /// the app.
    pub(crate) fn is_misdirected(&self, aim: &Aim, authority: &[u8]) -> bool {
        let Ok(authority) = std::str::from_utf8(authority) else { return false };
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
        let host = host.strip_suffix('.').unwrap_or(host);
        if host.eq_ignore_ascii_case(&aim.name) {
            return false;
        }
        !self.places(host).is_empty() && !self.all[aim.place].is_for(host)
    }

    /// The places of the certificates for `name`.
    fn places(&self, name: &str) -> &[usize] {
        let name = name.to_ascii_lowercase();
        let wildcard = || name.split_once('.').and_then(|(_, rest)| self.by_name.get(&format!("*.{rest}")));
        self.by_name.get(&name).or_else(wildcard).map_or(&[], Vec::as_slice)
    }
}

impl Certificate {
    pub(crate) fn of(pair: &Pair) -> Result<Self, String> {
        let wrong = |why: &str| format!("cannot use the certificate {}: {why}", pair.certificate);
        let chain: Vec<CertificateDer<'static>> =
            pem::certificates(&pair.certificate_bytes).into_iter().collect::<Result<_, _>>().map_err(|why| wrong(&why))?;
        let Some(first) = chain.first() else {
            return Err(wrong("there is no certificate in this file; it must have lines that say BEGIN CERTIFICATE (PEM)"));
        };
        let parsed =
            webpki::EndEntityCert::try_from(first).map_err(|error| wrong(&format!("it cannot be understood ({error})")))?;
        let names = parsed.valid_dns_names().map(str::to_ascii_lowercase).collect();
        let validity = Validity::of(first);
        let refused = |why: &str| format!("cannot use the key {}: {why}", pair.key);
        let key = pem::private_key(&pair.key_bytes).map_err(|error| match error {
            // In the traditional form, a line of the section says so.
            PemError::NoItemsFound | PemError::Base64Decode(_) if contains(&pair.key_bytes, b"ENCRYPTED") => refused(
                "it is encrypted, and nobody is there to give its passphrase when the server starts; decrypt it: \
                 openssl pkey -in KEY -out NEWKEY",
            ),
            PemError::NoItemsFound => {
                refused("there is no private key in this file; it must have lines that say BEGIN PRIVATE KEY (PEM)")
            }
            error => refused(&pem::of_pem(&error)),
        })?;
        let key = rustls::crypto::ring::sign::any_supported_type(&key)
            .map_err(|_| refused("its kind is not known; RSA from 2048 bits, ECDSA P-256 and P-384, and Ed25519 are"))?;
        let mut certified = CertifiedKey::new(chain.clone(), key);
        match certified.keys_match() {
            Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => {}
            Err(_) => return Err(refused(&format!("it does not belong to the certificate {}", pair.certificate))),
        }
        if !pair.status.is_empty() {
            certified.ocsp =
                Some(status(&pair.status_bytes).map_err(|why| format!("cannot use the OCSP response {}: {why}", pair.status))?);
        }
        Ok(Self { certified: Arc::new(certified), names, validity, file: pair.certificate.clone() })
    }

    /// Whether it is for this host, by name or by a wildcard.
    fn is_for(&self, host: &str) -> bool {
        let rest = host.split_once('.').map(|(_, rest)| rest);
        self.names.iter().any(|name| {
            let under = name.strip_prefix("*.");
            name.eq_ignore_ascii_case(host) || under.zip(rest).is_some_and(|(under, rest)| under.eq_ignore_ascii_case(rest))
        })
    }

    /// What an operator should know of it; `None`: nothing is wrong.
    fn trouble(&self, now: u64) -> Option<String> {
        const WEEK: u64 = 7 * 24 * 3600;
        let validity = self.validity?;
        // Those who renew certificates that live for days do so when a third of that is left.
        let soon = WEEK.min(validity.end.saturating_sub(validity.start) / 4);
        if now >= validity.end {
            Some(format!("the certificate {} has expired: clients will refuse it", self.file))
        } else if now < validity.start {
            Some(format!("the certificate {} is not valid yet: clients will refuse it", self.file))
        } else if validity.end - now < soon {
            Some(format!("the certificate {} expires within {} hours", self.file, (validity.end - now).div_ceil(3600)))
        } else {
            None
        }
    }
}

impl Certificates {
    /// What an operator should know of them: those that have expired, or will soon.
    pub(crate) fn troubles(&self) -> Vec<String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
        self.all.iter().filter_map(|certificate| certificate.trouble(now)).collect()
    }
}

impl Certificates {
    /// The first name of each certificate, and when it ends.
    pub(crate) fn expiries(&self) -> Vec<(String, u64)> {
        let name = |certificate: &Certificate| {
            let file = || Path::new(&certificate.file).file_name().map(|name| name.to_string_lossy().into_owned());
            certificate.names.first().cloned().or_else(file).unwrap_or_default()
        };
        let one = |certificate: &Certificate| Some((name(certificate), certificate.validity?.end));
        self.all.iter().filter_map(one).collect()
    }
}

impl fmt::Display for Certificates {
    /// `www.example.org, example.org (until 2027-01-31); *.example.com (until 2027-02-28)`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, certificate) in self.all.iter().enumerate() {
            let between = if number > 0 { "; " } else { "" };
            let names = if certificate.names.is_empty() { "no name".to_owned() } else { certificate.names.join(", ") };
            write!(formatter, "{between}{names}")?;
            if let Some(validity) = certificate.validity {
                write!(formatter, " (until {})", validity.last_day())?;
            }
        }
        Ok(())
    }
}

/// What is stapled to a certificate, if it is an answer that helps (RFC 6960, section 4.2.1). Clients check what it says.
fn status(bytes: &[u8]) -> Result<Vec<u8>, &'static str> {
    const SUCCESSFUL: &[u8] = &[0x0a, 1, 0];
    let (answer, behind) = expect(SEQUENCE, bytes).ok_or("it is no OCSP response in DER, as of openssl ocsp -respout FILE")?;
    if !behind.is_empty() {
        return Err("there is something behind the response");
    }
    if !answer.starts_with(SUCCESSFUL) {
        return Err("the authority has answered with an error in place of a status");
    }
    Ok(bytes.to_vec())
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests;
