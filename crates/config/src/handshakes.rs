//! The options of an address about encryption: `?cert=FILE&key=FILE`, and rules of its handshakes.

use oribi_tls::{CertificateFiles, Material, Options, Pem, Secret, Server, Suites, Verify, Version};
use std::fmt;
use std::path::{Path, PathBuf};

/// The rules of an address for its handshakes; a rule that is `None` is taken from the rules for all addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Handshakes {
    /// The oldest version of TLS.
    pub oldest: Option<Version>,
    /// The accepted cipher suites.
    pub suites: Option<Suites>,
    /// Whether clients are asked for certificates.
    pub clients: Option<Verify>,
    /// A file with the authorities that may sign certificates of clients.
    pub authorities: Option<PathBuf>,
}

/// The certificates and rules of a listener with encrypted connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The files of the certificates and keys.
    pub files: Vec<CertificateFiles>,
    /// A file with the authorities that may sign certificates of clients, if any.
    pub authorities: Option<PathBuf>,
    /// The rules of handshakes.
    pub options: Options,
}

impl Offer {
    /// Reads the files of the certificates, keys and authorities.
    ///
    /// # Errors
    /// The unreadable file, and the reason.
    pub fn read(&self) -> Result<Material, String> {
        Material::read(&self.files)?.with_authorities(self.authorities.as_deref())
    }

    /// Returns the reasons for which the files cannot be used: all files that cannot be read, else the first fault of each
    /// certificate.
    pub(super) fn troubles(&self) -> Vec<String> {
        let authorities = self.authorities.as_deref();
        let mut troubles: Vec<String> = self.files.iter().flat_map(Material::unreadable).collect();
        let material = |files: &[CertificateFiles]| Material::read(files)?.with_authorities(authorities);
        // An empty list of files has no other fault than that the authorities cannot be read.
        troubles.extend(material(&[]).err());
        if !troubles.is_empty() || self.files.is_empty() {
            return troubles;
        }
        let serves = |files: &[CertificateFiles]| Server::new(material(files)?, self.options.clone(), Secret::new()?).map(drop);
        troubles.extend(self.files.iter().filter_map(|files| serves(std::slice::from_ref(files)).err()));
        if troubles.is_empty() {
            troubles.extend(serves(&self.files).err());
        }
        troubles
    }

    /// Parses the output of `Display`.
    pub fn parse(text: &str) -> Option<Self> {
        let (files, Handshakes { oldest, suites, clients, authorities }) =
            parse(text).ok().filter(|(files, _)| !files.is_empty())?;
        let options = Options {
            oldest: oldest.unwrap_or_default(),
            suites: suites.unwrap_or_default(),
            clients: clients.unwrap_or_default(),
        };
        Some(Self { files, authorities, options })
    }
}

impl fmt::Display for Offer {
    /// The form of the options of an address.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Options { oldest, suites, clients } = &self.options;
        let said = Handshakes {
            oldest: Some(*oldest),
            suites: (*suites != Suites::default()).then(|| suites.clone()),
            clients: Some(*clients),
            authorities: self.authorities.clone(),
        };
        formatter.write_str(&show(&self.files, &said))
    }
}

const EXPECTED: &str = "expected ?cert=FILE&key=FILE after the address; both may be repeated, and key may be left out if the \
     file of the certificate contains it";

/// The placeholder for the text of a certificate or a key in a printed address.
const WITHHELD: &str = "***";

