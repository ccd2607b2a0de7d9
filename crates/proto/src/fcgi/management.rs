//! Answers of the machine itself: to management records, and to requests that cannot begin (FastCGI 1.0, sections 4 and 5.5).

use super::record::{
    GET_VALUES_RESULT, HEADER_BYTES, Header, NULL_REQUEST_ID, ProtocolStatus, UNKNOWN_TYPE, padding, write_end_request,
    write_padding,
};
use super::{Limits, pairs};
use alloc::vec::Vec;

/// The most bytes that GET_VALUES may hold, because the record is read only when it is complete. The three existing names take
/// 48 bytes.
pub(super) const VALUES_BYTES: u16 = 4096;

const MAX_CONNS: &[u8] = b"FCGI_MAX_CONNS";
const MAX_REQS: &[u8] = b"FCGI_MAX_REQS";
const MPXS_CONNS: &[u8] = b"FCGI_MPXS_CONNS";

/// The requested values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Values {
    connections: bool,
    requests: bool,
    interleaving: bool,
}

impl Values {
    /// Reads the names. Unknown names are left out of the answer, as section 4.1 requires.
    pub(super) fn read(content: &[u8]) -> Result<Self, pairs::Cut> {
        let (mut values, mut pos) = (Self::default(), 0);
        while let Some(pair) = pairs::next(content, &mut pos)? {
            match pair.text {
                MAX_CONNS => values.connections = true,
                MAX_REQS => values.requests = true,
                MPXS_CONNS => values.interleaving = true,
                _ => {}
            }
        }
        Ok(values)
    }
}

/// An answer that is waiting to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Values(Values),
    UnknownType(u8),
    /// `full`: as many requests are active as [`Limits::requests`] allows.
    End {
        id: u16,
        status: ProtocolStatus,
        full: bool,
    },
}

impl Answer {
    pub(super) fn write(self, limits: &Limits, out: &mut Vec<u8>) {
        match self {
            Self::Values(values) => write_values(values, limits, out),
            Self::UnknownType(kind) => {
                out.extend_from_slice(&Header::new(UNKNOWN_TYPE, NULL_REQUEST_ID, 8).to_bytes());
                out.extend_from_slice(&[kind, 0, 0, 0, 0, 0, 0, 0]);
            }
            Self::End { id, status, .. } => write_end_request(id, 0, status, out),
        }
    }
}

fn write_values(values: Values, limits: &Limits, out: &mut Vec<u8>) {
    let mark = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    let all = [
        (values.connections, MAX_CONNS, limits.connections),
        (values.requests, MAX_REQS, u32::from(limits.requests)),
        (values.interleaving, MPXS_CONNS, 1),
    ];
    for (wanted, name, number) in all {
        if wanted {
            let mut digits = [0; 10];
            let digits = decimal(number, &mut digits);
            out.extend_from_slice(&[name.len() as u8, digits.len() as u8]);
            out.extend_from_slice(name);
            out.extend_from_slice(digits);
        }
    }
    let length = out.len() - mark - HEADER_BYTES;
    out[mark..mark + HEADER_BYTES].copy_from_slice(&Header::new(GET_VALUES_RESULT, NULL_REQUEST_ID, length).to_bytes());
    write_padding(padding(length), out);
}

/// The decimal digits of a number.
fn decimal(number: u32, digits: &mut [u8; 10]) -> &[u8] {
    let (mut rest, mut place) = (number, digits.len());
    loop {
        place -= 1;
        digits[place] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            return &digits[place..];
        }
    }
}
