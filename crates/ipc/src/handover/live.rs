//! A WebSocket that stays open without a worker, as bytes. It may be in the middle of a message.
//!
//! Numbers are big-endian. Each part of variable size follows its size in four bytes.

use super::record::Record;

/// The version of these records, and of the messages between edges that belong to them. It changes with each change of them, of the
/// requests in slots, of the commands of apps and of the boxes of edges, because an old edge passes all of these on.
pub const LIVE_VERSION: u16 = 2;

/// The largest number of wanted events.
const MOST_WANTS: u8 = 3;

/// A WebSocket that stays open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveRecord {
    /// Its name, which stays the same.
    pub name: u64,
    /// The number of messages of the next edge that the connection has seen.
    pub seen: u64,
    /// The time on the monotonic clock of the machine, in milliseconds.
    pub at: u64,
    /// Its connection, without a PROXY header and without a deadline.
    pub connection: Record,
    /// Bytes that wait to be sent.
    pub output: Vec<u8>,
    /// The bits of the client's window, if messages are compressed.
    pub window: Option<u8>,
    /// The parts of messages and frames that have arrived.
    pub reader: Vec<u8>,
    /// The looks at the connection since its last byte has arrived.
    pub looks: u8,
    /// The name of its app; empty for the only one.
    pub app: String,
    /// The request that has opened it, as in a slot.
    pub request: Vec<u8>,
    /// The data that its app keeps with it.
    pub data: Vec<u8>,
    /// Whether it could not subscribe to another channel.
    pub is_full: bool,
    /// The events that its app wants besides messages and the end: at most 3.
    pub wants: u8,
    /// Whether its app waits for the event that says that all messages have been sent.
    pub has_unsent: bool,
    /// The events that wait for the app: a kind, and a payload.
    pub events: Vec<(u8, Vec<u8>)>,
    /// Its channels: the name, and the texts around messages.
    pub channels: Vec<(Vec<u8>, Vec<u8>)>,
    /// The text that it gets again and again, with the interval in milliseconds.
    pub beat: Option<(u32, Vec<u8>)>,
}

/// An error: the bytes are no record of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidLiveRecord;

impl LiveRecord {
    /// Writes the record. `None`: a part is too large.
    #[must_use]
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut bytes = Vec::with_capacity(256 + self.request.len() + self.data.len() + self.output.len());
        bytes.extend_from_slice(&self.name.to_be_bytes());
        bytes.extend_from_slice(&self.seen.to_be_bytes());
        bytes.extend_from_slice(&self.at.to_be_bytes());
        // A record of a connection between two requests has less room for unread bytes than these may need.
        put(&mut bytes, &Record { unread: Vec::new(), ..self.connection.clone() }.encode()?)?;
        put(&mut bytes, &self.connection.unread)?;
        bytes.extend_from_slice(&[self.window.unwrap_or(0), self.looks]);
        put(&mut bytes, &self.reader)?;
        bytes.push(u8::from(self.is_full) | u8::from(self.has_unsent) << 1 | self.wants << 2);
        for part in [&self.output[..], self.app.as_bytes(), &self.request, &self.data] {
            put(&mut bytes, part)?;
        }
        bytes.extend_from_slice(&u32::try_from(self.events.len()).ok()?.to_be_bytes());
        for (kind, payload) in &self.events {
            bytes.push(*kind);
            put(&mut bytes, payload)?;
        }
        bytes.extend_from_slice(&u32::try_from(self.channels.len()).ok()?.to_be_bytes());
        for (channel, envelope) in &self.channels {
            put(&mut bytes, channel)?;
            put(&mut bytes, envelope)?;
        }
        let (interval, text) = self.beat.as_ref().map_or((0, &[][..]), |(interval, text)| (*interval, text));
        bytes.extend_from_slice(&interval.to_be_bytes());
        put(&mut bytes, text)?;
        Some(bytes)
    }

    /// Reads exactly one record.
    ///
    /// # Errors
    /// The bytes are no record of this version.
    pub fn decode(bytes: &[u8]) -> Result<Self, InvalidLiveRecord> {
        let mut rest = Rest(bytes);
        let (name, seen, at) = (rest.number()?, rest.number()?, rest.number()?);
        let connection = Record::decode(rest.part()?).map_err(|_| InvalidLiveRecord)?;
        if !connection.unread.is_empty() {
            return Err(InvalidLiveRecord);
        }
        let connection = Record { unread: rest.part()?.to_vec(), ..connection };
        let [window, looks] = rest.take()?;
        let window = match window {
            0 => None,
            9..=15 => Some(window),
            _ => return Err(InvalidLiveRecord),
        };
        let reader = rest.part()?.to_vec();
        let [flags] = rest.take()?;
        let (is_full, has_unsent, wants) = (flags & 1 > 0, flags & 2 > 0, flags >> 2);
        if wants > MOST_WANTS {
            return Err(InvalidLiveRecord);
        }
        let output = rest.part()?.to_vec();
        let app = String::from_utf8(rest.part()?.to_vec()).map_err(|_| InvalidLiveRecord)?;
        let (request, data) = (rest.part()?.to_vec(), rest.part()?.to_vec());
        let count = u32::from_be_bytes(rest.take()?);
        let events =
            (0..count).map(|_| Ok((u8::from_be_bytes(rest.take()?), rest.part()?.to_vec()))).collect::<Result<_, _>>()?;
        let count = u32::from_be_bytes(rest.take()?);
        let channels = (0..count).map(|_| Ok((rest.part()?.to_vec(), rest.part()?.to_vec()))).collect::<Result<_, _>>()?;
        let interval = u32::from_be_bytes(rest.take()?);
        let text = rest.part()?.to_vec();
        let beat = (interval > 0).then_some((interval, text));
        if !rest.0.is_empty() {
            return Err(InvalidLiveRecord);
        }
        Ok(Self {
            name,
            seen,
            at,
            connection,
            output,
            window,
            reader,
            looks,
            app,
            request,
            data,
            is_full,
            wants,
            has_unsent,
            events,
            channels,
            beat,
        })
    }
}

