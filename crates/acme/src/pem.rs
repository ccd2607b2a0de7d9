//! Writes PEM (RFC 7468): binary documents as text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Letters in a line.
const LINE: usize = 64;

pub(crate) const CERTIFICATE: &str = "CERTIFICATE";
pub(crate) const PRIVATE_KEY: &str = "PRIVATE KEY";

/// Encodes `document` under this label.
pub(crate) fn encode(label: &str, document: &[u8]) -> String {
    let letters = STANDARD.encode(document);
    let mut text = format!("-----BEGIN {label}-----\n");
    let mut rest = letters.as_str();
    while !rest.is_empty() {
        let (line, behind) = rest.split_at(rest.len().min(LINE));
        text.push_str(line);
        text.push('\n');
        rest = behind;
    }
    text + "-----END " + label + "-----\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::PrivatePkcs8KeyDer;
    use rustls::pki_types::pem::PemObject;

    #[test]
    fn what_is_written_is_read() {
        for size in [1, 47, 48, 49, 96, 1000] {
            let document: Vec<u8> = (0..size).map(|byte| byte as u8).collect();
            let text = encode(PRIVATE_KEY, &document);
            assert!(text.lines().all(|line| line.len() <= LINE), "{text}");
            let read = PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes()).expect("it is PEM");
            assert_eq!(read.secret_pkcs8_der(), document);
        }
    }
}
