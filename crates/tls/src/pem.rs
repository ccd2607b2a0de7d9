//! Reads and writes certificates and keys in PEM (RFC 7468), binary documents as text. Accepts the same texts as OpenSSL.
//! Messages about faults quote nothing of a file: it may hold a key.

use crate::der::element;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::borrow::Cow;

/// The byte order mark of UTF-8. Some editors write it in front of a text; in a concatenated file it is also in the middle.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Labels of certificates: the label of `openssl x509 -trustout`, which appends trust settings to the certificate; an old
/// label; the usual label.
const TRUSTED: &[u8] = b"TRUSTED CERTIFICATE-----";
const OLD: &[u8] = b"X509 CERTIFICATE-----";
const USUAL: &[u8] = b"CERTIFICATE-----";

/// Letters in a line.
const LINE: usize = 64;

/// The label of a certificate.
pub const CERTIFICATE: &str = "CERTIFICATE";
/// The label of a private key (PKCS #8).
pub const PRIVATE_KEY: &str = "PRIVATE KEY";

/// Encodes `document` under this label.
#[must_use]
pub fn encode(label: &str, document: &[u8]) -> String {
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

/// The certificates in a text, or the fault of each, as a description that quotes nothing of the text.
pub fn certificates(text: &[u8]) -> Vec<Result<CertificateDer<'static>, String>> {
    let text = plain(text);
    let all = CertificateDer::pem_slice_iter(&text);
    all.map(|read| read.map(without_trust).map_err(|error| of_pem(&error))).collect()
}

/// The first private key in a text.
pub(crate) fn private_key(text: &[u8]) -> Result<PrivateKeyDer<'static>, pem::Error> {
    PrivateKeyDer::from_pem_slice(&plain(text))
}

/// Describes the fault of a text.
pub(crate) fn of_pem(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { .. } => "a line that says END is missing: the file was cut off".to_owned(),
        pem::Error::IllegalSectionStart { .. } => {
            "it is not a PEM file: on a line that says BEGIN nothing may follow the five hyphens".to_owned()
        }
        pem::Error::Base64Decode(_) => "it is not a PEM file: the text between BEGIN and END is not base64".to_owned(),
        _ => "it is not a PEM file".to_owned(),
    }
}

/// The text in the form that rustls parses: without byte order marks, and with the usual labels.
fn plain(text: &[u8]) -> Cow<'_, [u8]> {
    let mut plain = Cow::Borrowed(text);
    for (unusual, usual) in [(BYTE_ORDER_MARK, &b""[..]), (TRUSTED, USUAL), (OLD, USUAL)] {
        if plain.windows(unusual.len()).any(|bytes| bytes == unusual) {
            plain = Cow::Owned(replaced(&plain, unusual, usual));
        }
    }
    plain
}

fn replaced(mut text: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut all = Vec::with_capacity(text.len());
    while let Some(place) = text.windows(old.len()).position(|bytes| bytes == old) {
        all.extend_from_slice(&text[..place]);
        all.extend_from_slice(new);
        text = &text[place + old.len()..];
    }
    all.extend_from_slice(text);
    all
}

/// The certificate without the trust settings after it.
fn without_trust(certificate: CertificateDer<'static>) -> CertificateDer<'static> {
    let Some((_, _, behind)) = element(&certificate) else { return certificate };
    let size = certificate.len() - behind.len();
    if behind.is_empty() { certificate } else { certificate[..size].to_vec().into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::PrivatePkcs8KeyDer;

    fn pem(label: &str, base64: &str) -> String {
        format!("-----BEGIN {label}-----\n{base64}\n-----END {label}-----\n")
    }

    fn read(text: &str) -> Vec<Vec<u8>> {
        certificates(text.as_bytes()).into_iter().map(|read| read.expect("a certificate").to_vec()).collect()
    }

    #[test]
    fn certificates_are_found_in_every_form() {
        // A sequence of one number represents a certificate here; another one follows it.
        let (alone, followed) = ("MAMCAQE=", "MAMCAQEwAwIBAg==");
        let certificate = vec![0x30, 3, 2, 1, 1];
        for label in ["CERTIFICATE", "TRUSTED CERTIFICATE", "X509 CERTIFICATE"] {
            assert_eq!(read(&pem(label, alone)), [&certificate[..]], "{label}");
            assert_eq!(read(&format!("\u{feff}{}", pem(label, alone))), [&certificate[..]], "{label} behind a mark");
        }
        assert_eq!(read(&pem("TRUSTED CERTIFICATE", followed)), [&certificate[..]]);
        let both = format!("{}\u{feff}{}", pem("CERTIFICATE", alone), pem("TRUSTED CERTIFICATE", followed));
        assert_eq!(read(&both), [&certificate[..], &certificate]);
        assert!(private_key(format!("\u{feff}{}", pem("PRIVATE KEY", alone)).as_bytes()).is_ok());
    }

    #[test]
    fn what_is_written_is_read() {
        for size in [1, 2, 3, 47, 48, 49, 95, 96, 1000] {
            let document: Vec<u8> = (0..size).map(|place| (place * 37 + 200) as u8).collect();
            let text = encode(PRIVATE_KEY, &document);
            assert!(text.lines().all(|line| line.len() <= LINE), "{text}");
            let key = PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes()).expect("it is PEM");
            assert_eq!(key.secret_pkcs8_der(), document);
            let text = encode(CERTIFICATE, &document);
            let certificate = CertificateDer::from_pem_slice(text.as_bytes()).expect("it is PEM");
            assert_eq!(certificate.as_ref(), document);
        }
    }

    #[test]
    fn lines_have_64_letters() {
        let line = format!("{}\n", "AAAA".repeat(16));
        for (size, letters) in [(0, String::new()), (1, "AA==\n".to_owned()), (48, line.clone()), (49, line + "AA==\n")] {
            let expected = format!("-----BEGIN A B-----\n{letters}-----END A B-----\n");
            assert_eq!(encode("A B", &vec![0; size]), expected);
        }
    }

    #[test]
    fn nothing_of_a_key_is_quoted() {
        let secret = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC";
        for text in [
            format!("-----BEGIN PRIVATE KEY----- {secret}"),
            format!("-----BEGIN PRIVATE KEY-----{secret}-----END PRIVATE KEY-----"),
            format!("-----BEGIN PRIVATE KEY-----\n{secret}"),
            format!("-----BEGIN PRIVATE KEY-----\n{secret}?\n-----END PRIVATE KEY-----\n"),
            secret.to_owned(),
        ] {
            let error = private_key(text.as_bytes()).expect_err("it is no key");
            let said = of_pem(&error);
            assert!((4..secret.len()).all(|end| !said.contains(&secret[end - 4..end])), "{said}");
        }
    }
}
