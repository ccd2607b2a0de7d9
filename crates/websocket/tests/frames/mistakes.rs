//! Clients that break a rule: each of them is noticed at the first byte that breaks it.

use crate::session::{Session, raw, read, text};
use oribi_websocket::{Fault, Limits};

/// The fault of `bytes`, behind a message, at each way of cutting them.
#[track_caller]
fn fault(bytes: &[u8], deflate: bool, limits: Limits) -> Fault {
    let (received, fault) = read(&[&raw(0x81, b"first"), bytes].concat(), deflate, limits);
    assert_eq!(received, [text("first")], "{}", bytes.escape_ascii());
    fault.unwrap_or_else(|| panic!("no fault: {}", bytes.escape_ascii()))
}

#[test]
fn bad_frames() {
    let table: &[(&str, u16, &str, &[&[u8]])] = &[
        (
            "reserved bits",
            1002,
            "a frame has reserved bits set",
            &[b"\xc1", b"\xa1", b"\x91", b"\xf1", b"\xc9", b"\xc8", b"\x01\x81\0\0\0\0a\xc0"],
        ),
        (
            "unknown opcodes",
            1002,
            "a frame has an unknown opcode",
            &[b"\x83", b"\x84", b"\x85", b"\x86", b"\x87", b"\x8b", b"\x8c", b"\x8d", b"\x8e", b"\x8f", b"\x03", b"\x0b"],
        ),
        ("fragmented control frames", 1002, "a control frame is fragmented", &[b"\x08", b"\x09", b"\x0a"]),
        (
            "long control frames",
            1002,
            "a control frame has more than 125 bytes",
            &[b"\x88\xfe", b"\x89\xfe", b"\x8a\xff", b"\x01\x81\0\0\0\0a\x89\xfe"],
        ),
        ("no mask", 1002, "a frame is not masked", &[b"\x81\x05", b"\x81\x00", b"\x82\x7e", b"\x89\x7f"]),
        (
            "long lengths",
            1002,
            "the length of a frame is not in its shortest form",
            &[b"\x81\xfe\0\0", b"\x81\xfe\0\x7d", b"\x82\xff\0\0\0\0\0\0\0\0", b"\x82\xff\0\0\0\0\0\0\xff\xff"],
        ),
        ("the highest bit", 1002, "the length of a frame has its highest bit set", &[b"\x82\xff\x80", b"\x82\xff\xff\xff"]),
        ("a fragment alone", 1002, "a frame continues no message", &[b"\x80", b"\x00"]),
        (
            "a message within another",
            1002,
            "a message begins before the last one has ended",
            &[b"\x01\x80\0\0\0\0\x81", b"\x02\x80\0\0\0\0\x02", b"\x02\x80\0\0\0\0\x00\x81\0\0\0\0a\x01"],
        ),
        ("a short close", 1002, "a close frame has one byte", &[b"\x88\x81\0\0\0\0\x03"]),
    ];
    for (name, code, reason, inputs) in table {
        for input in *inputs {
            assert_eq!(fault(input, false, Limits::default()), Fault { code: *code, reason }, "{name}");
        }
    }
}

#[test]
fn reserved_bits_where_compression_was_agreed_upon() {
    for input in [&b"\xa1"[..], b"\xd1", b"\xc8", b"\xc9", b"\xca", b"\x41\x81\0\0\0\0a\xc0", b"\x41\x81\0\0\0\0a\x40"] {
        assert_eq!(fault(input, true, Limits::default()).reason, "a frame has reserved bits set");
    }
    // Frames that continue nothing are a mistake before their bits are.
    assert_eq!(fault(b"\x80", true, Limits::default()).reason, "a frame continues no message");
}

#[test]
fn bad_codes() {
    for code in [0_u16, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65_535] {
        let fault = fault(&raw(0x88, &code.to_be_bytes()), false, Limits::default());
        assert_eq!(fault, Fault { code: 1002, reason: "a close frame has an invalid status code" }, "{code}");
    }
    assert_eq!(fault(&raw(0x88, b"\x03\xe8\xff"), false, Limits::default()).code, 1007);
}

