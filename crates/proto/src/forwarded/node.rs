//! The name by which a proxy identifies its client.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address, and the port if it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// The address. An IPv4 address that was written as IPv6 becomes IPv4.
    pub address: IpAddr,
    /// The port; `None` if it is missing or obfuscated.
    pub port: Option<u16>,
}

/// Reads a node: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:80`. `None` if it is not an
/// address, such as `unknown` or an obfuscated name (`_hidden`, RFC 7239, section 6.3), or an address with a zone, which has
/// a meaning only on the machine that wrote it. An obfuscated port (`192.0.2.1:_p`) is an unknown one.
#[must_use]
pub fn node(text: &[u8]) -> Option<Node> {
    // A longer text is not an address with a port.
    let text = core::str::from_utf8(text).ok().filter(|text| text.len() <= "[]:65535".len() + 45)?;
    if let Some(rest) = text.strip_prefix('[') {
        let (address, rest) = rest.split_once(']')?;
        let address: Ipv6Addr = address.parse().ok()?;
        let port = if rest.is_empty() { None } else { port(rest.strip_prefix(':')?)? };
        return Some(Node { address: IpAddr::V6(address).to_canonical(), port });
    }
    if let Some((address, digits)) = text.split_once(':').filter(|(_, rest)| !rest.contains(':')) {
        let address: Ipv4Addr = address.parse().ok()?;
        return Some(Node { address: address.into(), port: port(digits)? });
    }
    let address: IpAddr = text.parse().ok()?;
    Some(Node { address: address.to_canonical(), port: None })
}

/// A port (RFC 7239, section 6): `Some(None)` if it is obfuscated, `None` if it is not a port.
fn port(text: &str) -> Option<Option<u16>> {
    if let Some(name) = text.strip_prefix('_') {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        return (!name.is_empty() && name.bytes().all(fits)).then_some(None);
    }
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok().map(Some) } else { None }
}

#[cfg(test)]
mod tests {
    use super::{Node, node};

    #[test]
    fn addresses_with_and_without_ports() {
        for (text, address, port) in [
            ("192.0.2.1", "192.0.2.1", None),
            ("192.0.2.1:4711", "192.0.2.1", Some(4711)),
            ("192.0.2.1:_p.x-1", "192.0.2.1", None),
            ("2001:db8::1", "2001:db8::1", None),
            ("2001:DB8:0:0::1", "2001:db8::1", None),
            ("[2001:db8::1]", "2001:db8::1", None),
            ("[2001:db8::1]:65535", "2001:db8::1", Some(65535)),
            ("[2001:db8::1]:_x", "2001:db8::1", None),
            ("::ffff:192.0.2.1", "192.0.2.1", None),
            ("[::ffff:192.0.2.1]:1", "192.0.2.1", Some(1)),
            ("[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255]:65535", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Some(65535)),
        ] {
            let address = address.parse().expect(address);
            assert_eq!(node(text.as_bytes()), Some(Node { address, port }), "{text}");
        }
    }

    #[test]
    fn what_is_no_address() {
        for text in [
            "",
            "unknown",
            "_hidden",
            "unix:",
            "localhost",
            "example.org:80",
            "1.2.3",
            "1.2.3.4.5",
            "1.2.3.256",
            "01.2.3.4",
            "1.2.3.4:",
            "1.2.3.4:65536",
            "1.2.3.4:+1",
            "1.2.3.4:a",
            "1.2.3.4:_",
            "1.2.3.4:_a:b",
            "1.2.3.4 ",
            "[1.2.3.4]",
            "[::1",
            "::1]",
            "[::1]80",
            "[::1]:",
            "[::1]:x",
            "[]",
            "[]:80",
            "fe80::1%eth0",
            "[fe80::1%25eth0]:80",
            "[[::1]]",
            "127.0.0.1, 10.0.0.1",
            "\"1.2.3.4\"",
            "1.2.3.4\0",
            "0x7f.0.0.1",
            "2130706433",
            "1::2::3",
        ] {
            assert_eq!(node(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(node(b"\xff\xfe"), None);
        assert_eq!(node(&[b'1'; 10_000]), None);
    }
}
