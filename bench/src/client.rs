//! A small HTTP/1.1 client that checks everything: it reads one response exactly, to check a server before and after a cell.

use crate::cell::Cell;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// No body here is larger; a server that announces more is wrong.
const LARGEST_BODY: u64 = 16 << 20;
/// The time that one read or write may take once a server has answered.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// A connection to a server on the loopback interface.
pub struct Connection {
    reader: BufReader<TcpStream>,
}

/// One response, whole.
#[derive(Debug, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The content, without any framing.
    pub body: Vec<u8>,
}

impl Connection {
    /// Connects to `port` on the loopback interface. `patience` limits the time of connecting, and of each later read and
    /// write.
    ///
    /// # Errors
    /// No server listens, or the time is over.
    pub fn open(port: u16, patience: Duration) -> Result<Connection, String> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let stream = TcpStream::connect_timeout(&address, patience).map_err(|e| format!("cannot connect: {e}"))?;
        let set = |e: std::io::Error| format!("cannot set up the socket: {e}");
        stream.set_nodelay(true).map_err(set)?;
        stream.set_read_timeout(Some(patience)).map_err(set)?;
        stream.set_write_timeout(Some(patience)).map_err(set)?;
        Ok(Connection { reader: BufReader::new(stream) })
    }

    /// Writes all of `bytes`.
    ///
    /// # Errors
    /// The server closes the connection, or the time is over.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.reader.get_mut().write_all(bytes).map_err(|e| format!("cannot send: {e}"))
    }

    /// Reads one response.
    ///
    /// # Errors
    /// It is not a well-formed response, it ends early, or the time is over.
    pub fn receive(&mut self) -> Result<Response, String> {
        receive(&mut self.reader)
    }

    /// Checks that the server closes the connection without sending more bytes.
    ///
    /// # Errors
    /// The server sends something, or leaves the connection open.
    pub fn expect_close(&mut self) -> Result<(), String> {
        match self.reader.fill_buf() {
            Ok([]) => Ok(()),
            Ok(_) => Err("bytes after the end of the response".to_owned()),
            Err(e) if e.kind() == ErrorKind::ConnectionReset => Ok(()),
            Err(_) => Err("the connection was not closed after the response".to_owned()),
        }
    }
}

fn line(reader: &mut impl BufRead) -> Result<String, String> {
    let mut line = Vec::new();
    reader.take(65536).read_until(b'\n', &mut line).map_err(|e| format!("cannot receive: {e}"))?;
    let text = line.strip_suffix(b"\r\n").ok_or("the connection ended inside a head or a chunk size")?;
    Ok(String::from_utf8_lossy(text).into_owned())
}

fn exactly(reader: &mut impl Read, length: u64, body: &mut Vec<u8>) -> Result<(), String> {
    if length > LARGEST_BODY {
        return Err(format!("a body of {length} bytes"));
    }
    let got = reader.take(length).read_to_end(body).map_err(|e| format!("cannot receive the body: {e}"))?;
    if got as u64 == length { Ok(()) } else { Err(format!("the body ended after {got} of {length} bytes")) }
}

fn receive(reader: &mut impl BufRead) -> Result<Response, String> {
    let first = line(reader)?;
    let status = first.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).and_then(|code| code.parse().ok());
    let status = status.ok_or_else(|| format!("not an HTTP/1.1 status line: {first:?}"))?;
    let (mut length, mut chunked) = (None, false);
    loop {
        let field = line(reader)?;
        if field.is_empty() {
            break;
        }
        let (name, value) = field.split_once(':').ok_or_else(|| format!("not a field: {field:?}"))?;
        if name.eq_ignore_ascii_case("content-length") {
            length = Some(value.trim().parse().map_err(|_| format!("Content-Length: {value:?}"))?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            chunked = value.trim().eq_ignore_ascii_case("chunked");
        }
    }
    let mut body = Vec::new();
    match length {
        _ if chunked => loop {
            let size = line(reader)?;
            let digits = size.split(';').next().unwrap_or_default().trim();
            let size = u64::from_str_radix(digits, 16).map_err(|_| format!("a chunk size of {size:?}"))?;
            exactly(reader, size, &mut body)?;
            if !line(reader)?.is_empty() {
                return Err("no line end after a chunk".to_owned());
            }
            if size == 0 {
                break;
            }
        },
        Some(length) => exactly(reader, length, &mut body)?,
        // RFC 9112, section 6.3: the body ends where the connection does.
        None => {
            reader.take(LARGEST_BODY).read_to_end(&mut body).map_err(|e| format!("cannot receive the body: {e}"))?;
        }
    }
    Ok(Response { status, body })
}

/// Checks that a server answers the requests of `cell` exactly: the status, every byte of the body, the number of responses,
/// and whether the connection stays open as the cell requires. A server that does not `keep` connections must close each. Each
/// read or write may take up to `patience`, because a server may listen before it has loaded its app.
///
/// # Errors
/// The first fault.
pub fn check(cell: &Cell, port: u16, keep: bool, patience: Duration) -> Result<(), String> {
    let closes = cell.close || !keep;
    let mut connection = Connection::open(port, patience)?;
    check_turn(cell, &mut connection, 1)?;
    if closes {
        connection.expect_close()?;
        connection = Connection::open(port, patience)?;
    }
    check_turn(cell, &mut connection, 2)
}

/// Sends the requests of a cell in one write, and checks their answers.
fn check_turn(cell: &Cell, connection: &mut Connection, turn: usize) -> Result<(), String> {
    let expected = cell.body();
    connection.send(&cell.request().repeat(cell.depth))?;
    for number in 0..cell.depth {
        let told = |e| format!("response {} of write {turn}: {e}", number + 1);
        let response = connection.receive().map_err(told)?;
        if response.status != 200 {
            return Err(told(format!("status {}", response.status)));
        }
        if response.body != expected {
            let start = String::from_utf8_lossy(&response.body[..response.body.len().min(40)]).into_owned();
            let (got, want) = (response.body.len(), expected.len());
            return Err(told(format!("wrong body: {got} bytes ({start:?}), where {want} are right")));
        }
    }
    Ok(())
}

/// Returns the time for which a new client waits for its answer while the server is under load; `None` if it gets no answer
/// within `patience`.
pub fn newcomer(cell: &Cell, port: u16, patience: Duration) -> Option<Duration> {
    let start = Instant::now();
    let mut connection = Connection::open(port, patience).ok()?;
    connection.send(&cell.request()).ok()?;
    let response = connection.receive().ok()?;
    (response.status == 200).then(|| start.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Response, String> {
        receive(&mut text.as_bytes())
    }

    #[test]
    fn each_framing_gives_the_same_body() {
        let expected = Ok(Response { status: 200, body: b"hello".to_vec() });
        assert_eq!(read("HTTP/1.1 200 OK\r\ncontent-LENGTH: 5\r\n\r\nhello and more"), expected);
        assert_eq!(read("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"), expected);
        assert_eq!(read("HTTP/1.1 200 OK\r\n\r\nhello"), expected);
    }

    #[test]
    fn a_short_read_is_an_error() {
        assert!(read("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello").is_err());
        assert!(read("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n").is_err());
        assert!(read("HTTP/1.1 200 OK\r\nContent-Le").is_err());
        assert!(read("").is_err());
    }

    #[test]
    fn nonsense_is_an_error() {
        assert!(read("HTTP/1.0 200 OK\r\n\r\n").is_err());
        assert!(read("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n").is_err());
        assert!(read("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n").is_err());
        assert!(read("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n").is_err());
    }
}
