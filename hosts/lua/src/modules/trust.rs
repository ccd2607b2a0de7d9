//! The settings of TLS for sockets of scripts: the authorities that are trusted, and whether certificates are verified at all.

use oribi_tls::trusted_authorities;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring::default_provider};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The most files of authorities whose certificates are kept.
const FILES: usize = 16;

/// The variable that names another file of authorities than the system's, as for OpenSSL.
const VARIABLE: &str = "SSL_CERT_FILE";

/// The demands on a server's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trust {
    /// Whether the server's certificate is verified.
    pub(super) verify: bool,
    /// The file of authorities; `None` for that of `SSL_CERT_FILE` or the system.
    pub(super) file: Option<PathBuf>,
}

/// The file as it was when it was read: another one has another number, size or time.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Version(u64, u64, i64, i64);

impl Version {
    fn of(file: &Path) -> Option<Self> {
        let found = fs::metadata(file).ok()?;
        Some(Self(found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
    }
}

type Kept = (Trust, Option<Version>, Arc<ClientConfig>);

/// The settings of this process. Sessions are resumed only within one of them.
static SETTINGS: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

/// Returns the settings for connections with this trust.
///
/// # Errors
/// Says which file of authorities cannot be used, and why.
pub(super) fn settings(trust: &Trust) -> Result<Arc<ClientConfig>, String> {
    let own = trust.file.clone().or_else(|| std::env::var_os(VARIABLE).filter(|name| !name.is_empty()).map(PathBuf::from));
    let trust = Trust { verify: trust.verify, file: own.filter(|_| trust.verify) };
    let version = trust.file.as_deref().and_then(Version::of);
    let mut settings = SETTINGS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(at) = settings.iter().position(|kept| kept.0 == trust) {
        if settings[at].1 == version {
            return Ok(Arc::clone(&settings[at].2));
        }
        settings.remove(at);
    }
    let made = Arc::new(make(&trust)?);
    if settings.len() >= FILES {
        settings.remove(0);
    }
    settings.push((trust, version, Arc::clone(&made)));
    Ok(made)
}

fn make(trust: &Trust) -> Result<ClientConfig, String> {
    let provider = Arc::new(default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    if !trust.verify {
        let anyone = Arc::new(Anyone(provider));
        return Ok(builder.dangerous().with_custom_certificate_verifier(anyone).with_no_client_auth());
    }
    let mut store = RootCertStore::empty();
    // A system's file may contain certificates that rustls does not accept.
    store.add_parsable_certificates(trusted_authorities(trust.file.as_deref(), VARIABLE)?);
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider)
        .build()
        .map_err(|error| format!("cannot use the authorities: {error}"))?;
    Ok(builder.with_webpki_verifier(verifier).with_no_client_auth())
}

/// Accepts any certificate of a server that has its key.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
