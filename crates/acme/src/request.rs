//! Documents that are signed with the key of a certificate: the request for the certificate, the placeholder that clients get
//! until the certificate is issued, and the proof that an authority sees in a TLS handshake.

use crate::settings::Names;
use oribi_tls::der::{
    BOOLEAN, GENERALIZED_TIME, IDENTIFIER, INTEGER, OCTETS, SEQUENCE, SET, TEXT, UTC_TIME, encode, encode_bits, numbered,
};
use oribi_tls::pem::{self, CERTIFICATE, PRIVATE_KEY};
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Object identifiers in their DER encoding, by RFC 5480, section 2.1.1; RFC 5758, section 3.2; RFC 2985, section 5.4.2; RFC
/// 5280, section 4.2.1.6, and appendix A.1; RFC 8737, section 6.1.
const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const P_256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const ECDSA_WITH_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
const EXTENSION_REQUEST: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x0e];
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ACME_IDENTIFIER: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x01, 0x1f];

/// The tag of a host among the alternative names (dNSName).
const HOST: u8 = 0x82;

const NO_RANDOM: &str = "the system has no random numbers for a key";

/// Generates the key of a certificate, in PEM.
pub(crate) fn generate_key() -> Result<String, String> {
    Ok(Key::generate()?.pem)
}

/// Returns the first key in a text, in PEM. `None` if it is not a key for a certificate.
pub(crate) fn key_of(text: &str) -> Option<String> {
    Some(Key::of_text(text)?.pem)
}

/// Returns a request for a certificate for `names` (RFC 2986), in DER. `key` is the key of the certificate, in PEM.
pub(crate) fn request(names: &Names, key: &str) -> Result<Vec<u8>, String> {
    let key = Key::of_text(key).ok_or("the key of the certificate is damaged")?;
    let extensions = encode(SEQUENCE, &[&alternative_names(names.all())]);
    let attribute = encode(SEQUENCE, &[&encode(IDENTIFIER, &[EXTENSION_REQUEST]), &encode(SET, &[&extensions])]);
    // The names are alternative names; the subject is empty.
    let (version, subject) = (encode(INTEGER, &[&[0]]), encode(SEQUENCE, &[]));
    let content = encode(SEQUENCE, &[&version, &subject, &key.public(), &encode(numbered(0), &[&attribute])]);
    key.sign(&content)
}

/// A self-signed certificate and its key, in PEM.
pub(crate) fn placeholder(names: &Names) -> Result<String, String> {
    self_signed("Oribi's placeholder", &[&alternative_names(names.all())])
}

/// Returns a certificate that proves to an authority that this server controls `name` (RFC 8737, section 3), and the key of
/// this certificate, in PEM. `authorization` is the key authorization of the challenge.
pub(crate) fn proof(name: &str, authorization: &str) -> Result<String, String> {
    let digest = digest(&SHA256, authorization.as_bytes());
    let critical = encode(BOOLEAN, &[&[0xff]]);
    let content = encode(OCTETS, &[&encode(OCTETS, &[digest.as_ref()])]);
    let identifier = encode(SEQUENCE, &[&encode(IDENTIFIER, &[ACME_IDENTIFIER]), &critical, &content]);
    self_signed("Oribi's proof", &[&alternative_names(&[name.to_owned()]), &identifier])
}

/// Returns a certificate that is signed with its own key, and that key, in PEM.
fn self_signed(name: &str, extensions: &[&[u8]]) -> Result<String, String> {
    let key = Key::generate()?;
    Ok(key.pem.clone() + &certificate(&key, [name, name], this_year() + 2, extensions)?)
}

/// Returns a certificate in PEM that ends at the beginning of the year `end`. `key` is its key and also signs it; `names` are
/// those of the issuer and the subject.
fn certificate(key: &Key, names: [&str; 2], end: u64, extensions: &[&[u8]]) -> Result<String, String> {
    let [issuer, subject] = names.map(|name| {
        let name = encode(SEQUENCE, &[&encode(IDENTIFIER, &[COMMON_NAME]), &encode(TEXT, &[name.as_bytes()])]);
        encode(SEQUENCE, &[&encode(SET, &[&name])])
    });
    // It began so long ago that it is due for renewal from the start.
    let times = encode(SEQUENCE, &[&new_year(1975), &new_year(end)]);
    let content = encode(
        SEQUENCE,
        &[
            // Version 3.
            &encode(numbered(0), &[&encode(INTEGER, &[&[2]])]),
            &encode(INTEGER, &[&serial_number()?]),
            &algorithm(),
            &issuer,
            &times,
            &subject,
            &key.public(),
            &encode(numbered(3), &[&encode(SEQUENCE, extensions)]),
        ],
    );
    Ok(pem::encode(CERTIFICATE, &key.sign(&content)?))
}

