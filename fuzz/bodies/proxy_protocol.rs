//! Properties of all first bytes of a connection that are read as a PROXY header.

use oribi_proto::proxy_protocol::{Client, LONGEST, Step, Versions, read};
use std::net::IpAddr;

/// Checks a PROXY header. The first byte of `data` chooses which versions are accepted.
pub fn check(data: &[u8]) {
    let [choice, bytes @ ..] = data else { return };
    let versions = [Versions::One, Versions::Two, Versions::Both][usize::from(choice % 3)];
    let whole = read(bytes, versions);
    for size in 0..bytes.len() {
        match (read(&bytes[..size], versions), whole) {
            (Step::NeedInput, Step::Header { consumed, .. }) => assert!(size < consumed),
            (Step::NeedInput, _) => {}
            (early, whole) => assert_eq!(early, whole, "after {size} bytes"),
        }
    }
    let Step::Header { consumed, client } = whole else { return };
    assert!(consumed <= LONGEST.min(bytes.len()));
    let header = &bytes[..consumed];
    if header.starts_with(b"PROXY ") {
        assert!(versions != Versions::Two && consumed <= 107 && header.ends_with(b"\r\n"));
        if let Client::Address(address) = client {
            let line = std::str::from_utf8(&header[..consumed - 2]).expect("an address is text");
            let parts: Vec<&str> = line.split(' ').collect();
            let source: IpAddr = parts[2].parse().expect("an address");
            assert_eq!((parts.len(), source.to_canonical()), (6, address.ip()));
            assert_eq!(parts[4], address.port().to_string());
        }
    } else {
        let size = usize::from(u16::from_be_bytes([header[14], header[15]]));
        assert!(versions != Versions::One && consumed == 16 + size);
        assert_eq!(client == Client::Proxy, header[12] == 0x20);
    }
}
