//! Certificates and keys as they stand in their files, so that one process can read them and another can use them.

use std::fs;
use std::path::{Path, PathBuf};

/// Where a certificate with its chain, and its key, are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate and those that lead from it to an authority, in PEM.
    pub certificate: PathBuf,
    /// Its private key, in PEM.
    pub key: PathBuf,
}

/// The content of the files of one listener, in the order in which they were given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Material {
    pub(crate) identities: Vec<Pair>,
}

/// A certificate with its chain, its key, and where both come from, for messages.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
    pub(crate) certificate_bytes: Vec<u8>,
    pub(crate) key_bytes: Vec<u8>,
}

/// A file larger than that is none with certificates.
const LARGEST_FILE: u64 = 1 << 20;

impl Material {
    /// Reads these files.
    ///
    /// # Errors
    /// Says which file cannot be read, and why.
    pub fn read(files: &[CertificateFiles]) -> Result<Self, String> {
        let one = |files: &CertificateFiles| {
            Ok(Pair {
                certificate: files.certificate.display().to_string(),
                key: files.key.display().to_string(),
                certificate_bytes: read(&files.certificate, "certificate")?,
                key_bytes: read(&files.key, "key")?,
            })
        };
        Ok(Self { identities: files.iter().map(one).collect::<Result<_, String>>()? })
    }

    /// The same as bytes, for another process of the same program.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for pair in &self.identities {
            for part in [pair.certificate.as_bytes(), pair.key.as_bytes(), &pair.certificate_bytes, &pair.key_bytes] {
                bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
                bytes.extend_from_slice(part);
            }
        }
        bytes
    }

    /// `None`: the bytes make no sense.
    #[must_use]
    pub fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let mut identities = Vec::new();
        while !bytes.is_empty() {
            let mut part = || {
                let (size, rest) = bytes.split_first_chunk::<8>()?;
                let (part, rest) = rest.split_at_checked(usize::try_from(u64::from_be_bytes(*size)).ok()?)?;
                bytes = rest;
                Some(part.to_vec())
            };
            identities.push(Pair {
                certificate: String::from_utf8(part()?).ok()?,
                key: String::from_utf8(part()?).ok()?,
                certificate_bytes: part()?,
                key_bytes: part()?,
            });
        }
        Some(Self { identities })
    }
}

fn read(path: &Path, what: &str) -> Result<Vec<u8>, String> {
    let failed = |why: String| format!("cannot read the {what} {}: {why}", path.display());
    let found = fs::metadata(path).map_err(|error| failed(words(&error)))?;
    if !found.is_file() {
        return Err(failed("it is no file".to_owned()));
    }
    if found.len() > LARGEST_FILE {
        return Err(failed(format!("it has {} bytes, which no file with certificates has", found.len())));
    }
    fs::read(path).map_err(|error| failed(words(&error)))
}

/// The message of an error without the number that the standard library adds.
fn words(error: &std::io::Error) -> String {
    error.to_string().split(" (os error").next().unwrap_or_default().to_lowercase()
}

impl std::fmt::Debug for Pair {
    /// Never a key.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} with {}", self.certificate, self.key)
    }
}
