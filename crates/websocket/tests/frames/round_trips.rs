//! Random messages in random fragments, with random control frames between them.

use crate::session::{Received, Session, raw, read};
use oribi_websocket::{Deflater, Kind, Limits, client_frame};

/// A small generator of numbers (xorshift), so that a failure repeats.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.below(256) as u8).collect()
    }

    /// Text that repeats itself now and then.
    fn text(&mut self, length: usize) -> String {
        const WORDS: [&str; 8] = ["live ", "edge", "\u{e9}t\u{e9} ", "\u{4e16}\u{754c}", "\u{1f600}", "\n", "worker", "0"];
        (0..length / 4).map(|_| WORDS[self.below(WORDS.len())]).collect()
    }
}

fn conversation(seed: u64, deflate: bool) -> (Vec<u8>, Vec<Received>) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut deflater = Deflater::new(1 + (seed % 9) as u8);
    let (mut bytes, mut expected) = (Vec::new(), Vec::new());
    for _ in 0..1 + random.below(5) {
        let length = [0, 1, 7, 125, 126, 300, 2000][random.below(7)];
        let is_text = random.below(2) == 0;
        let message = if is_text { random.text(length).into_bytes() } else { random.bytes(length) };
        let window = 9 + random.below(7) as u8;
        let compressed =
            if deflate && random.below(3) > 0 { deflater.compress(&message, window).map(<[u8]>::to_vec) } else { None };
        let payload = compressed.as_deref().unwrap_or(&message);
        let mut first = if is_text { 1 } else { 2 } | if compressed.is_some() { 0x40 } else { 0 };
        let mut rest = payload;
        for _ in 0..random.below(4) {
            let (fragment, others) = rest.split_at(random.below(rest.len() + 1));
            bytes.extend(raw(first, fragment));
            (first, rest) = (0, others);
            let ping = random.bytes(3);
            if random.below(2) == 0 {
                client_frame(Kind::Ping, &ping, [9, 8, 7, 6], &mut bytes);
                expected.push(Received::Ping(ping));
            }
        }
        bytes.extend(raw(first | 0x80, rest));
        expected.push(if is_text {
            Received::Text(String::from_utf8(message).expect("words"))
        } else {
            Received::Binary(message)
        });
    }
    (bytes, expected)
}

#[test]
fn conversations() {
    for seed in 0..60 {
        for deflate in [false, true] {
            let (bytes, expected) = conversation(seed, deflate);
            let limits = Limits::default();
            if bytes.len() < 1500 {
                assert_eq!(read(&bytes, deflate, limits), (expected, None), "conversation {seed}");
            } else {
                let mut session = Session::new(deflate, limits);
                bytes.chunks(97).for_each(|piece| session.push(piece, false));
                assert_eq!((session.received, session.fault), (expected, None), "conversation {seed}");
            }
        }
    }
}

#[test]
fn every_level_and_window() {
    let mut random = Random(7);
    let messages = [
        random.text(50_000).into_bytes(),
        random.bytes(300),
        random.text(256).into_bytes(),
        random.bytes(70_000),
        vec![b'x'; 40_000],
        random.text(9000).into_bytes(),
    ];
    for level in 1..=9 {
        let mut deflater = Deflater::new(level);
        for window in 9..=15 {
            let mut session = Session::new(true, Limits::default());
            for (index, message) in messages.iter().enumerate() {
                let compressed = deflater.compress(message, window).map(<[u8]>::to_vec);
                assert_eq!(compressed.is_none(), matches!(index, 1 | 3), "message {index}");
                match compressed {
                    Some(payload) => session.push(&raw(0xc2, &payload), false),
                    None => session.push(&raw(0x82, message), false),
                }
            }
            let expected: Vec<_> = messages.iter().cloned().map(Received::Binary).collect();
            assert!(session.received == expected && session.fault.is_none(), "level {level}, window {window}");
        }
    }
}

#[test]
fn a_small_window_is_respected() {
    // Two random kilobytes, twice: the second one refers to the first only through a large window.
    let mut message = Random(3).bytes(2048);
    message.extend_from_within(..);
    let mut deflater = Deflater::new(9);
    let large = deflater.compress(&message, 15).expect("a repetition").len();
    assert!(large < 2200, "{large}");
    assert_eq!(deflater.compress(&message, 9), None, "nothing repeats within 512 bytes");
    // Again, with the library that the other window has left.
    assert_eq!(deflater.compress(&message, 15).map(<[u8]>::len), Some(large));
}

#[test]
fn short_messages_are_not_worth_compressing() {
    assert!(!Deflater::worth(0) && !Deflater::worth(255) && Deflater::worth(256));
    assert_eq!(Deflater::new(6).compress(b"", 15), None);
}
