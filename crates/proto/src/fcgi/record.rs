//! Records: the header in front of everything (FastCGI 1.0, section 3.3).

use alloc::vec::Vec;

pub(super) const VERSION: u8 = 1;
pub(super) const HEADER_BYTES: usize = 8;

/// The most content that is put into one record: the largest multiple of 8 below 2^16, so that full records need no padding.
pub const RECORD_BYTES: usize = 65_528;

pub(super) const BEGIN_REQUEST: u8 = 1;
pub(super) const ABORT_REQUEST: u8 = 2;
pub(super) const END_REQUEST: u8 = 3;
pub(super) const PARAMS: u8 = 4;
pub(super) const STDIN: u8 = 5;
pub(super) const STDOUT: u8 = 6;
pub(super) const STDERR: u8 = 7;
pub(super) const DATA: u8 = 8;
pub(super) const GET_VALUES: u8 = 9;
pub(super) const GET_VALUES_RESULT: u8 = 10;
pub(super) const UNKNOWN_TYPE: u8 = 11;

/// The id that belongs to no request: records with it are management records.
pub(super) const NULL_REQUEST_ID: u16 = 0;

/// The protocol status of END_REQUEST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum ProtocolStatus {
    Complete = 0,
    // 1 is CANT_MPX_CONN: never sent, because requests may be interleaved.
    Overloaded = 2,
    UnknownRole = 3,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) version: u8,
    pub(super) kind: u8,
    pub(super) id: u16,
    pub(super) length: u16,
    pub(super) padding: u8,
}

impl Header {
    /// Reads a header. The last byte is reserved and ignored.
    #[inline]
    pub(super) const fn read(bytes: &[u8; HEADER_BYTES]) -> Self {
        let [version, kind, id_high, id_low, length_high, length_low, padding, _] = *bytes;
        Self {
            version,
            kind,
            id: u16::from_be_bytes([id_high, id_low]),
            length: u16::from_be_bytes([length_high, length_low]),
            padding,
        }
    }

    /// The header of a record with padding, so that the next record starts at a multiple of 8 (recommended in section 3.3).
    #[inline]
    pub(super) const fn new(kind: u8, id: u16, length: usize) -> Self {
        Self { version: VERSION, kind, id, length: length as u16, padding: padding(length) as u8 }
    }

    #[inline]
    pub(super) const fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let ([id_high, id_low], [length_high, length_low]) = (self.id.to_be_bytes(), self.length.to_be_bytes());
        [self.version, self.kind, id_high, id_low, length_high, length_low, self.padding, 0]
    }
}

/// The number of bytes from `length` to the next multiple of 8.
#[inline]
pub(super) const fn padding(length: usize) -> usize {
    length.wrapping_neg() % 8
}

/// Writes the padding of a record.
#[inline]
pub(super) fn write_padding(length: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&[0; 8][..length]);
}

/// Writes content as records of a stream, as few as possible; nothing for empty content, because an empty record ends the
/// stream.
pub(super) fn write_stream(kind: u8, id: u16, content: &[u8], out: &mut Vec<u8>) {
    for piece in content.chunks(RECORD_BYTES) {
        out.extend_from_slice(&Header::new(kind, id, piece.len()).to_bytes());
        out.extend_from_slice(piece);
        write_padding(padding(piece.len()), out);
    }
}

pub(super) fn write_end_request(id: u16, app_status: u32, protocol_status: ProtocolStatus, out: &mut Vec<u8>) {
    let [a, b, c, d] = app_status.to_be_bytes();
    out.extend_from_slice(&Header::new(END_REQUEST, id, 8).to_bytes());
    out.extend_from_slice(&[a, b, c, d, protocol_status as u8, 0, 0, 0]);
}
