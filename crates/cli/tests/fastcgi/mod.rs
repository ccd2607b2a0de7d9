//! A small FastCGI client, written from the specification only, to check the server's implementation independently.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

const BEGIN_REQUEST: u8 = 1;
const END_REQUEST: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;

/// A connection to the server, on which one request is made at a time.
pub struct Connection {
    stream: UnixStream,
    out: Vec<u8>,
    errors: Vec<u8>,
}

impl Connection {
    pub fn open(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket).expect("a server");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        Self { stream, out: Vec::new(), errors: Vec::new() }
    }

    /// Makes a request and reads its answer.
    pub fn ask(&mut self, parameters: &[(&str, &str)], content: &[u8], keep: bool) -> Answer {
        self.begin(parameters, content, keep);
        self.finish()
    }

    /// Sends a request for `GET /x.lua`; further parameters may override that.
    pub fn begin(&mut self, parameters: &[(&str, &str)], content: &[u8], keep: bool) {
        self.out.clear();
        self.errors.clear();
        let mut bytes = record(BEGIN_REQUEST, &[0, 1, u8::from(keep), 0, 0, 0, 0, 0]);
        let usual = [("REQUEST_METHOD", "GET"), ("REQUEST_URI", "/x.lua"), ("SCRIPT_NAME", "/x.lua"), ("QUERY_STRING", "")];
        let usual = usual.iter().filter(|(name, _)| !parameters.iter().any(|(known, _)| known == name));
        let fixed = [("SERVER_PROTOCOL", "HTTP/1.1"), ("SERVER_NAME", "localhost"), ("SERVER_PORT", "80")];
        let mut pairs = Vec::new();
        for (name, value) in usual.chain(&fixed).chain(parameters) {
            for text in [name, value] {
                pairs.extend_from_slice(&(text.len() as u32 | 0x8000_0000).to_be_bytes());
            }
            pairs.extend_from_slice(name.as_bytes());
            pairs.extend_from_slice(value.as_bytes());
        }
        bytes.extend(stream(PARAMS, &pairs));
        bytes.extend(stream(STDIN, content));
        self.stream.write_all(&bytes).expect("sent");
    }

    /// Reads until the output contains `text`, and returns the output so far.
    pub fn read_until(&mut self, text: &str) -> String {
        loop {
            let so_far = String::from_utf8_lossy(&self.out).into_owned();
            if so_far.contains(text) {
                return so_far;
            }
            assert!(self.read_record(), "the answer ends without {text}: {so_far}");
        }
    }

    /// Reads the rest of the answer.
    pub fn finish(&mut self) -> Answer {
        while self.read_record() {}
        let text = String::from_utf8_lossy(&self.out).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        let fields = head.lines().filter_map(|line| line.split_once(": "));
        Answer {
            fields: fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            body: body.to_owned(),
            errors: String::from_utf8_lossy(&self.errors).into_owned(),
        }
    }

    /// Reads a record; `false` if it was the last one of the answer.
    fn read_record(&mut self) -> bool {
        let mut head = [0; 8];
        match self.stream.read_exact(&mut head) {
            Ok(()) => {}
            // A server that fails in the middle of an answer can only close the connection.
            Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => return false,
            Err(error) => panic!("{error}"),
        }
        let length = usize::from(u16::from_be_bytes([head[4], head[5]]));
        let mut content = vec![0; length + usize::from(head[6])];
        self.stream.read_exact(&mut content).expect("a record");
        match head[1] {
            STDERR => self.errors.extend_from_slice(&content[..length]),
            STDOUT => self.out.extend_from_slice(&content[..length]),
            END_REQUEST => return false,
            _ => {}
        }
        true
    }
}

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).expect("a short record").to_be_bytes();
    [&[1, kind, 0, 1, length[0], length[1], 0, 0], content].concat()
}

/// Records for a stream, with the empty one that ends it.
fn stream(kind: u8, content: &[u8]) -> Vec<u8> {
    content.chunks(60_000).chain([&[][..]]).flat_map(|chunk| record(kind, chunk)).collect()
}

/// The answer to one request.
#[derive(Debug)]
pub struct Answer {
    fields: Vec<(String, String)>,
    body: String,
    /// The text for the web server's log.
    pub errors: String,
}

impl Answer {
    pub fn status(&self) -> &str {
        self.field("Status").first().copied().unwrap_or("200 OK")
    }

    pub fn field(&self, name: &str) -> Vec<&str> {
        self.fields.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str()).collect()
    }

    pub fn body(&self) -> &str {
        &self.body
    }
}
