//! Loads the certificates and keys of encrypted listeners, and passes them to other processes.
//!
//! The first process reads the files, with its original rights, and checks them. Edges and workers that it forks inherit
//! them in memory. A mold, which is executed, receives a *vault*: a file in memory with all certificates and keys, and with the
//! secret of the session tickets.

use super::kept::Kept;
use super::listener::{self, Listener};
use oribi_config::Settings;
use oribi_tls::{Challenges, Material, Secret, Server};
use rustix::fs::{MemfdFlags, fstat, memfd_create};
use rustix::io::pread;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

/// The largest vault accepted, in bytes.
const LARGEST_VAULT: u64 = 64 << 20;

/// Opens all listeners of `settings`. A host name is opened on all its addresses. An empty host, `*` or `::` means every
/// interface, IPv6 and IPv4, each with a separate socket, so the address of an IPv4 client never reads `::ffff:192.0.2.1`.
///
/// # Errors
/// An address cannot be opened; the message contains the address, the reason, and a possible remedy. No socket stays open,
/// no file remains.
pub fn open(settings: &Settings) -> Result<Vec<Listener>, String> {
    open_or_take(settings, &mut Kept::default())
}

/// As [`open`], with sockets that were kept while the server was restarted in place of new ones.
///
/// # Errors
/// An address or a file is unusable; the message names it and contains the reason.
pub fn open_or_take(settings: &Settings, kept: &mut Kept) -> Result<Vec<Listener>, String> {
    let mut listeners = listener::open_or_take(settings, kept)?;
    if let Err(message) = secure(&mut listeners, None) {
        listeners.iter_mut().for_each(Listener::remove_file);
        return Err(message);
    }
    Ok(listeners)
}

/// Configures TLS on encrypted listeners, with certificates from `vault`, or else from their files.
///
/// # Errors
/// A file is unusable; the message names it and contains the reason.
pub fn secure(listeners: &mut [Listener], vault: Option<Vault>) -> Result<(), String> {
    if listeners.iter().all(|listener| listener.offer.is_none()) {
        return Ok(());
    }
    let (secret, mut materials) = match vault {
        Some(Vault { secret, materials }) => (secret, materials.into_iter()),
        None => (Secret::new()?, Vec::new().into_iter()),
    };
    for listener in listeners {
        let Some(offer) = &listener.offer else { continue };
        let material = materials.next().map_or_else(|| offer.read(), Ok)?;
        let server = Server::new(material, offer.options.clone(), secret.clone())?;
        for trouble in server.troubles() {
            log::warn!("{trouble}");
        }
        listener.tls = Some(Arc::new(server));
    }
    Ok(())
}

/// Reads the files of encrypted listeners again. If a file is unusable, no listener changes. Returns whether any listener is
/// encrypted.
///
/// # Errors
/// A file is unusable; the message names it and contains the reason.
pub fn read_again(listeners: &[Listener]) -> Result<bool, String> {
    let mut fresh = Vec::new();
    for listener in listeners {
        if let (Some(offer), Some(server)) = (&listener.offer, &listener.tls) {
            fresh.push((server, server.check(offer.read()?)?));
        }
    }
    let any = !fresh.is_empty();
    for (server, checked) in fresh {
        server.exchange(checked);
        for trouble in server.troubles() {
            log::warn!("{trouble}");
        }
    }
    Ok(any)
}

/// Returns the names of the certificates that these listeners offer, each once, with the earliest expiry of that name in
/// seconds since 1970.
pub fn expiries(listeners: &[Listener]) -> Vec<(String, u64)> {
    let mut found: Vec<(String, u64)> =
        listeners.iter().filter_map(|listener| listener.tls.as_ref()).flat_map(|server| server.expiries()).collect();
    found.sort();
    found.dedup_by(|later, first| later.0 == first.0);
    found
}

/// Answers authorities that ask for proof in a handshake (`acme-tls/1`, RFC 8737) from `file`. The first process opens the
/// file, and all serving processes inherit it: with other rights, or in a sandbox, they could not open it.
pub fn answer_in_handshakes(listeners: &[Listener], file: OwnedFd) {
    let challenges = Arc::new(Challenges::of(file));
    listeners
        .iter()
        .filter_map(|listener| listener.tls.as_ref())
        .for_each(|server| server.answer_challenges(challenges.clone()));
}

/// Returns the file of [`answer_in_handshakes`], for a process that is executed; `None` if there is none.
pub fn proof(listeners: &[Listener]) -> Option<&OwnedFd> {
    listeners.iter().find_map(|listener| Some(listener.tls.as_ref()?.challenges()?.file()))
}

/// Certificates and keys of encrypted listeners, for a process that cannot read their files.
#[derive(Debug)]
pub struct Vault {
    /// The secret that seals session tickets.
    pub secret: Secret,
    /// The certificates and keys: one material for each encrypted listener, in the order of the listeners.
    pub materials: Vec<Material>,
}

impl Vault {
    /// Writes the vault of these listeners; `None` if none of them is encrypted.
    ///
    /// # Errors
    /// The operating system refused a call, as for lack of memory.
    pub fn fill(listeners: &[Listener]) -> io::Result<Option<OwnedFd>> {
        let servers: Vec<_> = listeners.iter().filter_map(|listener| listener.tls.as_ref()).collect();
        let Some(first) = servers.first() else { return Ok(None) };
        let mut file = File::from(memfd_create("oribi-certificates", MemfdFlags::CLOEXEC)?);
        file.write_all(&first.secret().to_bytes())?;
        for server in &servers {
            let bytes = server.material().to_bytes();
            file.write_all(&(bytes.len() as u64).to_be_bytes())?;
            file.write_all(&bytes)?;
        }
        Ok(Some(file.into()))
    }

    /// Reads a vault; `None` if its content is invalid.
    pub fn open(file: BorrowedFd<'_>) -> Option<Self> {
        let bytes = content(file)?;
        let (secret, mut rest) = bytes.split_at_checked(Secret::SIZE)?;
        let mut materials = Vec::new();
        while !rest.is_empty() {
            let (size, behind) = rest.split_first_chunk::<8>()?;
            let (material, behind) = behind.split_at_checked(usize::try_from(u64::from_be_bytes(*size)).ok()?)?;
            materials.push(Material::from_bytes(material)?);
            rest = behind;
        }
        Some(Self { secret: Secret::from_bytes(secret)?, materials })
    }
}

/// Reads a file in memory.
pub(super) fn content(file: BorrowedFd<'_>) -> Option<Vec<u8>> {
    let size = u64::try_from(fstat(file).ok()?.st_size).ok().filter(|size| *size <= LARGEST_VAULT)?;
    let mut bytes = vec![0; size as usize];
    let mut read = 0;
    while read < bytes.len() {
        match pread(file, &mut bytes[read..], read as u64).ok()? {
            0 => return None,
            count => read += count,
        }
    }
    Some(bytes)
}
