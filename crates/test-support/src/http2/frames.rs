//! Frames of HTTP/2 (RFC 9113, sections 4 and 6).

use crate::layer::Layer;
use std::io;

pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RESET: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW: u8 = 8;

pub const END_STREAM: u8 = 1;
pub const ACK: u8 = 1;
pub const END_HEADERS: u8 = 4;

/// SETTINGS_INITIAL_WINDOW_SIZE, and its default.
pub const INITIAL_WINDOW: u16 = 4;
pub const DEFAULT_WINDOW: i64 = 65_535;
/// The largest window.
pub const LARGEST_WINDOW: u32 = (1 << 31) - 1;

/// The largest frame that every peer accepts.
pub const FRAME: usize = 16_384;

/// A frame that has arrived.
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    /// The number of the stream.
    pub number: u32,
    pub payload: Vec<u8>,
}

/// Receives once and appends the bytes to `received`. Removes and returns the frames that are complete then; `None` at the end
/// of the connection.
pub fn receive_frames(below: &mut dyn Layer, received: &mut Vec<u8>) -> io::Result<Option<Vec<Frame>>> {
    // All bytes that TLS has decrypted at once: a rest in it would not show at the socket.
    let mut bytes = vec![0; 65_536];
    match below.read(&mut bytes)? {
        0 => return Ok(None),
        count => received.extend_from_slice(&bytes[..count]),
    }
    let (mut frames, mut at) = (Vec::new(), 0);
    while let Some(head) = received.get(at..at + 9) {
        let length = number_of(&head[..3]) as usize;
        let Some(payload) = received.get(at + 9..at + 9 + length) else { break };
        frames.push(Frame { kind: head[3], flags: head[4], number: number_of(&head[5..]), payload: payload.to_vec() });
        at += 9 + length;
    }
    received.drain(..at);
    Ok(Some(frames))
}

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("it is short").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A number of up to four bytes.
pub fn number_of(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).fold(0, |number, byte| (number << 8) | u32::from(*byte))
}

/// SETTINGS_INITIAL_WINDOW_SIZE, if SETTINGS have it.
pub fn initial_window(settings: &[u8]) -> Option<i64> {
    let told = settings.chunks_exact(6).rfind(|setting| setting[..2] == INITIAL_WINDOW.to_be_bytes())?;
    Some(i64::from(number_of(&told[2..])))
}
