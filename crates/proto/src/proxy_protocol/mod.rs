//! The PROXY protocol, the receiver's side: a header at the beginning of a connection, in which a proxy that passes on bytes
//! names its client (proxy-protocol.txt of HAProxy, versions 1 and 2).
//!
//! The header is not optional: a receiver that guesses whether there is a header lets every client choose an address. The way
//! in which the bytes of the header are cut into packets does not change the result.

mod v1;
mod v2;

use core::net::SocketAddr;

/// The accepted versions of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Versions {
    /// Only the line of text.
    One,
    /// Only the binary header.
    Two,
    /// Both.
    Both,
}

/// The client of the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// A client with this address. An IPv4 address that was sent as IPv6 becomes IPv4.
    Address(SocketAddr),
    /// A client whose address the proxy does not know or does not send (`UNKNOWN`, `AF_UNSPEC`, a Unix socket).
    Unknown,
    /// The proxy itself, which checks the health of this server (`LOCAL`).
    Proxy,
}

/// The result of reading the first bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The header is not complete.
    NeedInput,
    /// The header is complete.
    Header {
        /// The number of bytes of the header; later bytes are the client's.
        consumed: usize,
        /// The client of the proxy.
        client: Client,
    },
    /// The bytes are not such a header: the reason, for the log. Further bytes cannot change that.
    Refused(&'static str),
}

/// The most bytes of a header: far more than proxies send.
pub const LONGEST: usize = v2::LONGEST;

#[cfg(test)]
mod tests;

const NONE: &str = "it does not begin with a PROXY header";

/// Reads the header. `input` is all bytes of the connection that have arrived so far.
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
