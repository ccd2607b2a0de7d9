//! The contents of files with certificates and keys, which one process reads and another uses.

use crate::pem_text::Pem;
use std::fs;
use std::path::{Path, PathBuf};

/// The places of a certificate with its chain, and of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate and the chain that leads to an authority.
    pub certificate: Pem,
    /// The private key.
    pub key: Pem,
    /// An OCSP response in DER, by which the authority confirms that the certificate is not revoked; `None` if none is stapled.
    pub status: Option<PathBuf>,
}

/// The content of the files of one listener, in the order in which they were given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Material {
    pub(crate) identities: Vec<Pair>,
    /// The certificates of the authorities for clients, and the name of their file.
    pub(crate) authorities: Option<(String, Vec<u8>)>,
}

/// A certificate with its chain, its key, and the origins of both for messages.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
    pub(crate) certificate_bytes: Vec<u8>,
    pub(crate) key_bytes: Vec<u8>,
    /// The file with the OCSP response; empty without one.
    pub(crate) status: String,
    pub(crate) status_bytes: Vec<u8>,
}

/// The largest file, in bytes; a larger one has no certificates.
const LARGEST_FILE: u64 = 1 << 20;

impl Material {
    /// Reads these files.
    ///
    /// # Errors
    /// Says which file cannot be read, and why.
    pub fn read(files: &[CertificateFiles]) -> Result<Self, String> {
        let one = |files: &CertificateFiles| {
            Ok(Pair {
                certificate: files.certificate.name("cert_pem"),
                key: files.key.name("key_pem"),
                certificate_bytes: read_pem(&files.certificate, "certificate")?,
                key_bytes: read_pem(&files.key, "key")?,
                status: files.status.as_ref().map(|file| file.display().to_string()).unwrap_or_default(),
                status_bytes: files.status.as_ref().map_or_else(|| Ok(Vec::new()), |file| read(file, "OCSP response"))?,
            })
        };
        Ok(Self { identities: files.iter().map(one).collect::<Result<_, String>>()?, authorities: None })
    }

    /// Returns the reasons for which files cannot be read, one for each file.
    #[must_use]
    pub fn unreadable(files: &CertificateFiles) -> Vec<String> {
        let CertificateFiles { certificate, key, status } = files;
        // Both may be in one file.
        let key = (key.path().is_none() || key.path() != certificate.path()).then(|| read_pem(key, "key"));
        let status = status.as_ref().map(|file| read(file, "OCSP response"));
        [Some(read_pem(certificate, "certificate")), key, status].into_iter().flatten().filter_map(Result::err).collect()
    }

    /// Also reads the certificates of the authorities for clients; `file` is `None` if clients are not asked for certificates.
    ///
    /// # Errors
    /// Says why the file cannot be read.
    pub fn with_authorities(self, file: Option<&Path>) -> Result<Self, String> {
        let read = |file: &Path| Ok::<_, String>((file.display().to_string(), read(file, "file of authorities")?));
        Ok(Self { authorities: file.map(read).transpose()?, ..self })
    }

    /// Sets the withheld texts in `files` to the bytes that another process, which has the configuration, has read from these
    /// files.
    pub fn lend_texts(&self, files: &mut [CertificateFiles]) {
        for (files, pair) in files.iter_mut().zip(&self.identities) {
            files.certificate.complete(&pair.certificate_bytes);
            files.key.complete(&pair.key_bytes);
        }
    }

    /// Serializes this for another process of the same program. The bytes contain the keys.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut add = |part: &[u8]| {
            bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
            bytes.extend_from_slice(part);
        };
        let (name, authorities) = self.authorities.as_ref().map_or(("", &[][..]), |(name, bytes)| (name, bytes));
        add(name.as_bytes());
        add(authorities);
        for pair in &self.identities {
            let texts = [&pair.certificate, &pair.key, &pair.status].map(String::as_bytes);
            texts.into_iter().chain([&pair.certificate_bytes[..], &pair.key_bytes, &pair.status_bytes]).for_each(&mut add);
        }
        bytes
    }

    /// Restores the material of another process; `None` if the bytes are invalid.
    #[must_use]
    pub fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let (name, authorities) = (text(&mut bytes)?, part(&mut bytes)?);
        let authorities = (!name.is_empty()).then_some((name, authorities));
        let mut identities = Vec::new();
        while !bytes.is_empty() {
            let bytes = &mut bytes;
            let (certificate, key, status) = (text(bytes)?, text(bytes)?, text(bytes)?);
            let (certificate_bytes, key_bytes, status_bytes) = (part(bytes)?, part(bytes)?, part(bytes)?);
            identities.push(Pair { certificate, key, certificate_bytes, key_bytes, status, status_bytes });
        }
        Some(Self { identities, authorities })
    }
}

/// Takes the next part from `bytes`.
fn part(bytes: &mut &[u8]) -> Option<Vec<u8>> {
    let (size, rest) = bytes.split_first_chunk::<8>()?;
    let (part, rest) = rest.split_at_checked(usize::try_from(u64::from_be_bytes(*size)).ok()?)?;
    *bytes = rest;
    Some(part.to_vec())
}

fn text(bytes: &mut &[u8]) -> Option<String> {
    String::from_utf8(part(bytes)?).ok()
}

fn read_pem(pem: &Pem, what: &str) -> Result<Vec<u8>, String> {
    match pem {
        Pem::File(path) => read(path, what),
        Pem::Text(text) => Ok(text.to_vec()),
        Pem::Withheld => {
            Err(format!("this process cannot read the {what}, because the server has withheld it from this process"))
        }
    }
}

fn read(path: &Path, what: &str) -> Result<Vec<u8>, String> {
    let failed = |why: String| format!("cannot read the {what} {}: {why}", path.display());
    let found = fs::metadata(path).map_err(|error| failed(words(&error)))?;
    if !found.is_file() {
        return Err(failed("it is not a file".to_owned()));
    }
    if found.len() > LARGEST_FILE {
        return Err(failed(format!("it has {} bytes, more than any file with certificates", found.len())));
    }
    fs::read(path).map_err(|error| failed(words(&error)))
}

/// The message of an error without the number that the standard library adds.
fn words(error: &std::io::Error) -> String {
    error.to_string().split(" (os error").next().unwrap_or_default().to_lowercase()
}

impl std::fmt::Debug for Pair {
    /// Never shows a key.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} with {}", self.certificate, self.key)
    }
}
