//! The examples of the standards, and messages that are valid.

use crate::session::{Received, raw, read, text};
use oribi_websocket::{Deflater, Limits};

#[track_caller]
fn gives(bytes: &[u8], deflate: bool, expected: &[Received]) {
    assert_eq!(read(bytes, deflate, Limits::default()), (expected.to_vec(), None));
}

#[test]
fn frames() {
    // RFC 6455, section 5.7.
    gives(b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58", false, &[text("Hello")]);
    gives(b"\x8a\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58", false, &[Received::Pong(b"Hello".to_vec())]);
    gives(&raw(0x89, b"Hello"), false, &[Received::Ping(b"Hello".to_vec())]);
    gives(&[raw(0x01, b"Hel"), raw(0x80, b"lo")].concat(), false, &[text("Hello")]);
    gives(&raw(0x82, &[7; 256]), false, &[Received::Binary(vec![7; 256])]);
    gives(&raw(0x82, &[7; 65_536]), false, &[Received::Binary(vec![7; 65_536])]);
}

#[test]
fn compressed_frames() {
    // RFC 7692, section 7.2.3.
    let hello = b"\xf2\x48\xcd\xc9\xc9\x07\x00";
    gives(&raw(0xc1, hello), true, &[text("Hello")]);
    gives(&[raw(0x41, &hello[..3]), raw(0x80, &hello[3..])].concat(), true, &[text("Hello")]);
    gives(&raw(0xc1, b"\x00\x05\x00\xfa\xff\x48\x65\x6c\x6c\x6f\x00"), true, &[text("Hello")]);
    gives(&raw(0xc1, b"\xf3\x48\xcd\xc9\xc9\x07\x00\x00"), true, &[text("Hello")]);
    gives(&raw(0xc1, b"\xf2\x48\x05\x00\x00\x00\xff\xff\xca\xc9\xc9\x07\x00"), true, &[text("Hello")]);
    // Section 7.2.3.6: an empty message, as one byte, and as others write it.
    gives(&raw(0xc1, b"\x00"), true, &[text("")]);
    gives(&raw(0xc2, b"\x02\x00"), true, &[Received::Binary(Vec::new())]);
    // A last block without the byte that section 7.2.3.4 wants behind it.
    gives(&raw(0xc1, b"\xf3\x48\xcd\xc9\xc9\x07\x00"), true, &[text("Hello")]);
    // Messages that are not compressed, on a connection that could.
    gives(
        &[raw(0x81, b"a"), raw(0xc1, hello), raw(0x01, b"b"), raw(0x80, b"c")].concat(),
        true,
        &[text("a"), text("Hello"), text("bc")],
    );
}

#[test]
fn no_message_refers_to_an_earlier_one() {
    let message = "0123456789".repeat(100);
    let mut deflater = Deflater::new(6);
    let first = deflater.compress(message.as_bytes(), 15).expect("digits are compressed").to_vec();
    let second = deflater.compress(message.as_bytes(), 15).expect("digits are compressed").to_vec();
    assert_eq!(first, second);
    gives(&[raw(0xc1, &first), raw(0xc1, &second)].concat(), true, &[text(&message), text(&message)]);
}

#[test]
fn control_frames_come_between_fragments() {
    let bytes = [
        raw(0x01, "sch\u{f6}n".as_bytes()),
        raw(0x89, b"?"),
        raw(0x00, b""),
        raw(0x8a, &[0; 125]),
        raw(0x00, b" "),
        raw(0x80, "\u{1f600}".as_bytes()),
        raw(0x88, b"\x03\xe8bye"),
    ]
    .concat();
    gives(
        &bytes,
        false,
        &[
            Received::Ping(b"?".to_vec()),
            Received::Pong(vec![0; 125]),
            text("sch\u{f6}n \u{1f600}"),
            Received::Close(1000, "bye".to_owned()),
        ],
    );
}

#[test]
fn characters_are_split_between_frames() {
    let characters = "\u{7f}\u{80}\u{7ff}\u{800}\u{d7ff}\u{e000}\u{ffff}\u{10000}\u{10ffff}";
    let mut bytes = raw(0x01, b"");
    for byte in characters.as_bytes() {
        bytes.extend(raw(0x00, &[*byte]));
    }
    bytes.extend(raw(0x80, b""));
    gives(&bytes, false, &[text(characters)]);
}

#[test]
fn the_codes_of_close_frames() {
    gives(&raw(0x88, b""), false, &[Received::Close(1005, String::new())]);
    for code in [1000_u16, 1001, 1002, 1003, 1007, 1011, 1014, 3000, 3999, 4000, 4999] {
        gives(&raw(0x88, &code.to_be_bytes()), false, &[Received::Close(code, String::new())]);
    }
}

#[test]
fn nothing_comes_after_a_close_frame() {
    let close = raw(0x88, b"\x03\xe9");
    for more in [raw(0x81, b"late"), raw(0x88, b""), vec![0xff; 20]] {
        gives(&[close.clone(), more].concat(), false, &[Received::Close(1001, String::new())]);
    }
    // Of a message that the client does not finish, either.
    gives(&[raw(0x01, b"begun"), close].concat(), false, &[Received::Close(1001, String::new())]);
}
