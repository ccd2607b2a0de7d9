//! A change of listeners for a running edge: a file in memory with everything but the sockets, which follow as descriptors.
//!
//! The file contains keys, as a [vault](super::Vault) does.

use super::difference::ListenChange;
use super::listener::Listener;
use super::sockets::Shard;
use oribi_config::{Offer, Protocol, ProxyProtocol};
use oribi_tls::{Material, Secret, Server};
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// The parts of a listener.
const PARTS: usize = 11;

/// A change of listeners as edges get it.
#[derive(Debug)]
pub struct SentListeners {
    file: OwnedFd,
    /// The sockets of each new listener.
    sockets: Vec<Vec<OwnedFd>>,
}

/// A new listener in an edge: its description, its sockets in this edge, and the number of all its sockets.
#[derive(Debug)]
pub struct ReceivedListener {
    /// The description.
    pub listener: Listener,
    /// The sockets of this edge.
    pub sockets: Vec<OwnedFd>,
    /// The number of all sockets.
    pub count: usize,
}

/// A change of listeners in an edge.
#[derive(Debug, Default)]
pub struct ReceivedListeners {
    /// The numbers of listeners that others replace.
    pub left: Vec<u32>,
    /// The new listeners.
    pub added: Vec<ReceivedListener>,
}

impl SentListeners {
    /// Writes a change.
    ///
    /// # Errors
    /// The system has no memory or no descriptors.
    pub fn of(change: &ListenChange) -> io::Result<Self> {
        let mut file = File::from(memfd_create("oribi-listeners", MemfdFlags::CLOEXEC)?);
        let left: Vec<u8> = change.replacing.iter().flat_map(|(id, _)| id.to_ne_bytes()).collect();
        let mut text = Vec::new();
        add(&mut text, &left);
        let mut all = Vec::new();
        for listener in change.opened.iter().chain(change.replacing.iter().map(|(_, listener)| listener)) {
            describe(listener, &mut text);
            all.push(listener.sockets().map(OwnedFd::try_clone).collect::<io::Result<Vec<_>>>()?);
        }
        file.write_all(&text)?;
        Ok(Self { file: file.into(), sockets: all })
    }

    /// Returns the descriptors for the edge with this shard.
    #[must_use]
    pub fn descriptors(&self, shard: Shard) -> Vec<BorrowedFd<'_>> {
        let mine = |sockets: &'_ Vec<OwnedFd>| -> Vec<usize> {
            (0..sockets.len()).filter(|socket| shard.has(*socket, sockets.len())).collect()
        };
        let sockets = self.sockets.iter().flat_map(|all| mine(all).into_iter().map(|socket| all[socket].as_fd()));
        std::iter::once(self.file.as_fd()).chain(sockets).collect()
    }
}

impl ReceivedListeners {
    /// Reads a change from the descriptors for the edge with this shard. `present` are its listeners.
    ///
    /// # Errors
    /// The change cannot be understood or used; the message says why.
    pub fn read(descriptors: Vec<OwnedFd>, shard: Shard, present: &[Listener]) -> Result<Self, String> {
        let unusable = || "the listeners from the master cannot be understood".to_owned();
        let mut descriptors = descriptors.into_iter();
        let file = File::from(descriptors.next().ok_or_else(unusable)?);
        let size = file.metadata().map_err(|error| error.to_string())?.len();
        let mut text = vec![0; usize::try_from(size).map_err(|_| unusable())?];
        file.read_exact_at(&mut text, 0).map_err(|error| error.to_string())?;
        let parts = split(&text).ok_or_else(unusable)?;
        let (left, parts) = parts.split_first().ok_or_else(unusable)?;
        let (numbers, _) = left.as_chunks::<4>();
        let left = numbers.iter().map(|number| u32::from_ne_bytes(*number)).collect();
        let (listeners, rest) = parts.as_chunks::<PARTS>();
        if !rest.is_empty() {
            return Err(unusable());
        }
        let mut added = Vec::new();
        for parts in listeners {
            let (mut listener, count) = understand(parts)?.ok_or_else(unusable)?;
            listener.answer_as(present);
            let mine = (0..count).filter(|socket| shard.has(*socket, count)).count();
            let sockets: Vec<OwnedFd> = descriptors.by_ref().take(mine).collect();
            if sockets.len() < mine {
                return Err(unusable());
            }
            added.push(ReceivedListener { listener, sockets, count });
        }
        Ok(Self { left, added })
    }
}

fn add(text: &mut Vec<u8>, part: &[u8]) {
    text.extend((part.len() as u64).to_ne_bytes());
    text.extend_from_slice(part);
}

fn split(mut text: &[u8]) -> Option<Vec<&[u8]>> {
    let mut parts = Vec::new();
    while !text.is_empty() {
        let (size, rest) = text.split_first_chunk()?;
        let (part, rest) = rest.split_at_checked(usize::try_from(u64::from_ne_bytes(*size)).ok()?)?;
        parts.push(part);
        text = rest;
    }
    Some(parts)
}

