//! Proof for an authority that a domain is this server's, given in a handshake (`tls-alpn-01`, RFC 8737).
//!
//! Whoever orders certificates writes one certificate for the proof into a file, and its name before it. That may be another process,
//! with other rights, and the process that shows the certificate may be unable to open any file: so it keeps the file open, and what
//! is written there replaces the content and not the file. The file is read when a client asks for proof, which authorities do
//! once for a domain in weeks, and not otherwise.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ClientHello;
use rustls::sign::CertifiedKey;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The protocol by which an authority asks (ALPN). Nothing is said in it: the handshake is all of it.
pub(crate) const ACME: &[u8] = b"acme-tls/1";

/// The file has a key and a certificate with one name: less than 2 KiB.
const LARGEST: usize = 8 << 10;

/// The file with the proof that is asked for at present; empty: none is.
#[derive(Debug)]
pub struct Challenges(OwnedFd);

impl Challenges {
    /// `file` is open for reading.
    #[must_use]
    pub fn of(file: OwnedFd) -> Self {
        Self(file)
    }

    /// The file, for another process.
    #[must_use]
    pub fn file(&self) -> &OwnedFd {
        &self.0
    }

    /// What the client is to be shown; `None`: nobody has asked this server for proof of that name, and it gives none.
    pub(crate) fn proof(&self, hello: &ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // RFC 8737, section 3: an authority offers this protocol alone, and names the domain.
        let is_alone = hello.alpn().is_some_and(|offered| offered.count() == 1);
        self.certificate(hello.server_name().filter(|_| is_alone)?)
    }

    /// While it is written, there may be anything in the file. The authority is not told to look before it was written.
    fn certificate(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        let mut content = vec![0; LARGEST];
        let mut size = 0;
        while size < LARGEST {
            match rustix::io::pread(&self.0, &mut content[size..], size as u64) {
                Ok(0) => break,
                Ok(count) => size += count,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    log::debug!("cannot read the proof for an authority: {error}");
                    return None;
                }
            }
        }
        parse(&content[..size], name)
    }
}

/// The certificate in `content`, if it is for `name`, with its key. Whether it is good is for the authority to say: no client is shown it
/// that does not ask for it.
fn parse(content: &[u8], name: &str) -> Option<Arc<CertifiedKey>> {
    let line = content.iter().position(|&byte| byte == b'\n')?;
    let (first, rest) = content.split_at(line);
    if !first.eq_ignore_ascii_case(name.as_bytes()) {
        return None;
    }
    let certificate = CertificateDer::from_pem_slice(rest).ok()?;
    let key = PrivateKeyDer::from_pem_slice(rest).ok()?;
    let key = rustls::crypto::ring::sign::any_supported_type(&key).ok()?;
    Some(Arc::new(CertifiedKey::new(vec![certificate], key)))
}

/// Whether a client offers the protocol of authorities, and none of `others`.
pub(crate) fn is_asked(hello: &ClientHello<'_>, others: &[&[u8]]) -> bool {
    let offers = |wanted: &[u8]| hello.alpn().is_some_and(|mut offered| offered.any(|one| one == wanted));
    offers(ACME) && !others.iter().any(|other| offers(other))
}

#[cfg(test)]
mod tests;