/// Parses the options of an address.
///
/// # Errors
/// The expected form.
pub(super) fn parse(query: &str) -> Result<(Vec<CertificateFiles>, Handshakes), String> {
    let mut files: Vec<CertificateFiles> = Vec::new();
    let (mut keys, mut statuses) = (Vec::new(), Vec::new());
    let mut said = Handshakes::default();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').ok_or(EXPECTED)?;
        let bytes = decode(value).ok_or_else(|| format!("{EXPECTED}, percent-encoded"))?;
        let file = || if bytes.is_empty() { Err(EXPECTED.to_owned()) } else { Ok(path_of(&bytes)) };
        let text = || String::from_utf8_lossy(&bytes);
        let again = match name {
            "cert" => {
                files.push(CertificateFiles { certificate: file()?.into(), key: Pem::Withheld, status: None });
                false
            }
            "cert_pem" => {
                files.push(CertificateFiles { certificate: inline(&bytes)?, key: Pem::Withheld, status: None });
                false
            }
            "key" => {
                keys.push(file()?.into());
                false
            }
            "key_pem" => {
                keys.push(inline(&bytes)?);
                false
            }
            "ocsp" => {
                statuses.push(file()?);
                false
            }
            "ca" => said.authorities.replace(file()?).is_some(),
            "verify_mode" => said.clients.replace(parse_verify(&text())?).is_some(),
            "min_version" => said.oldest.replace(parse_version(&text())?).is_some(),
            // The first is Puma's for TLS 1.2, the second for TLS 1.3.
            "ciphers" | "ssl_cipher_filter" | "ssl_ciphersuites" => said.suites.replace(Suites::parse(&text())?).is_some(),
            // Puma's options that ask for the behaviour that Oribi always has.
            "no_tlsv1" | "no_tlsv1_1" if value == "true" => false,
            _ => {
                return Err(format!(
                    "{EXPECTED}; `{name}` is not known here. Also known are ca, verify_mode, min_version, ciphers and ocsp"
                ));
            }
        };
        if again {
            return Err(format!("expected {name}= only once"));
        }
    }
    if keys.len() > files.len() || statuses.len() > files.len() {
        return Err(EXPECTED.to_owned());
    }
    for (place, pair) in files.iter_mut().enumerate() {
        pair.key = keys.get(place).unwrap_or(&pair.certificate).clone();
        pair.status = statuses.get(place).cloned();
    }
    Ok((files, said))
}

/// Parses the value of `cert_pem` or `key_pem`.
fn inline(text: &[u8]) -> Result<Pem, String> {
    match text {
        b"" => Err(EXPECTED.to_owned()),
        text if text == WITHHELD.as_bytes() => Ok(Pem::Withheld),
        text => Ok(Pem::text(text)),
    }
}

/// Writes the options that [`parse`] reads, without the texts of certificates and keys.
pub(super) fn show(files: &[CertificateFiles], said: &Handshakes) -> String {
    let mut parts = Vec::new();
    for CertificateFiles { certificate, key, .. } in files {
        parts.push(format!("{}&{}", show_pem("cert", certificate), show_pem("key", key)));
    }
    // Certificates without an OCSP response are last.
    parts.extend(files.iter().filter_map(|files| Some(format!("ocsp={}", encode_path(files.status.as_deref()?)))));
    parts.extend(said.authorities.as_deref().map(|file| format!("ca={}", encode_path(file))));
    parts.extend(said.clients.map(|clients| format!("verify_mode={}", show_verify(clients))));
    parts.extend(said.oldest.map(|oldest| format!("min_version={}", show_version(oldest))));
    parts.extend(said.suites.as_ref().map(|suites| format!("ciphers={}", encode(suites.to_string().as_bytes()))));
    parts.join("&")
}

/// Parses whether clients are asked for certificates, in the words of several servers.
pub(super) fn parse_verify(text: &str) -> Result<Verify, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "none" | "off" | "no" | "false" | "0" => Ok(Verify::None),
        // `peer` is Puma's word, after OpenSSL's.
        "optional" | "peer" => Ok(Verify::Optional),
        "required" | "require" | "force_peer" | "" | "on" | "yes" | "true" | "1" => Ok(Verify::Required),
        _ => Err("expected none, optional (peer) or required (force_peer)".to_owned()),
    }
}

/// Formats the value so that [`parse_verify`] can parse it.
pub(super) const fn show_verify(verify: Verify) -> &'static str {
    match verify {
        Verify::None => "none",
        Verify::Optional => "optional",
        Verify::Required => "required",
    }
}

/// Parses a version of TLS.
pub(super) fn parse_version(text: &str) -> Result<Version, String> {
    let text = text.trim().to_ascii_lowercase();
    match text.trim_start_matches("tls").trim_start_matches('v').replace('_', ".").as_str() {
        "1.2" => Ok(Version::Tls12),
        "1.3" => Ok(Version::Tls13),
        _ => Err("expected 1.2 or 1.3; nothing older is spoken (RFC 8996)".to_owned()),
    }
}

/// Formats the value so that [`parse_version`] can parse it.
pub(super) const fn show_version(version: Version) -> &'static str {
    match version {
        Version::Tls12 => "1.2",
        Version::Tls13 => "1.3",
    }
}

fn show_pem(name: &str, pem: &Pem) -> String {
    pem.path().map_or_else(|| format!("{name}_pem={WITHHELD}"), |path| format!("{name}={}", encode_path(path)))
}

fn encode_path(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    encode(path.as_os_str().as_bytes())
}

fn encode(bytes: &[u8]) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let one = |&byte: &u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    bytes.iter().map(one).collect()
}

fn path_of(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    std::ffi::OsStr::from_bytes(bytes).into()
}

pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    (!bytes.contains(&0)).then_some(bytes)
}