fn put(bytes: &mut Vec<u8>, part: &[u8]) -> Option<()> {
    bytes.extend_from_slice(&u32::try_from(part.len()).ok()?.to_be_bytes());
    bytes.extend_from_slice(part);
    Some(())
}

struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take<const SIZE: usize>(&mut self) -> Result<[u8; SIZE], InvalidLiveRecord> {
        let (first, rest) = self.0.split_first_chunk().ok_or(InvalidLiveRecord)?;
        self.0 = rest;
        Ok(*first)
    }

    fn number(&mut self) -> Result<u64, InvalidLiveRecord> {
        Ok(u64::from_be_bytes(self.take()?))
    }

    fn part(&mut self) -> Result<&'a [u8], InvalidLiveRecord> {
        let size = u32::from_be_bytes(self.take()?) as usize;
        let (part, rest) = self.0.split_at_checked(size).ok_or(InvalidLiveRecord)?;
        self.0 = rest;
        Ok(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handover::NO_LIMIT;
    use oribi_config::Protocol;

    fn record(window: Option<u8>) -> LiveRecord {
        let connection = Record {
            protocol: Protocol::Http,
            listener: "http://[::1]:5000".to_owned(),
            greeted: true,
            requests: 1,
            left: NO_LIMIT,
            address: b"192.0.2.7".to_vec(),
            port: b"54321".to_vec(),
            unread: b"\x81".to_vec(),
        };
        LiveRecord {
            name: 7 << 48 | 9,
            seen: 3,
            at: 12_345,
            connection,
            output: b"waits".to_vec(),
            window,
            reader: b"\0\0".to_vec(),
            looks: 2,
            app: "chat".to_owned(),
            request: b"a request".to_vec(),
            data: b"mine".to_vec(),
            is_full: true,
            wants: 3,
            has_unsent: window.is_some(),
            events: vec![(1, b"hello".to_vec()), (2, Vec::new())],
            channels: vec![(b"news".to_vec(), Vec::new()), (b"news".to_vec(), b"\0\x01<>".to_vec())],
            beat: Some((3000, b"ping".to_vec())),
        }
    }

    fn records() -> [LiveRecord; 2] {
        [record(None), record(Some(15))]
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let mut large = record(None);
        large.connection.unread = vec![7; 1 << 20];
        for record in records().into_iter().chain([large]) {
            let bytes = record.encode().expect("it is small");
            assert_eq!(LiveRecord::decode(&bytes), Ok(record));
        }
    }

    #[test]
    fn a_record_that_is_cut_off_or_too_long_is_refused() {
        for record in records() {
            let bytes = record.encode().expect("it is small");
            for size in 0..bytes.len() {
                assert_eq!(LiveRecord::decode(&bytes[..size]), Err(InvalidLiveRecord), "{size} bytes");
            }
            assert_eq!(LiveRecord::decode(&[&bytes[..], b"x"].concat()), Err(InvalidLiveRecord));
        }
    }
}
