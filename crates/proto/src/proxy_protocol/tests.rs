//! Reads headers whole, at every split, and with other bytes after them.

use super::{Client, LONGEST, Step, Versions, read};
use std::format;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

/// The header read from `bytes`, as text: the client and the number of the header's bytes; read whole, and after each prefix.
#[track_caller]
fn told(bytes: &[u8], versions: Versions) -> String {
    let whole = read(bytes, versions);
    for size in 0..=bytes.len() {
        match (read(&bytes[..size], versions), whole) {
            (Step::NeedInput, Step::Header { consumed, .. }) => assert!(size < consumed, "{size} of {bytes:?}"),
            (Step::NeedInput, Step::NeedInput | Step::Refused(_)) => {}
            (early, whole) => assert_eq!(early, whole, "{size} of {bytes:?}"),
        }
    }
    if let Step::Header { consumed, .. } = whole {
        for behind in [&b"GET / HTTP/1.1\r\n"[..], b"PROXY TCP4 1.1.1.1 1.1.1.1 1 1\r\n", b"\r\n\r\n\0\r\nQUIT\n", b"\0"] {
            assert_eq!(read(&[&bytes[..consumed], behind].concat(), versions), whole, "{bytes:?}");
        }
    }
    match whole {
        Step::NeedInput => "more".to_string(),
        Step::Refused(why) => why.to_string(),
        Step::Header { consumed, client: Client::Address(address) } => format!("{address} in {consumed}"),
        Step::Header { consumed, client } => format!("{client:?} in {consumed}"),
    }
}

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// A header of version 2.
fn binary(version_and_command: u8, family: u8, content: &[u8]) -> Vec<u8> {
    let size = (content.len() as u16).to_be_bytes();
    [SIGNATURE, &[version_and_command, family], &size, content].concat()
}

const FOUR: [u8; 12] = [192, 0, 2, 1, 198, 51, 100, 1, 0xdc, 4, 1, 187];

#[test]
fn lines_of_version_1() {
    for (line, expected) in [
        ("PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n", "192.0.2.1:56324 in 45"),
        ("PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n", "255.255.255.255:65535 in 56"),
        ("PROXY TCP6 2001:db8::1 ::1 0 443\r\n", "[2001:db8::1]:0 in 34"),
        ("PROXY TCP6 ::ffff:192.0.2.1 ::1 1 443\r\n", "192.0.2.1:1 in 39"),
        ("PROXY UNKNOWN\r\n", "Unknown in 15"),
        ("PROXY UNKNOWN ffff::f ffff::f 65535 \u{7}\r\n", "Unknown in 39"),
        ("PROXY TCP4 192.0.2.1 198.51.100.1 56324 443", "more"),
        ("PROXY", "more"),
        ("", "more"),
        ("PROXY \r\n", "its PROXY line is malformed"),
        ("PROXY UNKNOWNS\r\n", "its PROXY line is malformed"),
        ("PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\n", "its PROXY line is malformed"),
        ("PROXY TCP4 192.0.2.1 198.51.100.1 56324 443 \r\n", "its PROXY line is malformed"),
        ("PROXY  TCP4 192.0.2.1 198.51.100.1 56324 443\r\n", "its PROXY line is malformed"),
        ("PROXY TCP4 192.0.2.1 198.51.100.1 56324\r\n", "its PROXY line is malformed"),
        ("PROXY TCP4 192.0.2.1 198.51.100.1 056324 443\r\n", "its PROXY line is malformed"),
        ("PROXY TCP4 192.0.2.1 198.51.100.1 65536 443\r\n", "its PROXY line is malformed"),
        ("PROXY TCP4 192.0.2.1 198.51.100.1 +1 443\r\n", "its PROXY line is malformed"),
        ("PROXY TCP4 192.0.2.1 198.51.100.1  443\r\n", "its PROXY line is malformed"),
        ("PROXY TCP4 192.0.2.256 198.51.100.1 1 443\r\n", "its PROXY line is malformed"),
        ("PROXY TCP4 ::1 ::1 1 443\r\n", "its PROXY line is malformed"),
        ("PROXY TCP6 192.0.2.1 ::1 1 443\r\n", "its PROXY line is malformed"),
        ("PROXY TCP6 fe80::1%1 ::1 1 443\r\n", "its PROXY line is malformed"),
        ("PROXY UDP4 192.0.2.1 198.51.100.1 1 443\r\n", "its PROXY line is malformed"),
        ("PROXY tcp4 192.0.2.1 198.51.100.1 1 443\r\n", "its PROXY line is malformed"),
        ("proxy TCP4 192.0.2.1 198.51.100.1 1 443\r\n", "it does not begin with a PROXY header"),
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "it does not begin with a PROXY header"),
        ("\r\nPROXY TCP4 192.0.2.1 198.51.100.1 1 443\r\n", "it does not begin with a PROXY header"),
    ] {
        assert_eq!(told(line.as_bytes(), Versions::Both), expected, "{line:?}");
        assert_eq!(told(line.as_bytes(), Versions::One), expected, "{line:?}");
    }
    let line = |size: usize| format!("PROXY UNKNOWN {}\r\n", "x".repeat(size - 16));
    assert_eq!(told(line(107).as_bytes(), Versions::One), "Unknown in 107");
    assert_eq!(told(line(108).as_bytes(), Versions::One), "its PROXY line has no end within 107 bytes");
}

