//! Records: the header in front of everything (FastCGI 1.0, section 3.3).

use alloc::vec::Vec;

pub(super) const VERSION: u8 = 1;
pub(super) const HEADER_BYTES: usize = 8;

/// The most content that is put into one record: the largest multiple of 8 that 16 bits can say, so that full records need no
/// padding.
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

/// The id of no request: records that carry it are management records.
pub(super) const NULL_REQUEST_ID: u16 = 0;

/// What END_REQUEST says of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum ProtocolStatus {
    Complete = 0,
    // 1 is CANT_MPX_CONN: never said, since requests may be interleaved.
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
    /// The last byte is reserved and says nothing.
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

    /// The header of a record that is padded so that the next one starts at a multiple of 8 (section 3.3 recommends it).
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

/// Bytes from the end of that much content to the next multiple of 8.
#[inline]
pub(super) const fn padding(length: usize) -> usize {
    length.wrapping_neg() % 8
}

/// Writes the padding of a record.
#[inline]
pub(super) fn write_padding(length: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&[0; 8][..length]);
}

/// Writes content as records of a stream, in as few as possible; nothing if there is none, since that would end the stream.
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
