//! Checks the certificates in files, with messages about faulty files, and chooses one of them in a handshake.

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
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The certificates of a listener, by name.
#[derive(Debug, Default)]
pub(crate) struct Certificates {
    all: Vec<Arc<Certificate>>,
    /// The indices in `all` for each name, in lower case; `*.example.org` for a wildcard.
    by_name: BTreeMap<String, Vec<usize>>,
    /// The authorities for certificates of clients.
    pub(crate) authorities: Option<Arc<RootCertStore>>,
}

/// The server that a connection is for.
#[derive(Debug)]
pub(crate) struct Aim {
    /// The name that the client has sent (SNI).
    name: Box<str>,
    /// The index of the certificate that the client got.
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
    /// Parses and checks the content of the files.
    ///
    /// # Errors
    /// Says which file is faulty, and why.
    pub(crate) fn of(material: &Material) -> Result<Self, String> {
        Self::default().renewed(&Material::default(), material)
    }

    /// Parses and checks files that were read again, except those whose content is the same in `known`, from which `self` was
    /// made: an edge does this between two requests, and often only one of many certificates has changed, or none.
    ///
    /// # Errors
    /// Says which file is faulty, and why.
    pub(crate) fn renewed(&self, known: &Material, material: &Material) -> Result<Self, String> {
        let places: HashMap<&str, usize> =
            known.identities.iter().enumerate().map(|(place, pair)| (&*pair.certificate, place)).collect();
        let parsed = |pair: &Pair| {
            let place = *places.get(&*pair.certificate)?;
            if known.identities[place] == *pair { self.all.get(place).cloned() } else { None }
        };
        let one = |pair: &Pair| match parsed(pair) {
            Some(certificate) => Ok(certificate),
            None => Certificate::of(pair).map(Arc::new),
        };
        let all: Vec<_> = material.identities.iter().map(one).collect::<Result<_, _>>()?;
        if all.is_empty() {
            return Err("there is no certificate".to_owned());
        }
        let mut by_name: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (place, certificate) in all.iter().enumerate() {
            for name in &certificate.names {
                by_name.entry(name.clone()).or_default().push(place);
            }
        }
        let authorities = if material.authorities == known.authorities {
            self.authorities.clone()
        } else {
            material.authorities.as_ref().map(|(file, bytes)| authorities(file, bytes)).transpose()?
        };
        Ok(Self { all, by_name, authorities })
    }

    /// Returns the index of the certificate for a client. Of the certificates for the requested name, it is the first whose key
    /// the client supports. If there is none, or if the client sends no name, it is the first of all whose key the client
    /// supports. If the client supports none of the keys, it is the first of all: the handshake then fails as RFC 8446, section
    /// 4.1.1, and RFC 5246, section 7.4.1.3, demand, and not with access_denied. `None` without any certificate.
    pub(crate) fn choose(&self, hello: &ClientHello<'_>) -> Option<usize> {
        let fits = |place: &usize| {
            let certificate = &self.all[*place].certified;
            certificate.key.choose_scheme(hello.signature_schemes()).is_some()
        };
        let named = hello.server_name().map(|name| self.places(name)).unwrap_or_default();
        let understood = named.iter().copied().find(fits).or_else(|| (0..self.all.len()).find(fits));
        understood.or((!self.all.is_empty()).then_some(0))
    }

    /// The certificate with this index.
    pub(crate) fn at(&self, place: usize) -> Arc<CertifiedKey> {
        self.all[place].certified.clone()
    }

    /// The aim of a connection whose client has sent `name` and got the certificate at `place`. `None` if there is only one
    /// certificate, so the connection is for any server.
    pub(crate) fn aim(&self, name: &str, place: usize) -> Option<Aim> {
        (self.all.len() > 1).then(|| Aim { name: name.into(), place })
    }

    /// Whether a client on a connection for `aim` requests a host that has another certificate. Such a client does not check
    /// names, or has mixed up its connections (RFC 9110, section 7.4). The app decides about hosts without a certificate.
    pub(crate) fn is_misdirected(&self, aim: &Aim, authority: &[u8]) -> bool {
        let Ok(authority) = std::str::from_utf8(authority) else { return false };
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
        let host = host.strip_suffix('.').unwrap_or(host);
        if host.eq_ignore_ascii_case(&aim.name) {
            return false;
        }
        !self.places(host).is_empty() && !self.all[aim.place].is_for(host)
    }

    /// The indices of the certificates for `name`.
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
            // In the traditional form, a line of the section says that the key is encrypted.
            PemError::NoItemsFound | PemError::Base64Decode(_) if contains(&pair.key_bytes, b"ENCRYPTED") => refused(
                "it is encrypted, and the server cannot ask for its passphrase; decrypt it: openssl pkey -in KEY -out NEWKEY",
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

    /// Whether the certificate is for this host, by name or by wildcard.
    fn is_for(&self, host: &str) -> bool {
        let rest = host.split_once('.').map(|(_, rest)| rest);
        self.names.iter().any(|name| {
            let under = name.strip_prefix("*.");
            name.eq_ignore_ascii_case(host) || under.zip(rest).is_some_and(|(under, rest)| under.eq_ignore_ascii_case(rest))
        })
    }

    /// A warning for the operator; `None` if nothing is wrong.
    fn trouble(&self, now: u64) -> Option<String> {
        const WEEK: u64 = 7 * 24 * 3600;
        let validity = self.validity?;
        // A certificate that is valid for days is usually renewed when a third of that time is left. The warning comes only if
        // that has not happened.
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
    /// Warnings for the operator, about certificates that have expired or will soon.
    pub(crate) fn troubles(&self) -> Vec<String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
        self.all.iter().filter_map(|certificate| certificate.trouble(now)).collect()
    }
}

impl Certificates {
    /// The first name of each certificate, or the name of its file if it has none, and the end of its validity.
    pub(crate) fn expiries(&self) -> Vec<(String, u64)> {
        let name = |certificate: &Certificate| {
            let file = || Path::new(&certificate.file).file_name().map(|name| name.to_string_lossy().into_owned());
            certificate.names.first().cloned().or_else(file).unwrap_or_default()
        };
        let one = |certificate: &Arc<Certificate>| Some((name(certificate), certificate.validity?.end));
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

/// Returns an OCSP response to be stapled, if it is a successful one (RFC 6960, section 4.2.1). Clients check its content.
fn status(bytes: &[u8]) -> Result<Vec<u8>, &'static str> {
    const SUCCESSFUL: &[u8] = &[0x0a, 1, 0];
    let (answer, behind) = expect(SEQUENCE, bytes).ok_or("it is not an OCSP response in DER (openssl ocsp -respout FILE)")?;
    if !behind.is_empty() {
        return Err("something follows the response");
    }
    if !answer.starts_with(SUCCESSFUL) {
        return Err("the authority has answered with an error instead of a status");
    }
    Ok(bytes.to_vec())
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests;
