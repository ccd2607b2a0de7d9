//! Proof in a handshake that this server controls a domain (`tls-alpn-01`, RFC 8737).
//!
//! The ACME client writes the name and the certificate for the proof into a file. The ACME client may be another process with
//! other rights, and the process that shows the certificate may be unable to open files. That process therefore keeps the file
//! open, and the ACME client replaces the content of the file, never the file. The file is read only when a client asks for
//! proof. Authorities do so once for a domain in weeks.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ClientHello;
use rustls::sign::CertifiedKey;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The protocol of authorities (ALPN). No application data follows the handshake.
pub(crate) const ACME: &[u8] = b"acme-tls/1";

/// The largest file, in bytes. One with a key and a certificate for one name has less than 2 KiB.
const LARGEST: usize = 8 << 10;

/// The file with the current proof; empty if no authority asks for any.
#[derive(Debug)]
pub struct Challenges(OwnedFd);

impl Challenges {
    /// Takes a file that is open for reading.
    #[must_use]
    pub fn of(file: OwnedFd) -> Self {
        Self(file)
    }

    /// The file, to be passed to another process.
    #[must_use]
    pub fn file(&self) -> &OwnedFd {
        &self.0
    }

    /// The certificate for the client; `None` if this server has no proof for that name.
    pub(crate) fn proof(&self, hello: &ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // RFC 8737, section 3: an authority offers this protocol alone, and names the domain.
        let is_alone = hello.alpn().is_some_and(|offered| offered.count() == 1);
        self.certificate(hello.server_name().filter(|_| is_alone)?)
    }

    /// Reads the file, and returns the certificate for `name`. The file may contain anything while it is being written; the
    /// authority is asked to look only afterwards.
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

/// The certificate in `content` and its key, if the name in `content` is `name`. The authority checks the certificate; only a
/// client that asks for proof gets it.
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