/// The key of a certificate.
struct Key {
    pair: EcdsaKeyPair,
    random: SystemRandom,
    pem: String,
}

impl Key {
    fn generate() -> Result<Self, String> {
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new());
        Ok(Self::of(made.map_err(|_| NO_RANDOM)?.as_ref()).ok_or(NO_RANDOM)?)
    }

    /// Reads a key from its document (PKCS #8).
    fn of(document: &[u8]) -> Option<Self> {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, document, &random).ok()?;
        Some(Self { pair, random, pem: pem::encode(PRIVATE_KEY, document) })
    }

    /// Reads a key in PEM.
    fn of_text(text: &str) -> Option<Self> {
        Self::of(PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes()).ok()?.secret_pkcs8_der())
    }

    /// SubjectPublicKeyInfo (RFC 5480, section 2).
    fn public(&self) -> Vec<u8> {
        let kind = encode(SEQUENCE, &[&encode(IDENTIFIER, &[EC_PUBLIC_KEY]), &encode(IDENTIFIER, &[P_256])]);
        encode(SEQUENCE, &[&kind, &encode_bits(self.pair.public_key().as_ref())])
    }

    /// Returns a document that consists of `content`, the algorithm and the signature of `content`.
    fn sign(&self, content: &[u8]) -> Result<Vec<u8>, String> {
        let signature = self.pair.sign(&self.random, content).map_err(|_| NO_RANDOM)?;
        Ok(encode(SEQUENCE, &[content, &algorithm(), &encode_bits(signature.as_ref())]))
    }
}

/// The algorithm of all signatures.
fn algorithm() -> Vec<u8> {
    encode(SEQUENCE, &[&encode(IDENTIFIER, &[ECDSA_WITH_SHA256])])
}

/// The extension with the names of hosts.
fn alternative_names(names: &[String]) -> Vec<u8> {
    let hosts: Vec<Vec<u8>> = names.iter().map(|name| encode(HOST, &[name.as_bytes()])).collect();
    let hosts: Vec<&[u8]> = hosts.iter().map(Vec::as_slice).collect();
    encode(SEQUENCE, &[&encode(IDENTIFIER, &[ALTERNATIVE_NAMES]), &encode(OCTETS, &[&encode(SEQUENCE, &hosts)])])
}

/// Returns a random positive number. It is long enough that no other certificate has the same number.
fn serial_number() -> Result<[u8; 16], String> {
    let mut number = ring::rand::generate::<[u8; 16]>(&SystemRandom::new()).map_err(|_| NO_RANDOM)?.expose();
    number[0] = number[0] & 0x3f | 0x40;
    Ok(number)
}

/// The first second of a year (RFC 5280, section 4.1.2.5).
fn new_year(year: u64) -> Vec<u8> {
    match year {
        1950..2050 => encode(UTC_TIME, &[format!("{:02}0101000000Z", year % 100).as_bytes()]),
        _ => encode(GENERALIZED_TIME, &[format!("{year:04}0101000000Z").as_bytes()]),
    }
}

/// Returns the current year; near its first or last day, possibly the year before or after.
fn this_year() -> u64 {
    let days = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs() / 86_400;
    1970 + days * 100 / 36_525
}

/// Returns the certificate, in PEM, that an authority for tests issues for the request with this key; it ends at the beginning
/// of the year `end`.
#[cfg(test)]
pub(crate) fn issued(names: &Names, key: &str, end: u64) -> String {
    let key = Key::of_text(key).expect("it is a key");
    certificate(&key, ["authority", names.first()], end, &[&alternative_names(names.all())]).expect("there are random numbers")
}

/// Whether a request is for a certificate with this key.
#[cfg(test)]
pub(crate) fn is_for_key(request: &[u8], key: &str) -> bool {
    let public = Key::of_text(key).expect("it is a key").public();
    request.windows(public.len()).any(|part| part == public)
}

