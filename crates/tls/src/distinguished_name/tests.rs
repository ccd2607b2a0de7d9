//! Ordinary names and odd ones.

use super::distinguished_name;
use crate::der::{IDENTIFIER, SEQUENCE, SET, encode};

/// A part of a name, with one attribute.
fn part(identifier: &[u8], tag: u8, value: &[u8]) -> Vec<u8> {
    encode(SET, &[&encode(SEQUENCE, &[&encode(IDENTIFIER, &[identifier]), &encode(tag, &[value])])])
}

const CN: &[u8] = &[0x55, 4, 3];

#[test]
fn the_last_part_comes_first() {
    let name = [
        part(&[0x55, 4, 6], 0x13, b"DE"),
        part(&[0x55, 4, 10], 0x0c, b"Some = Firm"),
        part(CN, 0x0c, b"a.example"),
        part(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1], 0x16, b"a@b.example"),
    ];
    assert_eq!(distinguished_name(&name.concat()).as_deref(), Some("emailAddress=a@b.example,CN=a.example,O=Some = Firm,C=DE"));
    assert_eq!(distinguished_name(&[]).as_deref(), Some(""));
    let pair = [
        encode(SEQUENCE, &[&encode(IDENTIFIER, &[CN]), &encode(0x0c, &[b"a"])]),
        encode(SEQUENCE, &[&encode(IDENTIFIER, &[&[0x55, 4, 11]]), &encode(0x0c, &[b"b"])]),
    ];
    assert_eq!(distinguished_name(&encode(SET, &[&pair.concat()])).as_deref(), Some("CN=a+OU=b"));
}

#[test]
fn nothing_in_a_value_can_be_taken_for_something_else() {
    for (tag, value, expected) in [
        (0x0c, &b"a,b+c\"d\\e<f>g;h"[..], "a\\,b\\+c\\\"d\\\\e\\<f\\>g\\;h"),
        (0x0c, b" a b ", "\\ a b\\ "),
        (0x0c, b" ", "\\ "),
        (0x0c, b"#a#", "\\#a#"),
        (0x0c, b"a\0b\r\nC: d\x7f", "a\\00b\\0D\\0AC: d\\7F"),
        (0x0c, b"\xff\xfe\xc3", "\\FF\\FE\\C3"),
        (0x0c, "\u{e4}".as_bytes(), "\\C3\\A4"),
        (0x14, b"\xe4", "\\C3\\A4"),
        (0x1e, b"\x00a\x20\xac", "a\\E2\\82\\AC"),
        (0x1e, b"\xd8\x00", "\\EF\\BF\\BD"),
        (0x1e, b"\x00", "#1E0100"),
        (0x1c, b"\x00\x00\x00a\x00\x11\x00\x00", "a\\EF\\BF\\BD"),
        (0x04, b"\0,", "#0402002C"),
        (0x0c, b"", ""),
    ] {
        let told = distinguished_name(&part(CN, tag, value)).expect("it is a name");
        assert_eq!(told, format!("CN={expected}"));
    }
    let unknown = distinguished_name(&part(&[0x2a, 0x86, 0x48, 0x01], 0x0c, b"a,b"));
    assert_eq!(unknown.as_deref(), Some("1.2.840.1=#0C03612C62"));
}

#[test]
fn what_is_no_name_is_refused_and_nothing_panics() {
    let good = [part(CN, 0x0c, b"a"), part(&[0x55, 4, 6], 0x13, b"DE")].concat();
    for size in 1..good.len() {
        assert!(distinguished_name(&good[..size]).is_none() || size == 12, "{size}");
    }
    for place in 0..good.len() {
        for byte in 0..=u8::MAX {
            let mut other = good.clone();
            other[place] = byte;
            if let Some(text) = distinguished_name(&other) {
                assert!(text.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{text:?}");
            }
        }
    }
    for identifier in [&[][..], &[0x80], &[0x55, 0x84], &[0xff; 12]] {
        assert_eq!(distinguished_name(&part(identifier, 0x0c, b"a")), None, "{identifier:?}");
    }
}
