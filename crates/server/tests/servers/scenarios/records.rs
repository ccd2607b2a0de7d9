//! The web server's side of FastCGI, written and read without the server's own code.

use oribi_io::Client;
use std::collections::BTreeMap;

pub const RESPONDER: u8 = 1;
pub const AUTHORIZER: u8 = 2;
pub const FILTER: u8 = 3;

pub const BEGIN: u8 = 1;
pub const ABORT: u8 = 2;
pub const END: u8 = 3;
pub const PARAMS: u8 = 4;
pub const STDIN: u8 = 5;
pub const STDOUT: u8 = 6;
pub const STDERR: u8 = 7;
pub const DATA: u8 = 8;
pub const GET_VALUES: u8 = 9;
pub const GET_VALUES_RESULT: u8 = 10;
pub const UNKNOWN_TYPE: u8 = 11;

pub const COMPLETE: u8 = 0;
pub const OVERLOADED: u8 = 2;
pub const UNKNOWN_ROLE: u8 = 3;

/// One record; `content` has at most 65,535 bytes.
pub fn record(kind: u8, id: u16, content: &[u8]) -> Vec<u8> {
    let padding = (content.len() % 3) as u8;
    let mut bytes = vec![1, kind];
    bytes.extend_from_slice(&id.to_be_bytes());
    bytes.extend_from_slice(&(content.len() as u16).to_be_bytes());
    bytes.extend_from_slice(&[padding, 0]);
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len() + usize::from(padding), b'p');
    bytes
}

/// A stream in records of a size, with its end.
pub fn stream(kind: u8, id: u16, content: &[u8], size: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = content.chunks(size).flat_map(|piece| record(kind, id, piece)).collect();
    bytes.extend(record(kind, id, b""));
    bytes
}

pub fn begin(id: u16, role: u8, keep: bool) -> Vec<u8> {
    record(BEGIN, id, &[0, role, u8::from(keep), 0, 0, 0, 0, 0])
}

/// Encodes name-value pairs.
pub fn pairs(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in pairs {
        for length in [name.len(), value.len()] {
            if length < 128 {
                bytes.push(length as u8);
            } else {
                bytes.extend_from_slice(&(length as u32 | 1 << 31).to_be_bytes());
            }
        }
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(value.as_bytes());
    }
    bytes
}

/// A whole request with content, on a connection that is kept.
pub fn request(id: u16, method: &str, uri: &str, content: &[u8]) -> Vec<u8> {
    let mut variables = vec![("REQUEST_METHOD", method), ("REQUEST_URI", uri), ("SERVER_PROTOCOL", "HTTP/1.1")];
    let length = content.len().to_string();
    if !content.is_empty() {
        variables.push(("CONTENT_LENGTH", &length));
    }
    request_with(id, &variables, content)
}

/// The same, with variables of the caller.
pub fn request_with(id: u16, variables: &[(&str, &str)], content: &[u8]) -> Vec<u8> {
    [begin(id, RESPONDER, true), stream(PARAMS, id, &pairs(variables), 60000), stream(STDIN, id, content, 60000)].concat()
}

/// The records received for one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub output: Vec<u8>,
    pub errors: Vec<u8>,
    /// The streams whose end was received.
    pub ended: Vec<u8>,
    /// App status and protocol status.
    pub end: Option<(u32, u8)>,
}

impl Answer {
    /// The lines of the head, and the content.
    pub fn parts(&self) -> (Vec<String>, &[u8]) {
        let end = self.output.windows(4).position(|window| window == b"\r\n\r\n").expect("a head");
        let head = String::from_utf8(self.output[..end].to_vec()).expect("text");
        (head.split("\r\n").map(str::to_owned).collect(), &self.output[end + 4..])
    }

    pub fn status(&self) -> u16 {
        let line = &self.parts().0[0];
        line.strip_prefix("Status: ").and_then(|rest| rest[..3].parse().ok()).expect("a status first")
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.parts().1).into_owned()
    }

    /// Whether the answer ended in an orderly way.
    pub fn is_whole(&self) -> bool {
        self.end == Some((0, COMPLETE)) && self.ended.contains(&STDOUT)
    }
}

/// Reads the records of the server.
#[derive(Default)]
pub struct Reader {
    bytes: Vec<u8>,
    pub answers: BTreeMap<u16, Answer>,
    /// Management records: type and content.
    pub management: Vec<(u8, Vec<u8>)>,
}

impl Reader {
    /// Reads the bytes received by `client`.
    pub fn read(&mut self, client: &Client) -> &mut Self {
        self.bytes.extend(client.received());
        while let Some((kind, id, content)) = self.next_record() {
            if id == 0 {
                self.management.push((kind, content));
                continue;
            }
            let answer = self.answers.entry(id).or_default();
            assert_eq!(answer.end, None, "nothing comes behind the end of {id}");
            match kind {
                STDOUT | STDERR if content.is_empty() => answer.ended.push(kind),
                STDOUT | STDERR => {
                    assert!(!answer.ended.contains(&kind), "a stream goes on behind its end");
                    if kind == STDOUT { &mut answer.output } else { &mut answer.errors }.extend(content);
                }
                END => {
                    let status = u32::from_be_bytes([content[0], content[1], content[2], content[3]]);
                    answer.end = Some((status, content[4]));
                }
                other => panic!("an application does not send records of type {other}"),
            }
        }
        self
    }

    /// Removes and returns the answer to a request, whose id may then be used again.
    pub fn take(&mut self, id: u16) -> Answer {
        self.answers.remove(&id).unwrap_or_default()
    }

    fn next_record(&mut self) -> Option<(u8, u16, Vec<u8>)> {
        let header: [u8; 8] = self.bytes.get(..8)?.try_into().ok()?;
        assert_eq!(header[0], 1, "the version");
        let (length, padding) = (usize::from(u16::from_be_bytes([header[4], header[5]])), usize::from(header[6]));
        assert_eq!((length + padding) % 8, 0, "records are aligned to 8 bytes");
        let content = self.bytes.get(8..8 + length + padding)?[..length].to_vec();
        self.bytes.drain(..8 + length + padding);
        Some((header[1], u16::from_be_bytes([header[2], header[3]]), content))
    }
}
