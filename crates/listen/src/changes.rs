//! The listeners of a server that follows another one, and has other addresses or other options of the same addresses.
//!
//! A socket stays open if the server has its address, whatever its clients speak there. All else is as in a server that opens its
//! addresses: protocol, certificates, PROXY headers and names come from the settings of the new server.

use super::kept::Kept;
use super::listener::{Listener, addresses_of, open_or_take};
use super::secure::{Vault, secure};
use oribi_config::{Settings, SocketAddress};
use oribi_tls::Secret;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// The listeners of the server before, divided by the addresses of this one.
#[derive(Debug)]
pub struct Followed {
    /// The listeners of this server, in the order of its addresses. Those with the sockets of the server before are lent.
    pub listeners: Vec<Listener>,
    /// The listeners at addresses that this server does not have.
    pub dropped: Vec<Listener>,
    /// The names of stored listeners that the service manager must not keep any longer.
    pub forgotten: Vec<String>,
}

/// Opens the addresses of `settings`. If a listener of the server `before` has an address, takes its sockets. Encrypted listeners
/// make their session tickets from `secret`, or else from a new one.
///
/// # Errors
/// An address cannot be opened, or a certificate is unusable; the message says which, and why. Then no new socket stays open.
pub fn follow(settings: &Settings, before: Vec<Listener>, secret: Option<Secret>) -> Result<Followed, String> {
    let settings = with_chosen_ports(settings, &before)?;
    let firsts = before.iter().filter_map(|listener| listener.sockets.first());
    let copies = firsts.map(OwnedFd::try_clone).collect::<Result<_, _>>();
    let copies = copies.map_err(|error| format!("no descriptor for a socket: {error}"))?;
    let mut listeners = open_or_take(&settings, &mut Kept::in_use(copies))?;
    if let Err(why) = secure(&mut listeners, secret.map(|secret| Vault { secret, materials: Vec::new() })) {
        listeners.iter_mut().for_each(Listener::remove_file);
        return Err(why);
    }
    let (mut dropped, mut forgotten) = (Vec::new(), Vec::new());
    for mut known in before {
        let Some(listener) = listeners.iter_mut().find(|listener| listener.address() == known.address()) else {
            forgotten.extend(known.stored.then(|| known.display.clone()));
            dropped.push(known);
            continue;
        };
        // If the file of a Unix socket was gone, a new socket is there.
        if listener.lent {
            listener.sockets.extend(known.sockets.drain(1..));
            listener.stored = known.stored && listener.display == known.display;
        }
        forgotten.extend((known.stored && !listener.stored).then_some(known.display));
    }
    Ok(Followed { listeners, dropped, forgotten })
}

/// Gives addresses whose port the kernel chooses the ports that it has chosen for the server before.
fn with_chosen_ports(settings: &Settings, before: &[Listener]) -> Result<Settings, String> {
    let mut settings = settings.clone();
    let mut named = Vec::new();
    for address in &settings.listen {
        if let SocketAddress::Tcp { host, port: port @ 1.. } = &address.socket {
            named.extend(addresses_of(host, *port)?);
        }
    }
    for address in &mut settings.listen {
        let SocketAddress::Tcp { host, port: port @ 0 } = &mut address.socket else { continue };
        let wanted = addresses_of(host, 0)?;
        let bound = before.iter().filter_map(|listener| SocketAddr::try_from(listener.bound_to()?).ok());
        let mut free = bound.filter(|bound| !named.contains(bound) && wanted.iter().any(|wanted| wanted.ip() == bound.ip()));
        if let Some(found) = free.next() {
            *port = found.port();
            named.extend(wanted.iter().map(|wanted| SocketAddr::new(wanted.ip(), found.port())));
        }
    }
    Ok(settings)
}

#[cfg(test)]
mod tests;
