//! Passes renewed certificates to edges, by the numbers of their listeners: an edge may still have listeners that have ended.

use super::listener::Listener;
use super::secure::content;
use oribi_tls::Material;
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{BorrowedFd, OwnedFd};

/// Renewed certificates and keys, with the numbers of their listeners.
#[derive(Debug)]
pub struct Renewed(Vec<(u32, Material)>);

impl Renewed {
    /// Writes those of these listeners into a file in memory; `None` if none of them is encrypted.
    ///
    /// # Errors
    /// The operating system refused a call, as for lack of memory.
    pub fn fill(listeners: &[Listener]) -> io::Result<Option<OwnedFd>> {
        let mut bytes = Vec::new();
        for (listener, server) in listeners.iter().filter_map(|listener| Some((listener, listener.tls.as_ref()?))) {
            let material = server.material().to_bytes();
            bytes.extend_from_slice(&listener.id.to_be_bytes());
            bytes.extend_from_slice(&(material.len() as u64).to_be_bytes());
            bytes.extend_from_slice(&material);
        }
        if bytes.is_empty() {
            return Ok(None);
        }
        let mut file = File::from(memfd_create("oribi-certificates", MemfdFlags::CLOEXEC)?);
        file.write_all(&bytes)?;
        Ok(Some(file.into()))
    }

    /// Reads the file; `None` if its content is invalid.
    #[must_use]
    pub fn open(file: BorrowedFd<'_>) -> Option<Self> {
        let bytes = content(file)?;
        let (mut rest, mut renewed) = (&bytes[..], Vec::new());
        while !rest.is_empty() {
            let (number, behind) = rest.split_first_chunk::<4>()?;
            let (size, behind) = behind.split_first_chunk::<8>()?;
            let (material, behind) = behind.split_at_checked(usize::try_from(u64::from_be_bytes(*size)).ok()?)?;
            renewed.push((u32::from_be_bytes(*number), Material::from_bytes(material)?));
            rest = behind;
        }
        Some(Self(renewed))
    }

    /// Gives the certificates to the listeners of this process that have their numbers.
    ///
    /// # Errors
    /// A certificate is unusable; the message contains the reason. Listeners before it have their new certificates already.
    pub fn spread(self, listeners: &[&Listener]) -> Result<(), String> {
        for (number, material) in self.0 {
            let listener = listeners.iter().find(|listener| listener.id == number);
            if let Some(server) = listener.and_then(|listener| listener.tls.as_ref()) {
                server.exchange(server.check(material)?);
            }
        }
        Ok(())
    }
}
