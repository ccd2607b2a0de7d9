//! The peer's address as text, rendered once for all requests of a connection.

use oribi_io::Peer;
use std::io::Write;
use std::net::IpAddr;

/// An IPv6 address has up to 39 bytes; an address from a web server may also name a zone.
const LONGEST_ADDRESS: usize = 41;
const LONGEST_PORT: usize = 5;
const TEXT_BYTES: usize = LONGEST_ADDRESS + LONGEST_PORT;

/// The peer's address as text, rendered once for all requests of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Remote {
    text: [u8; TEXT_BYTES],
    address: u8,
    end: u8,
}

impl Default for Remote {
    fn default() -> Self {
        Self { text: [0; TEXT_BYTES], address: 0, end: 0 }
    }
}

impl Remote {
    pub(super) fn new(peer: Peer) -> Self {
        let mut text = [0; TEXT_BYTES];
        let mut rest = &mut text[..];
        // The writes cannot fail, because the text has room for every address.
        let (address, end) = match peer {
            Peer::Internet(socket) => {
                let _ = match socket.ip().to_canonical() {
                    IpAddr::V4(address) => write!(rest, "{address}"),
                    IpAddr::V6(address) => write!(rest, "{address}"),
                };
                let address = TEXT_BYTES - rest.len();
                let _ = write!(rest, "{}", socket.port());
                (address, TEXT_BYTES - rest.len())
            }
            // Other application servers report this for the peer of a Unix socket.
            Peer::Local => {
                let _ = write!(rest, "0");
                (0, 1)
            }
        };
        Self { text, address: address as u8, end: end as u8 }
    }

    /// An address from a web server, cut if it is too long.
    pub(super) fn given(address: &[u8], port: &[u8]) -> Self {
        let mut text = [0; TEXT_BYTES];
        let bytes = address.iter().take(LONGEST_ADDRESS).chain(port.iter().take(LONGEST_PORT));
        text.iter_mut().zip(bytes).for_each(|(place, &byte)| *place = byte);
        let end = address.len().min(LONGEST_ADDRESS) + port.len().min(LONGEST_PORT);
        Self { text, address: address.len().min(LONGEST_ADDRESS) as u8, end: end as u8 }
    }

    /// The address as a number; `None` for the peer of a Unix socket, and for text that is no address.
    pub(super) fn ip(&self) -> Option<IpAddr> {
        str::from_utf8(self.address()).ok()?.parse().ok()
    }

    #[inline]
    pub(super) fn address(&self) -> &[u8] {
        &self.text[..self.address as usize]
    }

    #[inline]
    pub(super) fn port(&self) -> &[u8] {
        &self.text[self.address as usize..self.end as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::Remote;
    use oribi_io::Peer;

    #[test]
    fn the_longest_address_fits() {
        let peer = "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535".parse().map(Peer::Internet);
        let remote = Remote::new(peer.unwrap_or(Peer::Local));
        assert_eq!((remote.address(), remote.port()), (&b"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"[..], &b"65535"[..]));
        let peer = "[::ffff:127.0.0.1]:80".parse().map(Peer::Internet);
        let remote = Remote::new(peer.unwrap_or(Peer::Local));
        assert_eq!((remote.address(), remote.port()), (&b"127.0.0.1"[..], &b"80"[..]));
        let remote = Remote::new(Peer::Local);
        assert_eq!((remote.address(), remote.port()), (&b""[..], &b"0"[..]));
    }
}
