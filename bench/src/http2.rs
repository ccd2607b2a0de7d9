//! A small HTTP/2 client that checks everything. It checks a server before and after a cell of HTTP/2, as [`crate::client`]
//! does in the other cells. It sends requests without compression, and reads only the status, the content and the end of each
//! response.

use crate::cell::Cell;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The largest frame that a server may send, because nothing else was agreed on.
const LARGEST_FRAME: usize = 16_384;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// `:status: 200` in the static table (RFC 7541, appendix A).
const STATUS_200: u8 = 0x88;

struct Connection {
    stream: TcpStream,
    next: u32,
}

fn frame(kind: u8, flags: u8, id: u32, content: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = u32::try_from(content.len()).unwrap_or(u32::MAX).to_be_bytes();
    [&[a, b, c, kind, flags][..], &id.to_be_bytes(), content].concat()
}

/// Returns a field block: GET, http, the path and an authority. The last two are literals that are not added to a table.
fn block(path: &str) -> Vec<u8> {
    let mut block = vec![0x82, 0x86];
    // Literals without indexing, whose names are 4 (`:path`) and 1 (`:authority`) of the static table.
    for (name, value) in [(4, path), (1, "127.0.0.1")] {
        block.push(name);
        block.push(u8::try_from(value.len()).unwrap_or(0));
        block.extend_from_slice(value.as_bytes());
    }
    block
}

impl Connection {
    fn open(port: u16, patience: Duration) -> Result<Self, String> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let stream = TcpStream::connect_timeout(&address, patience).map_err(|e| format!("cannot connect: {e}"))?;
        let set = |e: std::io::Error| format!("cannot set up the socket: {e}");
        stream.set_nodelay(true).map_err(set)?;
        stream.set_read_timeout(Some(patience)).map_err(set)?;
        stream.set_write_timeout(Some(patience)).map_err(set)?;
        let mut connection = Self { stream, next: 1 };
        connection.send(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat())?;
        Ok(connection)
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.stream.write_all(bytes).map_err(|e| format!("cannot send: {e}"))
    }

    /// Sends `count` requests at once, and returns the content of each response.
    fn ask(&mut self, path: &str, count: usize) -> Result<Vec<Vec<u8>>, String> {
        let mut requests = Vec::new();
        let mut open = BTreeMap::new();
        for _ in 0..count {
            requests.extend_from_slice(&frame(HEADERS, END_STREAM | END_HEADERS, self.next, &block(path)));
            open.insert(self.next, (false, Vec::new()));
            self.next += 2;
        }
        self.send(&requests)?;
        let mut contents = Vec::new();
        while !open.is_empty() {
            let (kind, flags, id, content) = self.receive()?;
            match kind {
                SETTINGS if flags & ACK == 0 => self.send(&frame(SETTINGS, ACK, 0, &[]))?,
                PING if flags & ACK == 0 => self.send(&frame(PING, ACK, 0, &content))?,
                RST_STREAM | GOAWAY => return Err(format!("a frame of type {kind}: {content:?}")),
                HEADERS => {
                    let (begun, _) = open.get_mut(&id).ok_or("a response to nothing")?;
                    // The size of the table may be changed first (RFC 7541, section 4.2).
                    let status = content.iter().find(|byte| *byte & 0xe0 != 0x20);
                    if *begun || status != Some(&STATUS_200) {
                        return Err(format!("not the head of a response with status 200: {content:x?}"));
                    }
                    *begun = true;
                }
                DATA => match open.get_mut(&id) {
                    Some((true, body)) => body.extend_from_slice(&content),
                    _ => return Err("content without a head".to_owned()),
                },
                _ => {}
            }
            if matches!(kind, HEADERS | DATA) && flags & END_STREAM != 0 {
                contents.extend(open.remove(&id).map(|(_, body)| body));
            }
        }
        Ok(contents)
    }

    fn receive(&mut self) -> Result<(u8, u8, u32, Vec<u8>), String> {
        let told = |e: std::io::Error| format!("cannot receive: {e}");
        let mut header = [0; 9];
        self.stream.read_exact(&mut header).map_err(told)?;
        let [a, b, c, kind, flags, d, e, f, g] = header;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        if length > LARGEST_FRAME {
            return Err(format!("a frame of {length} bytes"));
        }
        let mut content = vec![0; length];
        self.stream.read_exact(&mut content).map_err(told)?;
        Ok((kind, flags, u32::from_be_bytes([d & 0x7f, e, f, g]), content))
    }
}

/// Checks that a server answers exactly as many requests at once as `cell` opens, and then again as many on the same
/// connection.
///
/// # Errors
/// The first fault.
pub fn check(cell: &Cell, port: u16, patience: Duration) -> Result<(), String> {
    let expected = cell.body();
    let mut connection = Connection::open(port, patience)?;
    for turn in 1..=2 {
        let contents = connection.ask(cell.answer.path(), cell.streams).map_err(|e| format!("turn {turn}: {e}"))?;
        if let Some(wrong) = contents.iter().find(|content| **content != expected) {
            let start = String::from_utf8_lossy(&wrong[..wrong.len().min(40)]).into_owned();
            return Err(format!("turn {turn}: wrong body: {} bytes ({start:?})", wrong.len()));
        }
    }
    Ok(())
}

/// Returns the time for which a new client waits for its answer while the server is under load; `None` if it gets no answer
/// within `patience`.
pub fn newcomer(cell: &Cell, port: u16, patience: Duration) -> Option<Duration> {
    let start = Instant::now();
    let mut connection = Connection::open(port, patience).ok()?;
    connection.ask(cell.answer.path(), 1).ok()?;
    Some(start.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_written_as_the_specification_says() {
        assert_eq!(block("/"), b"\x82\x86\x04\x01/\x01\x09127.0.0.1");
        assert_eq!(frame(DATA, END_STREAM, 3, b"ab"), b"\0\0\x02\0\x01\0\0\0\x03ab");
    }

    /// A server that says the same to everyone.
    fn answered(answer: &'static [u8]) -> Result<Vec<Vec<u8>>, String> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut begin = [0; 24 + 9 + 9];
            stream.read_exact(&mut begin).expect("a preface and a request");
            stream.write_all(answer).expect("the client reads");
            // A close with unread input would be a reset.
            stream.shutdown(std::net::Shutdown::Write).expect("the client is there");
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let contents = Connection::open(port, Duration::from_secs(10)).and_then(|mut connection| connection.ask("/", 1));
        // (The connection is closed by now.)
        server.join().expect("the server ends");
        contents
    }

    #[test]
    fn a_response_is_read_exactly() {
        let good = b"\0\0\0\x04\0\0\0\0\0\0\0\x02\x01\x04\0\0\0\x01\x20\x88\0\0\x02\0\0\0\0\0\x01he\0\0\x03\0\x01\0\0\0\x01llo";
        assert_eq!(answered(good), Ok(vec![b"hello".to_vec()]));
        for wrong in [
            // Status 404, a reset, an end without a head, an end of the connection.
            &b"\0\0\x01\x01\x05\0\0\0\x01\x8d"[..],
            b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\x02",
            b"\0\0\x02\0\x01\0\0\0\x01he",
            b"\0\0\x01\x01\x04\0\0\0\x01\x88",
        ] {
            assert!(answered(wrong).is_err(), "{wrong:?}");
        }
    }
}
