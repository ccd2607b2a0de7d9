//! Version 1, a line of text: `PROXY TCP4 192.0.2.1 198.51.100.1 56324 443`.

use super::{Client, Step};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use memchr::memchr;

pub(super) const START: &[u8] = b"PROXY ";

/// The longest line, with its CR LF (proxy-protocol.txt, section 2.1).
const LONGEST: usize = 107;

pub(super) fn read(input: &[u8]) -> Step {
    let within = &input[..input.len().min(LONGEST)];
    let Some(end) = memchr(b'\n', within) else {
        let full = within.len() == LONGEST;
        return if full { Step::Refused("its PROXY line has no end within 107 bytes") } else { Step::NeedInput };
    };
    let line = within[..end].strip_suffix(b"\r").and_then(|line| line.strip_prefix(START));
    match line.and_then(|line| str::from_utf8(line).ok()).and_then(client) {
        Some(client) => Step::Header { consumed: end + 1, client },
        None => Step::Refused("its PROXY line is malformed"),
    }
}

/// Reads the text after `PROXY `.
fn client(line: &str) -> Option<Client> {
    // The text after UNKNOWN must be ignored.
    if line == "UNKNOWN" || line.starts_with("UNKNOWN ") {
        return Some(Client::Unknown);
    }
    let mut parts = line.split(' ');
    let family = parts.next()?;
    let (source, destination) = (parts.next()?, parts.next()?);
    let (port, own_port) = (port(parts.next()?)?, port(parts.next()?)?);
    let address = |text: &str| -> Option<IpAddr> {
        match family {
            "TCP4" => text.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
            "TCP6" => text.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
            _ => None,
        }
    };
    let (source, _) = (address(source)?, (address(destination)?, own_port));
    parts.next().is_none().then(|| Client::Address(SocketAddr::new(source.to_canonical(), port)))
}

/// A port, without leading zeros.
fn port(text: &str) -> Option<u16> {
    let fits = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if fits { text.parse().ok() } else { None }
}
