//! The description of one request for the exporter, and its encoding as bytes.
//!
//! A record has numbers at fixed offsets. Texts follow, each after its length. Reading checks all of the bytes.

/// The most bytes of a text; the rest is cut. No route has a longer path.
const LONGEST_TEXT: usize = 1024;

/// Bytes before the texts.
const NUMBERS: usize = 16 + 8 + 8 + 5 * 8 + 8 + 4 + 2 + 1 + 1;
const TEXTS: usize = 6;

/// The longest record, in bytes.
pub(crate) const LONGEST: usize = NUMBERS + TEXTS * (2 + LONGEST_TEXT);

const HTTPS: u8 = 1;
const GONE: u8 = 2;
const KNOWN_FLAGS: u8 = HTTPS | GONE;

/// The version of HTTP of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    #[default]
    Http11,
    /// HTTP/2
    Http2,
}

const VERSIONS: [Version; 3] = [Version::Http10, Version::Http11, Version::Http2];

impl Version {
    /// The value of `network.protocol.version`.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Http10 => "1.0",
            Self::Http11 => "1.1",
            Self::Http2 => "2",
        }
    }
}

/// One request. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record<'a> {
    /// The id of the trace; not all zero.
    pub trace: [u8; 16],
    /// The id of this request's span; not all zero.
    pub span: [u8; 8],
    /// The id of the caller's span; all zero without one.
    pub parent: [u8; 8],
    /// The time since 1970 at which the request was complete.
    pub begin: u64,
    /// From `begin` until a worker took the request.
    pub queue: u64,
    /// From the moment when a worker took the request until the response began.
    pub first: u64,
    /// From the moment when a worker took the request until the app had finished.
    pub app: u64,
    /// From the moment when the app had finished until the whole response had been sent.
    pub send: u64,
    /// Bytes of content that were sent.
    pub sent: u64,
    /// The process that ran the app; 0 if unknown.
    pub worker: u32,
    /// The status of the response; 0 without one.
    pub status: u16,
    /// The version of HTTP.
    pub version: Version,
    /// Whether the request arrived by https.
    pub https: bool,
    /// Whether the client left before the response was complete.
    pub gone: bool,
    /// The method.
    pub method: &'a [u8],
    /// The path, without the query.
    pub path: &'a [u8],
    /// The name of the route; empty if the request is on none.
    pub route: &'a [u8],
    /// The host of the request, perhaps with a port.
    pub host: &'a [u8],
    /// The address of the client; empty if unknown.
    pub client: &'a [u8],
    /// The address of the peer, if it is not that of the client.
    pub peer: &'a [u8],
}

impl<'a> Record<'a> {
    /// Appends the bytes of the record. Texts that are too long are cut.
    pub(crate) fn append(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.trace);
        out.extend_from_slice(&self.span);
        out.extend_from_slice(&self.parent);
        for number in [self.begin, self.queue, self.first, self.app, self.send, self.sent] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.worker.to_le_bytes());
        out.extend_from_slice(&self.status.to_le_bytes());
        let flags = if self.https { HTTPS } else { 0 } | if self.gone { GONE } else { 0 };
        out.extend_from_slice(&[self.version as u8, flags]);
        for text in [self.method, self.path, self.route, self.host, self.client, self.peer] {
            let text = &text[..text.len().min(LONGEST_TEXT)];
            out.extend_from_slice(&(text.len() as u16).to_le_bytes());
            out.extend_from_slice(text);
        }
    }

    /// Parses a record; `None` if the bytes are not exactly one record.
    #[must_use]
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut rest = bytes;
        let trace = array(&mut rest)?;
        let (span, parent) = (array(&mut rest)?, array(&mut rest)?);
        let mut long = || array(&mut rest).map(u64::from_le_bytes);
        let (begin, queue, first, app, send, sent) = (long()?, long()?, long()?, long()?, long()?, long()?);
        let worker = u32::from_le_bytes(array(&mut rest)?);
        let status = u16::from_le_bytes(array(&mut rest)?);
        let [version, flags] = array(&mut rest)?;
        let version = *VERSIONS.get(usize::from(version))?;
        let mut text = || {
            let length = usize::from(u16::from_le_bytes(array(&mut rest)?));
            let (text, more) = rest.split_at_checked(length).filter(|_| length <= LONGEST_TEXT)?;
            rest = more;
            Some(text)
        };
        let (method, path, route, host, client, peer) = (text()?, text()?, text()?, text()?, text()?, text()?);
        let named = trace != [0; 16] && span != [0; 8];
        let proper = matches!(status, 0 | 100..=999) && flags & !KNOWN_FLAGS == 0 && i32::try_from(worker).is_ok();
        (named && proper && rest.is_empty()).then_some(Self {
            trace,
            span,
            parent,
            begin,
            queue,
            first,
            app,
            send,
            sent,
            worker,
            status,
            version,
            https: flags & HTTPS != 0,
            gone: flags & GONE != 0,
            method,
            path,
            route,
            host,
            client,
            peer,
        })
    }
}

