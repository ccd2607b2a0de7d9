//! The memory of a connection grows with the bytes that have arrived, and with nothing else.

use crate::session::{Session, raw, text};
use oribi_websocket::{Deflater, Limits, Reader};

/// The bookkeeping of a message that has not arrived as a whole, in bytes.
const PARTIAL: usize = 160;

#[test]
fn an_idle_reader_holds_nothing() {
    assert!(size_of::<Reader>() <= 48);
    let mut session = Session::new(true, Limits::default());
    assert_eq!(session.reader.held(), 0);
    let frames = [raw(0x81, b"whole"), raw(0x01, b"two "), raw(0x89, b"!"), raw(0x80, b"parts"), raw(0x8a, b"")];
    let all = frames.concat();
    for split in 1..all.len() {
        session.push(&all[..split], false);
        assert_eq!(session.reader.held() == 0, session.reader.is_between_messages(), "split at {split}");
        session.push(&all[split..], false);
        assert!(session.reader.is_between_messages());
        assert_eq!(session.reader.held(), 0);
    }
    assert_eq!(session.fault, None);
}

#[test]
fn an_announced_length_costs_nothing() {
    let limits = Limits { message: 1 << 40, frames_of_message: 10 };
    let mut session = Session::new(false, limits);
    session.push(b"\x82\xff\0\0\0\xff\0\0\0\0\0\0\0\0", false);
    assert_eq!(session.fault, None);
    assert!(!session.reader.is_between_messages());
    assert!(session.reader.held() <= PARTIAL);
    let mut arrived = 0;
    for length in [1, 1, 100, 5000, 1, 100_000] {
        session.push(&vec![0; length], false);
        arrived += length;
        assert!(session.reader.held() <= PARTIAL + 2 * arrived, "{} after {arrived} bytes", session.reader.held());
    }
}

#[test]
fn memory_never_exceeds_the_limit() {
    let limits = Limits { message: 600, frames_of_message: 10_000 };
    let mut session = Session::new(false, limits);
    session.push(&raw(0x01, b"a"), false);
    for _ in 0..599 {
        session.push(&raw(0x00, b"b"), false);
        assert!(session.reader.held() <= PARTIAL + limits.message);
    }
    session.push(&raw(0x80, b""), false);
    assert_eq!(session.received.len(), 1);
    assert_eq!((session.reader.held(), session.fault), (0, None));
}

#[test]
fn a_bomb_inflates_to_the_limit_and_no_further() {
    let mut deflater = Deflater::new(9);
    for (size, limit) in [(100_000, 100_000), (100_001, 100_000), (50_000_000, 1 << 20)] {
        let bomb = deflater.compress(&vec![b'a'; size], 15).expect("a thousandth").to_vec();
        assert!(bomb.len() < size / 500);
        let mut session = Session::new(true, Limits { message: limit, frames_of_message: 1 });
        session.push(&raw(0xc1, &bomb), false);
        if size <= limit {
            assert_eq!((session.received, session.fault), (vec![text(&"a".repeat(size))], None));
        } else {
            assert_eq!(session.fault.map(|fault| fault.code), Some(1009));
            assert!(session.received.is_empty());
        }
        assert!(session.inflater.held() <= limit + 1, "{} of {limit}", session.inflater.held());
    }
}

#[test]
fn one_large_message_does_not_keep_its_memory() {
    let mut session = Session::new(true, Limits::default());
    let large = Deflater::new(6).compress(&vec![b'a'; 1 << 20], 15).expect("a thousandth").to_vec();
    session.push(&raw(0xc1, &large), false);
    assert!(session.inflater.held() >= 1 << 20);
    session.push(&raw(0xc1, b"\xf2\x48\xcd\xc9\xc9\x07\x00"), false);
    assert_eq!(session.received[1], text("Hello"));
    assert!(session.inflater.held() <= 4096);
}