#[cfg(test)]
mod tests {
    use super::*;
    use oribi_tls::Identity;
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    fn openssl(arguments: &[&str], input: &[u8]) -> String {
        let mut command = Command::new("openssl");
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("openssl is installed");
        child.stdin.take().expect("a pipe").write_all(input).expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    #[test]
    fn a_placeholder_is_for_its_names_and_nobody_vouches_for_it() {
        let names = Names::parse("www.example.org,example.org").expect("they are good");
        let text = placeholder(&names).expect("it is made");
        let identity = Identity::of("a file", text.as_bytes()).expect("it can be served");
        assert!(names.are(&identity.names) && identity.is_self_signed);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
        assert!(identity.end > now + 300 * 86_400 && identity.start + (identity.end - identity.start) / 3 * 2 < now);
        let told = openssl(&["x509", "-noout", "-subject", "-ext", "subjectAltName"], text.as_bytes());
        assert!(told.contains("Oribi's placeholder") && told.contains("DNS:www.example.org, DNS:example.org"), "{told}");
    }

    #[test]
    fn a_proof_is_for_one_name_and_has_the_digest_of_the_authorization() {
        let text = proof("a.example", "token.thumbprint").expect("it is made");
        let told = openssl(&["x509", "-noout", "-text"], text.as_bytes());
        let digest = openssl(&["dgst", "-sha256", "-hex", "-c"], b"token.thumbprint").to_uppercase();
        let digest = digest.trim().rsplit(' ').next().expect("it is the last word");
        let lines: Vec<&str> = told.lines().map(str::trim).collect();
        let behind = |line: &str| lines.iter().position(|found| *found == line).map(|place| lines[place + 1]);
        assert_eq!(behind("X509v3 Subject Alternative Name:"), Some("DNS:a.example"), "{told}");
        assert!(lines.contains(&"1.3.6.1.5.5.7.1.31: critical"), "{told}");
        // An octet string of 32 bytes within the octet string of the extension.
        let outline = openssl(&["asn1parse", "-i"], &text.as_bytes()[text.find("-----BEGIN CERT").expect("it is there")..]);
        let shown: Vec<&str> = outline.lines().skip_while(|line| !line.contains("1.3.6.1.5.5.7.1.31")).take(3).collect();
        let expected = format!("[HEX DUMP]:0420{}", digest.replace(':', ""));
        assert!(shown[1].ends_with(":255") && shown[2].ends_with(&expected), "{digest}: {outline}");
        // openssl can check the signature, which is by its own key.
        let certificate = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(certificate.path(), &text).expect("it is ours");
        let path = certificate.path().to_str().expect("UTF-8");
        let checked = ["verify", "-check_ss_sig", "-ignore_critical", "-CAfile", path, path];
        assert!(openssl(&checked, b"").contains("OK"));
    }

    #[test]
    fn a_request_names_the_hosts_and_is_signed_with_its_key() {
        let names = Names::parse("www.example.org,example.org").expect("they are good");
        let key = generate_key().expect("there are random numbers");
        let request = request(&names, &key).expect("it is made");
        let told = openssl(&["req", "-inform", "DER", "-verify", "-noout", "-text"], &request);
        for part in ["verify OK", "DNS:www.example.org, DNS:example.org", "NIST CURVE: P-256", "Version: 1 (0x0)"] {
            assert!(told.contains(part), "{part} is not in: {told}");
        }
        let public = openssl(&["req", "-inform", "DER", "-noout", "-pubkey"], &request);
        assert_eq!(openssl(&["pkey", "-pubout"], key.as_bytes()), public);
        assert!(is_for_key(&request, &key) && !is_for_key(&request, &generate_key().expect("there are random numbers")));
    }

    #[test]
    fn a_key_is_read_without_anything_beside_it() {
        let key = generate_key().expect("there are random numbers");
        let certificate = pem::encode(CERTIFICATE, b"x");
        assert_eq!(key_of(&format!("words\n{certificate}{key}{certificate}")).as_ref(), Some(&key));
        let cut = key.replacen('M', "", 1);
        for text in ["", "words", &certificate, &cut, &pem::encode(PRIVATE_KEY, b"no key")] {
            assert!(key_of(text).is_none() && request(&Names::parse("a.org").expect("it is good"), text).is_err(), "{text}");
        }
    }

    #[test]
    fn years_have_the_form_that_clients_expect() {
        assert_eq!(new_year(2049), encode(UTC_TIME, &[b"490101000000Z"]));
        assert_eq!(new_year(2050), encode(GENERALIZED_TIME, &[b"20500101000000Z"]));
    }
}
