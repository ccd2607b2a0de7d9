//! Properties of everything that HTTP/2 can carry, tested with random combinations. The bodies of the fuzz targets check these
//! properties. In these tests the input is nearly valid, while a fuzzer starts from anything.

use crate::frames::{self, Frame};
use crate::http2_transcript::{Item, What};
use crate::numbers::Numbers;
use crate::{h2_fields, h2_frames, h2_operations};

const ROUNDS: usize = 2_000;

/// Frames that a client could send, in a sensible order.
fn frames(numbers: &mut Numbers) -> Vec<u8> {
    let (mut bytes, mut next, mut last) = (Vec::new(), 1_u32, 1_u32);
    for round in 0..1 + numbers.below(8) {
        let any = if round == 0 { 0 } else { numbers.below(14) };
        let frame = match any {
            0..5 => {
                let methods: [&[u8]; 3] = [b"\x82", b"\x83", b"\x02\x07CONNECT"];
                let mut block = methods[numbers.below(20).saturating_sub(17)].to_vec();
                for part in [&b"\x86"[..], b"\x84", b"\x41\x01a"] {
                    if numbers.below(30) > 0 {
                        block.extend(part);
                    }
                }
                for _ in 0..numbers.below(3) {
                    let names: [&[u8]; 8] =
                        [b"cookie", b"x-y", b"cookie", b"priority", b"content-length", b"te", b"host", b"X"];
                    let values: [&[u8]; 5] = [b"1", b"a", b"u=1", b"", b"trailers"];
                    let first = [0, 0x40, 0x10][numbers.below(3)];
                    let name = if numbers.below(6) > 0 { numbers.below(4) } else { numbers.below(8) };
                    block.extend(frames::literal(first, names[name], values[numbers.below(5)]));
                }
                if numbers.below(5) == 0 {
                    block.push(0xbe + numbers.below(4) as u8);
                }
                let flags = if numbers.below(10) > 0 { [4, 4, 5][numbers.below(3)] } else { [1, 0, 12, 36][numbers.below(4)] };
                let id = if numbers.below(12) == 0 { last } else { next };
                (last, next) = (id, next.max(id + 2));
                Frame::new(frames::HEADERS, flags, id, &block)
            }
            5..10 => Frame::new(frames::DATA, [0, 1, 1, 0, 0, 8][numbers.below(6)], last, &numbers.bytes(20)),
            10 => Frame::new(frames::WINDOW_UPDATE, 0, last * numbers.below(2) as u32, &[0, 0, 1, numbers.below(3) as u8]),
            11 => Frame::new(frames::RST_STREAM, 0, last, &[0, 0, 0, 8]),
            12 => Frame::new(frames::SETTINGS, 0, 0, &[0, 4, 0, 0, numbers.below(256) as u8, 0]),
            _ => Frame::new(numbers.below(18) as u8, numbers.below(256) as u8, last, &numbers.bytes(12)),
        };
        bytes.extend(frame.to_bytes());
    }
    bytes
}

#[test]
fn connections_mean_the_same_however_they_are_cut() {
    let mut numbers = Numbers(1);
    let (mut heads, mut ends, mut broken) = (0, 0, 0);
    for _ in 0..ROUNDS {
        // At least three of four connections have a preface and the usual limits.
        let choice = if numbers.below(4) > 0 { 64 + numbers.below(64) } else { numbers.below(256) };
        let mut data = vec![choice as u8, numbers.below(256) as u8];
        data.extend(frames(&mut numbers));
        if numbers.below(6) == 0 {
            let place = numbers.below(data.len());
            data[place] = numbers.below(256) as u8;
        }
        for item in h2_frames::check(&data) {
            match item {
                Item::Of(_, What::Head(_)) => heads += 1,
                Item::Of(_, What::End) => ends += 1,
                Item::Broken(..) => broken += 1,
                _ => {}
            }
        }
    }
    // The rounds must reach requests, ends and errors often enough to test them.
    assert!(heads > ROUNDS / 2 && ends > ROUNDS / 50 && broken > ROUNDS / 10, "{heads} {ends} {broken}");
}

#[test]
fn fields_mean_the_same_however_they_are_cut() {
    let (mut numbers, mut trailers) = (Numbers(2), 0);
    for _ in 0..ROUNDS {
        let mut data = Vec::new();
        for _ in 0..numbers.below(5) {
            let mut block = Vec::new();
            for _ in 0..numbers.below(6) {
                match numbers.below(6) {
                    0 => block.push(0x80 | numbers.below(70) as u8),
                    1 => block.extend([0x40 | (1 + numbers.below(63)) as u8, 1, b'v']),
                    2 => block.extend(frames::literal(0x40, &numbers.bytes(4), &numbers.bytes(30))),
                    3 => block.extend([0x00, 1, b'a', 0x80 | 3, 0x1f, numbers.below(256) as u8, 0xff]),
                    4 => block.push(0x20 | numbers.below(32) as u8),
                    _ => block.push(numbers.below(256) as u8),
                }
            }
            block.truncate(255);
            data.push(block.len() as u8);
            data.extend(block);
        }
        let found = h2_fields::check(&data);
        trailers += found.iter().filter(|item| matches!(item, Item::Of(_, What::Trailers(_)))).count();
    }
    assert!(trailers > ROUNDS / 50, "{trailers}");
}

#[test]
fn responses_are_read_as_they_were_meant() {
    let mut numbers = Numbers(3);
    let names = ["Content-Type", "X-Y", "etag", "Vary", "Set-Cookie", "Connection", "Content-Length", "Date", "a b", ""];
    let values = ["", "a", " a\t", "5", "text/plain", "\r", "\u{e9}"];
    for _ in 0..ROUNDS {
        let texts = (0..numbers.below(6)).flat_map(|_| [names[numbers.below(10)], values[numbers.below(7)]]);
        h2_fields::check(texts.collect::<Vec<_>>().join("\0").as_bytes());
    }
}

#[test]
fn windows_and_states_are_kept_whatever_happens() {
    let mut numbers = Numbers(4);
    for _ in 0..ROUNDS {
        h2_operations::check(&numbers.bytes(600));
    }
}
