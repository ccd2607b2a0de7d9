//! Frames: their headers, and the small ones that are written whole (RFC 9113, sections 4.1 and 6).

use super::error::ErrorCode;
use alloc::vec::Vec;

/// The header of a frame.
pub(super) const HEADER_BYTES: usize = 9;

/// The most bytes of a frame, in both directions: SETTINGS_MAX_FRAME_SIZE is left at its default, and no client may allow less.
pub const FRAME_BYTES: usize = 16_384;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const PRIORITY: u8 = 2;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PUSH_PROMISE: u8 = 5;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;
/// The type of a priority update (RFC 9218, section 7.1).
pub(super) const PRIORITY_UPDATE: u8 = 16;

pub(super) mod flag {
    pub(in crate::h2) const END_STREAM: u8 = 1;
    pub(in crate::h2) const ACK: u8 = 1;
    pub(in crate::h2) const END_HEADERS: u8 = 4;
    pub(in crate::h2) const PADDED: u8 = 8;
    pub(in crate::h2) const PRIORITY: u8 = 32;
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) length: u32,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) id: u32,
}

impl Header {
    #[inline]
    pub(super) const fn read(bytes: &[u8; HEADER_BYTES]) -> Self {
        let [a, b, c, kind, flags, d, e, f, g] = *bytes;
        // The topmost bit of the stream has no meaning.
        Self { length: u32::from_be_bytes([0, a, b, c]), kind, flags, id: u32::from_be_bytes([d & 0x7f, e, f, g]) }
    }

    #[inline]
    pub(super) const fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let [_, a, b, c] = self.length.to_be_bytes();
        let [d, e, f, g] = self.id.to_be_bytes();
        [a, b, c, self.kind, self.flags, d, e, f, g]
    }

    pub(super) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Writes a whole frame.
pub(super) fn write(kind: u8, flags: u8, id: u32, payload: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&Header { length: payload.len() as u32, kind, flags, id }.to_bytes());
    out.extend_from_slice(payload);
}

pub(super) fn write_reset(id: u32, code: ErrorCode, out: &mut Vec<u8>) {
    write(RST_STREAM, 0, id, &code.0.to_be_bytes(), out);
}

pub(super) fn write_window_update(id: u32, increment: u32, out: &mut Vec<u8>) {
    write(WINDOW_UPDATE, 0, id, &increment.to_be_bytes(), out);
}

pub(super) fn write_goaway(last: u32, code: ErrorCode, out: &mut Vec<u8>) {
    let [a, b, c, d] = last.to_be_bytes();
    let [e, f, g, h] = code.0.to_be_bytes();
    write(GOAWAY, 0, 0, &[a, b, c, d, e, f, g, h], out);
}
