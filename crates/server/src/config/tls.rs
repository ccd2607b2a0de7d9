//! How connections are encrypted, and the files of certificates in the form in which users write them behind addresses.

use oribi_tls::{CertificateFiles, Options, Version};
use std::fmt;
use std::path::PathBuf;

/// How connections are encrypted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Files with certificates, for addresses that name none.
    pub certificates: Vec<PathBuf>,
    /// Files with their keys, in the same order. A certificate without one has its key in its own file.
    pub keys: Vec<PathBuf>,
    /// What the user says about addresses without a scheme; `None`: nothing.
    pub wanted: Option<bool>,
    /// Whether connections are encrypted at TCP addresses without a scheme, and at TCP sockets that another program has opened.
    pub by_default: bool,
    /// The oldest version of TLS.
    pub oldest: Version,
}

impl Tls {
    /// The certificates for addresses that name none.
    #[must_use]
    pub fn files(&self) -> Vec<CertificateFiles> {
        let key = |place: usize| self.keys.get(place).unwrap_or(&self.certificates[place]).clone();
        let one =
            |(place, certificate): (usize, &PathBuf)| CertificateFiles { certificate: certificate.clone(), key: key(place) };
        self.certificates.iter().enumerate().map(one).collect()
    }

    /// The rules of handshakes.
    #[must_use]
    pub fn options(&self) -> Options {
        Options { oldest: self.oldest }
    }
}

const EXPECTED: &str = "expected ?cert=FILE&key=FILE behind the address; both may come several times, and key may be left out if the \
     file of the certificate contains it";

/// Separates an address from the files behind it: `HOST:PORT?cert=FILE&key=FILE`.
pub(super) fn tls_files(text: &str) -> Result<(&str, Vec<CertificateFiles>), String> {
    let (authority, query) = text.split_once('?').unwrap_or((text, ""));
    let (mut certificates, mut keys) = (Vec::new(), Vec::new());
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').ok_or(EXPECTED)?;
        let file =
            || decode(value).filter(|file| !file.as_os_str().is_empty()).ok_or_else(|| format!("{EXPECTED}, percent-encoded"));
        match (name, value) {
            ("cert", _) => certificates.push(file()?),
            ("key", _) => keys.push(file()?),
            // What Puma's users write, where it asks for what is so anyhow.
            ("verify_mode", "none") | ("no_tlsv1" | "no_tlsv1_1", "true") => {}
            _ => return Err(format!("{EXPECTED}; `{name}` is not known here")),
        }
    }
    if keys.len() > certificates.len() {
        return Err(EXPECTED.to_owned());
    }
    let tls = Tls { certificates, keys, ..Tls::default() };
    Ok((authority.strip_suffix('/').unwrap_or(authority), tls.files()))
}

/// Writes the files in the form that [`tls_files`] reads.
pub(super) fn show_tls_files(files: &[CertificateFiles], formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (place, CertificateFiles { certificate, key }) in files.iter().enumerate() {
        let between = if place == 0 { '?' } else { '&' };
        write!(formatter, "{between}cert={}&key={}", encode(certificate), encode(key))?;
    }
    Ok(())
}

fn encode(path: &std::path::Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let one = |&byte: &u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    path.as_os_str().as_bytes().iter().map(one).collect()
}

fn decode(text: &str) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
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
    (!bytes.contains(&0)).then(|| std::ffi::OsString::from_vec(bytes).into())
}