#[test]
fn headers_of_version_2() {
    let six = [&[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1][..], &[0; 16], &[0, 80, 1, 187]].concat();
    let values = [&FOUR[..], &[4, 0, 3, 1, 2, 3, 0x20, 0, 0]].concat();
    for (bytes, expected) in [
        (binary(0x21, 0x11, &FOUR), "192.0.2.1:56324 in 28"),
        (binary(0x21, 0x21, &six), "[2001:db8::1]:80 in 52"),
        (binary(0x21, 0x11, &values), "192.0.2.1:56324 in 37"),
        (binary(0x21, 0x31, &[7; 216]), "Unknown in 232"),
        (binary(0x21, 0x00, &[]), "Unknown in 16"),
        (binary(0x21, 0x00, &[1, 0, 1, 9]), "Unknown in 20"),
        (binary(0x20, 0x00, &[]), "Proxy in 16"),
        (binary(0x20, 0x11, &FOUR), "Proxy in 28"),
        (binary(0x20, 0xff, &[9; 5]), "Proxy in 21"),
        (binary(0x21, 0x11, &vec![0; 5000]), "its PROXY header exceeds 4096 bytes"),
        (binary(0x21, 0x11, &FOUR[..11]), "its PROXY header is too short for its addresses"),
        (binary(0x21, 0x21, &six[..35]), "its PROXY header is too short for its addresses"),
        (binary(0x21, 0x31, &[7; 215]), "its PROXY header is too short for its addresses"),
        (binary(0x21, 0x11, &values[..20]), "a value in its PROXY header is cut off"),
        (binary(0x21, 0x11, &values[..13]), "a value in its PROXY header is cut off"),
        (binary(0x21, 0x12, &FOUR), "its PROXY header is one for datagrams"),
        (binary(0x21, 0x41, &FOUR), "its PROXY header has an unknown family of addresses"),
        (binary(0x22, 0x11, &FOUR), "its PROXY header has an unknown command"),
        (binary(0x11, 0x11, &FOUR), "it does not begin with a PROXY header"),
        (SIGNATURE.to_vec(), "more"),
        (b"\r\n\r\nGET".to_vec(), "it does not begin with a PROXY header"),
    ] {
        assert_eq!(told(&bytes, Versions::Both), expected, "{bytes:?}");
        assert_eq!(told(&bytes, Versions::Two), expected, "{bytes:?}");
    }
    let filled = |size: usize| binary(0x20, 0, &vec![0; size - 16]);
    assert_eq!(told(&filled(LONGEST), Versions::Two), "Proxy in 4096");
}

#[test]
fn the_other_version_is_refused() {
    let line = b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n";
    assert_eq!(told(line, Versions::Two), "its PROXY header is of version 1");
    assert_eq!(told(&binary(0x21, 0x11, &FOUR), Versions::One), "its PROXY header is of version 2");
}
