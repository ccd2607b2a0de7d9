//! A connection between two requests, as bytes.

use oribi_config::Protocol;

/// The version of the records. An edge hands its connections only to an edge that reads the same version.
pub const VERSION: u16 = 2;

const MAGIC: [u8; 8] = *b"OribiCon";

/// The magic bytes, the version, the protocol, a byte that is one if a PROXY header still follows and zero otherwise, the
/// count of requests, the time that is left, and the sizes of the four parts.
const HEADER_BYTES: usize = 8 + 2 + 1 + 1 + 4 + 4 + 2 + 1 + 1 + 4;

/// The most bytes of the next request in a record. A connection with more such bytes stays at the old edge until they have been
/// read as a request.
pub const LARGEST_UNREAD: usize = 64 << 10;

/// The value of `left` that means no deadline.
pub const NO_LIMIT: u32 = u32::MAX;

/// The longest name of a listener: the path of a socket has at most 107 bytes, each of which may be displayed as a
/// three-byte character.
const LONGEST_NAME: usize = 512;

/// The size of the largest record.
pub(super) const LARGEST: usize = HEADER_BYTES + LONGEST_NAME + 2 * u8::MAX as usize + LARGEST_UNREAD;

/// The state of a connection that is between two requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The protocol of the connection.
    pub protocol: Protocol,
    /// The display name of its listener.
    pub listener: String,
    /// Whether its PROXY header has been read, or none is expected.
    pub greeted: bool,
    /// The number of requests that have begun on it.
    pub requests: u32,
    /// The milliseconds that the client has left to send the head of a request that has begun; [`NO_LIMIT`] if no request has
    /// begun.
    pub left: u32,
    /// The client's address, as text.
    pub address: Vec<u8>,
    /// The client's port, as text.
    pub port: Vec<u8>,
    /// The received bytes of the next request.
    pub unread: Vec<u8>,
}

/// An error: the bytes are not a record of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidRecord;

impl Record {
    /// Writes the record. `None` if a part is too large.
    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        if self.listener.len() > LONGEST_NAME || self.unread.len() > LARGEST_UNREAD {
            return None;
        }
        let protocol: u8 = match self.protocol {
            Protocol::Http => 1,
            Protocol::FastCgi => 2,
        };
        let mut bytes = Vec::with_capacity(HEADER_BYTES + self.listener.len() + self.unread.len() + 64);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[protocol, u8::from(!self.greeted)]);
        bytes.extend_from_slice(&self.requests.to_le_bytes());
        bytes.extend_from_slice(&self.left.to_le_bytes());
        bytes.extend_from_slice(&u16::try_from(self.listener.len()).ok()?.to_le_bytes());
        bytes.push(u8::try_from(self.address.len()).ok()?);
        bytes.push(u8::try_from(self.port.len()).ok()?);
        bytes.extend_from_slice(&u32::try_from(self.unread.len()).ok()?.to_le_bytes());
        for part in [self.listener.as_bytes(), &self.address, &self.port, &self.unread] {
            bytes.extend_from_slice(part);
        }
        Some(bytes)
    }

    /// Reads exactly one record.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, InvalidRecord> {
        let mut rest = bytes;
        let magic: [u8; 8] = take(&mut rest)?;
        let version = u16::from_le_bytes(take(&mut rest)?);
        let [protocol, awaits] = take(&mut rest)?;
        let requests = u32::from_le_bytes(take(&mut rest)?);
        let left = u32::from_le_bytes(take(&mut rest)?);
        let listener = usize::from(u16::from_le_bytes(take(&mut rest)?));
        let [address, port] = take(&mut rest)?;
        let unread = u32::from_le_bytes(take(&mut rest)?) as usize;
        if magic != MAGIC || version != VERSION || awaits > 1 || listener > LONGEST_NAME || unread > LARGEST_UNREAD {
            return Err(InvalidRecord);
        }
        let protocol = match protocol {
            1 => Protocol::Http,
            2 => Protocol::FastCgi,
            _ => return Err(InvalidRecord),
        };
        let mut part = |size: usize| {
            let (part, others) = rest.split_at_checked(size).ok_or(InvalidRecord)?;
            rest = others;
            Ok(part.to_vec())
        };
        let listener = String::from_utf8(part(listener)?).map_err(|_| InvalidRecord)?;
        let (address, port, unread) = (part(usize::from(address))?, part(usize::from(port))?, part(unread)?);
        if rest.is_empty() {
            Ok(Self { protocol, listener, greeted: awaits == 0, requests, left, address, port, unread })
        } else {
            Err(InvalidRecord)
        }
    }
}

