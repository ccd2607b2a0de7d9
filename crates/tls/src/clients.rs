//! Certificates of clients: whether they are requested, which authorities may sign them, and the variables for apps.

use crate::distinguished_name::distinguished_name;
use crate::outline::Outline;
use crate::pem;
use crate::validity::Validity;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoClientAuth, WebPkiClientVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};
use std::sync::Arc;

/// Whether clients are asked for certificates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// No certificate is requested.
    #[default]
    None,
    /// A certificate is requested. A client that shows a bad one is refused.
    Optional,
    /// A certificate is required.
    Required,
}

/// The most bytes of a chain: apps get the first certificate with each request, and tickets contain the whole chain.
const LARGEST_CHAIN: usize = 16 << 10;

/// The longest name as text, in bytes.
const LONGEST_NAME: usize = 4 << 10;

impl Verify {
    /// The rules under which a session of this listener may be resumed, as bytes.
    pub(crate) fn context(self, authorities: Option<&(String, Vec<u8>)>) -> Vec<u8> {
        let authorities = authorities.filter(|_| self != Self::None).map_or(&[][..], |(_, bytes)| bytes);
        [&[self as u8], authorities].concat()
    }
}

/// Parses the certificates of the authorities for clients.
///
/// # Errors
/// Says why the file cannot be used.
pub(crate) fn authorities(file: &str, bytes: &[u8]) -> Result<Arc<RootCertStore>, String> {
    let wrong = |why: &str| format!("cannot use the authorities in {file}: {why}");
    let mut store = RootCertStore::empty();
    for certificate in pem::certificates(bytes) {
        let certificate = certificate.map_err(|why| wrong(&why))?;
        store.add(certificate).map_err(|error| wrong(&format!("a certificate cannot be understood ({error})")))?;
    }
    if store.is_empty() {
        return Err(wrong("there is no certificate in this file; it must have lines that say BEGIN CERTIFICATE (PEM)"));
    }
    Ok(Arc::new(store))
}

/// The verifier of certificates of clients.
pub(crate) fn verifier(
    verify: Verify,
    authorities: Option<Arc<RootCertStore>>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, Error> {
    let Some(authorities) = authorities.filter(|_| verify != Verify::None) else { return Ok(Arc::new(NoClientAuth)) };
    let builder = WebPkiClientVerifier::builder_with_provider(authorities, provider.clone());
    let builder = if verify == Verify::Optional { builder.allow_unauthenticated() } else { builder };
    let chains = builder.build().map_err(|error| Error::General(error.to_string()))?;
    Ok(Arc::new(Judge { chains }))
}

/// Refuses chains and names that are too large for apps; webpki does the rest.
#[derive(Debug)]
struct Judge {
    chains: Arc<dyn ClientCertVerifier>,
}

impl ClientCertVerifier for Judge {
    fn client_auth_mandatory(&self) -> bool {
        self.chains.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chains.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let size = intermediates.iter().fold(end_entity.len(), |size, next| size + next.len());
        if size > LARGEST_CHAIN || Names::of(end_entity).is_none() {
            return Err(Error::InvalidCertificate(CertificateError::BadEncoding));
        }
        self.chains.verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}

/// Whether a certificate is no longer valid at `now`. One without an end counts as expired.
pub(crate) fn has_expired(certificate: &[u8], now: UnixTime) -> bool {
    Validity::of(certificate).is_none_or(|validity| now.as_secs() > validity.end)
}

/// The reason of a refusal, for the log.
pub(crate) fn words(error: &CertificateError) -> String {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "it has expired".to_owned(),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => "it is not valid yet".to_owned(),
        CertificateError::UnknownIssuer => "no trusted authority has signed it".to_owned(),
        CertificateError::BadEncoding => "it cannot be understood, or it is too large".to_owned(),
        other => format!("{other:?}"),
    }
}

/// The parts of a certificate that apps get as variables.
struct Names {
    subject: String,
    issuer: String,
    serial: String,
}

impl Names {
    /// `None` if a name or number is too long, or the certificate makes no sense.
    fn of(certificate: &[u8]) -> Option<Self> {
        let outline = Outline::of(certificate)?;
        let name = |bytes| distinguished_name(bytes).filter(|text| text.len() <= LONGEST_NAME);
        let serial = match outline.serial {
            // The first byte is the sign.
            [0, rest @ ..] if !rest.is_empty() => rest,
            all => all,
        };
        // RFC 5280, section 4.1.2.2: at most 20 bytes. Some have more.
        if serial.is_empty() || serial.len() > 64 {
            return None;
        }
        let serial = serial.iter().map(|byte| format!("{byte:02X}")).collect();
        Some(Self { subject: name(outline.subject)?, issuer: name(outline.issuer)?, serial })
    }
}

/// Adds the variables about the certificate of a client that was asked for one.
pub(crate) fn describe(certificate: Option<&CertificateDer<'_>>, mut add: impl FnMut(&str, &str)) {
    let Some((certificate, names)) = certificate.and_then(|certificate| Some((certificate, Names::of(certificate)?))) else {
        return add("SSL_CLIENT_VERIFY", "NONE");
    };
    add("SSL_CLIENT_VERIFY", "SUCCESS");
    add("SSL_CLIENT_S_DN", &names.subject);
    add("SSL_CLIENT_I_DN", &names.issuer);
    add("SSL_CLIENT_M_SERIAL", &names.serial);
    add("SSL_CLIENT_CERT", &pem::encode(pem::CERTIFICATE, certificate));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::der::{INTEGER, SEQUENCE, UTC_TIME, encode};

    #[test]
    fn a_certificate_expires_behind_its_last_second() {
        // The beginning of a certificate, up to its times.
        let [serial, empty] = [encode(INTEGER, &[&[7]]), encode(SEQUENCE, &[])];
        let [start, end] = [b"260101000000Z", b"260201000000Z"].map(|time| encode(UTC_TIME, &[time]));
        let times = encode(SEQUENCE, &[&start, &end]);
        let certificate = encode(SEQUENCE, &[&encode(SEQUENCE, &[&serial, &empty, &empty, &times, &empty])]);
        let end = 1_769_904_000;
        for (now, expected) in [(end - 1, false), (end, false), (end + 1, true)] {
            let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(now));
            assert_eq!(has_expired(&certificate, now), expected);
            assert!(has_expired(&certificate[..9], now));
        }
    }

    #[test]
    fn sessions_of_other_rules_are_apart() {
        let (one, other) = (("a".to_owned(), b"a".to_vec()), ("b".to_owned(), b"b".to_vec()));
        let all = [
            Verify::None.context(None),
            Verify::Optional.context(Some(&one)),
            Verify::Required.context(Some(&one)),
            Verify::Required.context(Some(&other)),
        ];
        for (place, context) in all.iter().enumerate() {
            assert_eq!(all.iter().position(|other| other == context), Some(place));
        }
        assert_eq!(Verify::None.context(None), Verify::None.context(Some(&one)), "nobody is asked");
    }
}
