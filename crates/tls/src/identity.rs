//! The properties of a file with a certificate and its key.

use crate::certificates::Certificate;
use crate::material::Pair;
use crate::outline::Outline;
use crate::validity::Validity;

/// A certificate with its key, from one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The names of the certificate, in lower case.
    pub names: Vec<String>,
    /// The time from which it is valid, in seconds since the Unix epoch.
    pub start: u64,
    /// The time until which it is valid, in seconds since the Unix epoch.
    pub end: u64,
    /// Whether the certificate has the same name as issuer and as subject, so that no authority has signed it. The signature is
    /// not checked.
    pub is_self_signed: bool,
}

impl Identity {
    /// Parses the content of `file`.
    ///
    /// # Errors
    /// Says why no listener could offer this certificate.
    pub fn of(file: &str, content: &[u8]) -> Result<Self, String> {
        let bytes = content.to_vec();
        let pair = Pair {
            certificate: file.to_owned(),
            key: file.to_owned(),
            certificate_bytes: bytes.clone(),
            key_bytes: bytes,
            status: String::new(),
            status_bytes: Vec::new(),
        };
        let certificate = Certificate::of(&pair)?;
        let unclear = || format!("cannot use the certificate {file}: it does not say until when it is valid");
        let first = certificate.certified.cert.first().ok_or_else(unclear)?;
        let outline = Outline::of(first).ok_or_else(unclear)?;
        let Validity { start, end } = certificate.validity.ok_or_else(unclear)?;
        Ok(Self { names: certificate.names, start, end, is_self_signed: outline.issuer == outline.subject })
    }

    /// The last day on which it is valid, in UTC.
    #[must_use]
    pub fn last_day(&self) -> String {
        Validity { start: self.start, end: self.end }.last_day()
    }
}