fn describe(listener: &Listener, text: &mut Vec<u8>) {
    let flags = [listener.unix, listener.lent, listener.protocol == Protocol::FastCgi].map(u8::from);
    let count = listener.sockets().count() as u64;
    let offer = listener.offer.as_ref().map(ToString::to_string).unwrap_or_default();
    let tls = listener.tls.as_ref();
    let (material, secret) =
        tls.map_or_else(Default::default, |server| (server.material().to_bytes(), server.secret().to_bytes().to_vec()));
    let parts: [&[u8]; PARTS] = [
        &listener.id.to_ne_bytes(),
        &count.to_ne_bytes(),
        &flags,
        listener.display.as_bytes(),
        listener.proxy_protocol.name().as_bytes(),
        listener.server_name.as_bytes(),
        listener.server_port.as_bytes(),
        offer.as_bytes(),
        listener.thumbprint.as_deref().unwrap_or_default().as_bytes(),
        &material,
        &secret,
    ];
    parts.iter().for_each(|part| add(text, part));
}

/// Makes a listener of its parts. `None` if they make no sense. An error says why its certificates cannot be used.
fn understand(parts: &[&[u8]; PARTS]) -> Result<Option<(Listener, usize)>, String> {
    let [id, count, flags, display, proxy, name, port, offer, thumbprint, material, secret] = *parts;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
    let read = || {
        let [unix, lent, fastcgi] = *flags else { return None };
        let protocol = if fastcgi == 0 { Protocol::Http } else { Protocol::FastCgi };
        let listener = Listener {
            id: u32::from_ne_bytes(id.try_into().ok()?),
            sockets: Vec::new(),
            display: text(display)?,
            protocol,
            proxy_protocol: ProxyProtocol::parse(&text(proxy)?).ok()?,
            server_name: text(name)?,
            server_port: text(port)?,
            unix: unix != 0,
            lent: lent != 0,
            stored: false,
            offer: if offer.is_empty() { None } else { Some(Offer::parse(&text(offer)?)?) },
            tls: None,
            thumbprint: text(thumbprint).filter(|text| !text.is_empty()).map(Arc::from),
            file: None,
        };
        Some((listener, usize::try_from(u64::from_ne_bytes(count.try_into().ok()?)).ok()?))
    };
    let Some((mut listener, count)) = read() else { return Ok(None) };
    if let Some(offer) = &listener.offer {
        let (Some(material), Some(secret)) = (Material::from_bytes(material), Secret::from_bytes(secret)) else {
            return Ok(None);
        };
        listener.tls = Some(Arc::new(Server::new(material, offer.options.clone(), secret)?));
    }
    Ok(Some((listener, count)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AddressPlan;
    use oribi_config::{ListenAddress, Settings};

    fn change() -> (ListenChange, Vec<Listener>) {
        let port =
            std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free").local_addr().expect("it is bound").port();
        let settings = |more: &[&str]| {
            let addresses = more.iter().map(|more| ListenAddress::parse(&format!("127.0.0.1:{port}{more}")));
            Settings { listen: addresses.map(|address| address.expect("an address")).collect(), ..Settings::default() }
        };
        let (before, after) = (settings(&[""]), settings(&["?proxy_protocol=v2"]));
        let present = crate::open(&before).expect("the port is free");
        let plan = AddressPlan::compare(&before, &after, &present).expect("it can change");
        (plan.open(&after, &present, 7).expect("nothing is opened"), present)
    }

    #[test]
    fn an_edge_understands_the_listeners() {
        let (change, present) = change();
        let sent = SentListeners::of(&change).expect("there is memory");
        let copies = sent.descriptors(Shard::ONLY).into_iter().map(|one| one.try_clone_to_owned().expect("a descriptor"));
        let received = ReceivedListeners::read(copies.collect(), Shard::ONLY, &present).expect("it is whole");
        assert_eq!(received.left, [0]);
        let [ReceivedListener { listener, sockets, count: 1 }] = &received.added[..] else { panic!("{received:?}") };
        assert_eq!((listener.id, sockets.len()), (7, 1));
        assert_eq!(listener.display, present[0].display);
        assert_eq!(listener.proxy_protocol, change.replacing[0].1.proxy_protocol);
        let file = vec![sent.file.try_clone().expect("a descriptor")];
        assert!(ReceivedListeners::read(file, Shard::ONLY, &present).is_err(), "the socket is missing");
    }

    #[test]
    fn a_part_of_the_text_is_refused() {
        let (change, _) = change();
        let mut text = Vec::new();
        describe(&change.replacing[0].1, &mut text);
        let whole = split(&text).expect("it is whole").len();
        assert_eq!(whole, PARTS);
        for size in 0..text.len() {
            assert!(split(&text[..size]).is_none_or(|parts| parts.len() < PARTS), "{size} bytes");
        }
    }
}