#[test]
fn bad_text() {
    for bytes in [
        &b"\x80"[..],
        b"\xbf",
        b"\xc0\xaf",
        b"\xc1\xbf",
        b"\xc3(",
        b"\xe0\x80\xaf",
        b"\xe2\x28\xa1",
        b"\xed\xa0\x80",
        b"\xed\xbf\xbf",
        b"\xf0\x80\x80\xaf",
        b"\xf4\x90\x80\x80",
        b"\xf5\x80\x80\x80",
        b"\xfe",
        b"\xff",
    ] {
        let expected = Fault { code: 1007, reason: "a text is not UTF-8" };
        let text = [b"caf\xc3\xa9 ", bytes].concat();
        assert_eq!(fault(&raw(0x81, &text), false, Limits::default()), expected, "{}", bytes.escape_ascii());
        // Without the end of the message.
        assert_eq!(fault(&raw(0x01, &text), false, Limits::default()), expected, "{}", bytes.escape_ascii());
    }
    // Characters that the message ends within.
    for bytes in [&b"\xc3"[..], b"\xe2\x82", b"\xf0\x9f\x98"] {
        assert_eq!(fault(&raw(0x81, bytes), false, Limits::default()).code, 1007);
        let fragments = [raw(0x01, bytes), raw(0x80, b"")].concat();
        assert_eq!(fault(&fragments, false, Limits::default()).code, 1007);
    }
}

#[test]
fn text_fails_at_its_first_bad_byte() {
    // A frame that announces more, and whose next byte cannot belong to the character.
    let frame = raw(0x81, b"ab\xf4\x90and many bytes more");
    let mut session = Session::new(false, Limits::default());
    session.push(&frame[..6 + 3], false);
    assert_eq!(session.fault, None);
    session.push(&frame[6 + 3..6 + 4], false);
    assert_eq!(session.fault.map(|fault| fault.code), Some(1007));
}

#[test]
fn bad_compression() {
    let hello: &[u8] = b"\xf2\x48\xcd\xc9\xc9\x07\x00";
    let expected = Fault { code: 1007, reason: "a message is not compressed as DEFLATE" };
    for payload in [
        &b""[..],
        b"\xff\xff",
        b"plain text",
        // A distance beyond the beginning.
        b"\x02\x00\x00\xff\xff\x4b\x04\x42\x00",
        // A stored block that goes on.
        b"\x00\x20\x00\xdf\xff\x48\x65",
        &hello[..2],
        &hello[..4],
        &hello[..6],
    ] {
        assert_eq!(fault(&raw(0xc2, payload), true, Limits::default()), expected, "{}", payload.escape_ascii());
    }
    assert_eq!(fault(&raw(0xc1, b"\x00\x01\x00\xfe\xff\xff\x00"), true, Limits::default()).code, 1007, "not UTF-8");
    assert_eq!(fault(&raw(0xc2, &b"\x03\x00".repeat(10_000)), true, Limits::default()), expected, "endless streams");
}

#[test]
fn limits() {
    let limits = Limits { message: 10, frames_of_message: 3 };
    let long = Fault { code: 1009, reason: "a message is too long" };
    let allowed = |bytes: &[u8]| assert_eq!(read(bytes, false, limits).1, None);
    allowed(&raw(0x81, b"0123456789"));
    assert_eq!(fault(&raw(0x81, b"0123456789a"), false, limits), long);
    // The length of the head suffices.
    assert_eq!(fault(&raw(0x81, b"0123456789a")[..6], false, limits), long);
    assert_eq!(fault(b"\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff\0\0\0\0", false, limits), long);
    allowed(&[raw(0x01, b"01234"), raw(0x80, b"56789")].concat());
    assert_eq!(fault(&[raw(0x01, b"01234"), raw(0x80, b"56789a")].concat(), false, limits), long);
    allowed(&[raw(0x01, b"0"), raw(0x00, b"1"), raw(0x89, b"?"), raw(0x80, b"2")].concat());
    let four = [raw(0x01, b"0"), raw(0x00, b"1"), raw(0x00, b"2"), raw(0x80, b"")].concat();
    assert_eq!(fault(&four, false, limits), Fault { code: 1008, reason: "a message has too many frames" });
}

#[test]
fn frames_count_unless_each_has_32_bytes() {
    let limits = Limits { message: 1 << 20, frames_of_message: 3 };
    let message = |size: usize, more: usize| {
        let middle = raw(0x00, &b"x".repeat(size)).repeat(more);
        [raw(0x02, &b"x".repeat(size)), middle, raw(0x80, b"")].concat()
    };
    assert_eq!(read(&message(32, 1000), false, limits).1, None);
    assert_eq!(read(&message(16, 3), false, limits).1, None);
    assert_eq!(fault(&message(16, 4), false, limits).code, 1008);
    assert_eq!(fault(&message(0, 3), false, limits).code, 1008);
}

#[test]
fn a_reader_that_has_failed_stays_failed() {
    let mut session = Session::new(false, Limits::default());
    session.push(b"\x83", false);
    let first = session.fault.take();
    session.push(&raw(0x81, b"fine"), false);
    assert!(first.is_some() && session.fault == first && session.received.is_empty());
    assert_eq!(session.reader.held(), 0);
}