fn take<const SIZE: usize>(bytes: &mut &[u8]) -> Result<[u8; SIZE], InvalidRecord> {
    let (first, rest) = bytes.split_first_chunk().ok_or(InvalidRecord)?;
    *bytes = rest;
    Ok(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(unread: &[u8]) -> Record {
        Record {
            protocol: Protocol::Http,
            listener: "http://[::1]:5000".to_owned(),
            greeted: true,
            requests: 70_000,
            left: 9_500,
            address: b"192.0.2.7".to_vec(),
            port: b"54321".to_vec(),
            unread: unread.to_vec(),
        }
    }

    #[test]
    fn what_was_written_is_read() {
        for protocol in [Protocol::Http, Protocol::FastCgi] {
            for unread in [&b""[..], b"GET / HT", &[7; LARGEST_UNREAD]] {
                let record = Record { protocol, greeted: unread.is_empty(), ..record(unread) };
                let bytes = record.encode().expect("it is not too large");
                assert!(bytes.len() <= LARGEST);
                assert_eq!(Record::decode(&bytes), Ok(record));
            }
        }
        let silent = Record { listener: String::new(), address: Vec::new(), port: Vec::new(), ..record(b"") };
        assert_eq!(Record::decode(&silent.encode().expect("it is small")), Ok(silent));
    }

    #[test]
    fn what_is_too_large_is_not_written() {
        assert_eq!(record(&[7; LARGEST_UNREAD + 1]).encode(), None);
        assert_eq!(Record { address: vec![b'1'; 256], ..record(b"") }.encode(), None);
        assert_eq!(Record { listener: "x".repeat(LONGEST_NAME + 1), ..record(b"") }.encode(), None);
    }

    #[test]
    fn every_truncated_or_longer_record_is_refused() {
        let bytes = record(b"GET / HTTP/1.1\r\n").encode().expect("it is small");
        for size in 0..bytes.len() {
            assert_eq!(Record::decode(&bytes[..size]), Err(InvalidRecord), "{size} bytes");
        }
        assert_eq!(Record::decode(&[&bytes[..], b"x"].concat()), Err(InvalidRecord));
    }

    #[test]
    fn every_wrong_header_is_refused() {
        let good = record(b"GET / HTTP/1.1\r\n").encode().expect("it is small");
        // A header with one wrong bit is refused, with these exceptions: the count of requests and the time may be any number,
        // and one bit is set if a PROXY header still follows. (Two bits would have to change to turn one valid protocol into
        // another.)
        for bit in 0..HEADER_BYTES * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let read = Record::decode(&bytes);
            if bit == 11 * 8 {
                assert!(read.is_ok_and(|record| !record.greeted), "bit {bit}");
            } else if (12 * 8..16 * 8).contains(&bit) {
                assert!(read.is_ok_and(|record| record.requests != 70_000), "bit {bit}");
            } else if (16 * 8..20 * 8).contains(&bit) {
                assert!(read.is_ok_and(|record| record.left != 9_500), "bit {bit}");
            } else {
                assert_eq!(read, Err(InvalidRecord), "bit {bit}");
            }
        }
        let mut bytes = good;
        bytes[HEADER_BYTES] = 0xff;
        assert_eq!(Record::decode(&bytes), Err(InvalidRecord), "a name that is no text");
    }
}