fn array<const SIZE: usize>(rest: &mut &[u8]) -> Option<[u8; SIZE]> {
    let (taken, more) = rest.split_first_chunk::<SIZE>()?;
    *rest = more;
    Some(*taken)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn example() -> Record<'static> {
        Record {
            trace: *b"0123456789abcdef",
            span: *b"01234567",
            parent: *b"parent!!",
            begin: 1_000_000_000_000_000_000,
            queue: 1_000,
            first: 2_000,
            app: 30_000,
            send: 4_000,
            sent: 5,
            worker: 4711,
            status: 200,
            version: Version::Http2,
            https: true,
            gone: false,
            method: b"GET",
            path: b"/shop/items",
            route: b"/shop",
            host: b"shop.example:8443",
            client: b"192.0.2.7",
            peer: b"",
        }
    }

    pub(crate) fn written(record: &Record<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        record.append(&mut bytes);
        bytes
    }

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let example = example();
        let bytes = written(&example);
        assert_eq!(Record::read(&bytes), Some(example));
        for cut in 0..bytes.len() {
            assert_eq!(Record::read(&bytes[..cut]), None, "{cut}");
        }
        assert_eq!(Record::read(&[&bytes[..], b"x"].concat()), None);
    }

    #[test]
    fn what_no_server_writes_is_refused() {
        let example = example();
        for wrong in [
            Record { trace: [0; 16], ..example },
            Record { span: [0; 8], ..example },
            Record { status: 99, ..example },
            Record { status: 1000, ..example },
            Record { worker: u32::MAX, ..example },
        ] {
            assert_eq!(Record::read(&written(&wrong)), None, "{wrong:?}");
        }
        let bytes = written(&example);
        for (place, byte) in [(NUMBERS - 2, 3), (NUMBERS - 1, 4), (NUMBERS + 1, 0xff)] {
            let mut bytes = bytes.clone();
            bytes[place] = byte;
            assert_eq!(Record::read(&bytes), None, "{place}");
        }
        // A changed byte makes at worst a record that is rejected.
        for place in 0..bytes.len() {
            for byte in 0..=u8::MAX {
                let mut bytes = bytes.clone();
                bytes[place] = byte;
                let _ = Record::read(&bytes);
            }
        }
    }

    #[test]
    fn long_texts_are_cut() {
        let long = [b'x'; 70_000];
        let record = Record { method: &long, path: &long, route: &long, host: &long, client: &long, peer: &long, ..example() };
        let bytes = written(&record);
        assert_eq!(bytes.len(), LONGEST);
        let read = Record::read(&bytes).expect("it is whole");
        assert_eq!((read.path.len(), read.peer.len()), (LONGEST_TEXT, LONGEST_TEXT));
    }
}
