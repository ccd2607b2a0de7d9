//! The data that an attacker sends and receives.

use std::fmt::Write;

/// The way in which a connection ended for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// An orderly end: everything that was sent has arrived.
    End,
    /// The server reset the connection.
    Reset,
}

/// All received bytes, until the server ended the connection.
#[derive(Debug)]
pub struct Answer {
    pub bytes: Vec<u8>,
    pub ending: Ending,
}

/// A response with its framing checked.
#[derive(Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    /// Returns the responses in the received bytes. None of the requests may have been HEAD, and the last response must be
    /// complete.
    #[track_caller]
    pub fn responses(&self) -> Vec<Response> {
        let mut responses = Vec::new();
        let mut rest = &self.bytes[..];
        while !rest.is_empty() {
            let Some((response, length)) = read(rest) else { panic!("not whole: {}", printable(rest)) };
            responses.push(response);
            rest = &rest[length..];
        }
        responses
    }

    #[track_caller]
    pub fn statuses(&self) -> Vec<u16> {
        self.responses().into_iter().map(|response| response.status).collect()
    }

    /// Whether the last response could be mistaken for a complete one.
    pub fn looks_whole(&self) -> bool {
        let mut rest = &self.bytes[..];
        while !rest.is_empty() {
            let Some((_, length)) = read(rest) else { return false };
            rest = &rest[length..];
        }
        true
    }
}

fn read(bytes: &[u8]) -> Option<(Response, usize)> {
    let head_length = find(bytes, b"\r\n\r\n")? + 4;
    let head = String::from_utf8(bytes[..head_length].to_vec()).ok()?;
    let status: u16 = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let field = |name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
    };
    let rest = &bytes[head_length..];
    let (body, size) = if matches!(status, 100..=199 | 204 | 304) {
        (Vec::new(), 0)
    } else if field("Transfer-Encoding").is_some() {
        read_chunks(rest)?
    } else {
        let length: usize = field("Content-Length")?.parse().ok()?;
        (rest.get(..length)?.to_vec(), length)
    };
    let body = String::from_utf8_lossy(&body).into_owned();
    Some((Response { status, head, body }, head_length + size))
}

fn read_chunks(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (mut body, mut place) = (Vec::new(), 0);
    loop {
        let line = find(&bytes[place..], b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[place..place + line]).ok()?, 16).ok()?;
        place += line + 2;
        body.extend_from_slice(bytes.get(place..place + size)?);
        if bytes.get(place + size..place + size + 2)? != b"\r\n" {
            return None;
        }
        place += size + 2;
        if size == 0 {
            return Some((body, place));
        }
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

/// Bytes as readable text.
pub fn printable(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes.iter().take(2000) {
        let _ = write!(text, "{}", byte.escape_ascii());
    }
    text
}

/// A request that must never be answered after a refused one.
pub const SMUGGLED: &[u8] = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";

/// The last request of a successful conversation.
pub const LAST: &[u8] = b"GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
