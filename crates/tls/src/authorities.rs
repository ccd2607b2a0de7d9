//! The authorities that may sign the certificates of servers to which this program connects.

use crate::pem;
use rustls::pki_types::CertificateDer;
use std::path::Path;

/// The files with the certificates of trusted authorities on Debian, Fedora, SUSE and Alpine.
const SYSTEMS: [&str; 4] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"];

/// Reads the certificates of authorities from `file`, or from the system's file if it is `None`. `option` is the option by
/// which users name another file, for messages.
///
/// # Errors
/// Says which file cannot be used, and why.
pub fn trusted_authorities(file: Option<&Path>, option: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let file = match file {
        Some(file) => file,
        None => SYSTEMS.iter().map(Path::new).find(|file| file.is_file()).ok_or_else(|| {
            format!(
                "there is no file with the certificates of authorities; install your system's package ca-certificates, or name a file \
                 by {option}"
            )
        })?,
    };
    let failed = |why: String| format!("cannot use the file of authorities {}: {why}", file.display());
    let text = std::fs::read(file).map_err(|error| failed(error.to_string()))?;
    let certificates: Vec<_> = pem::certificates(&text).into_iter().filter_map(Result::ok).collect();
    if certificates.is_empty() {
        return Err(failed("there is no certificate in it".to_owned()));
    }
    Ok(certificates)
}
