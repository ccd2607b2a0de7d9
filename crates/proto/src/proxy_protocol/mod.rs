//! The PROXY protocol, the receiver's side: a header at the beginning of a connection, in which a proxy that passes on bytes says
//! who has connected to it (proxy-protocol.txt of HAProxy, versions 1 and 2).
//!
//! The header is not optional: a receiver that guesses whether there is one lets every client choose an address. How its bytes are
//! cut into packets does not change what is read.

mod v1;
mod v2;

use core::net::SocketAddr;

/// Which versions of the header are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Versions {
    /// Only the line of text.
    One,
    /// Only the binary header.
    Two,
    /// Both.
    Both,
}

/// Who has connected to the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// A client with this address. One of IPv4 that was sent as IPv6 is one of IPv4.
    Address(SocketAddr),
    /// Somebody whose address the proxy does not know or does not tell (`UNKNOWN`, `AF_UNSPEC`, a Unix socket).
    Unknown,
    /// The proxy itself: it looks whether this server is well (`LOCAL`).
    Proxy,
}

/// What the first bytes of a connection mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The header is not complete.
    NeedInput,
    /// The header is complete.
    Header {
        /// Its bytes; what follows is the client's.
        consumed: usize,
        /// Who has connected.
        client: Client,
    },
    /// This is no such header: the reason, for the log. It stays none, whatever follows.
    Refused(&'static str),
}

/// The most bytes of a header: nothing that proxies send comes near it.
pub const LONGEST: usize = v2::LONGEST;

#[cfg(test)]
mod tests;

const NONE: &str = "it does not begin with a PROXY header";

/// Reads the header from the first bytes of a connection, all that have arrived.
#[must_use]
pub fn read(input: &[u8], versions: Versions) -> Step {
    let begins = |start: &[u8]| input.iter().zip(start).all(|(byte, expected)| byte == expected);
    let (one, two) = (begins(v1::START), begins(v2::SIGNATURE));
    match versions {
        Versions::One | Versions::Both if one => v1::read(input),
        Versions::Two | Versions::Both if two => v2::read(input),
        Versions::One if two && input.len() >= v2::SIGNATURE.len() => Step::Refused("its PROXY header is of version 2"),
        Versions::Two if one && input.len() >= v1::START.len() => Step::Refused("its PROXY header is of version 1"),
        Versions::One if two => Step::NeedInput,
        Versions::Two if one => Step::NeedInput,
        _ => Step::Refused(NONE),
    }
}
