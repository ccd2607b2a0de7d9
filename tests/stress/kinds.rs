//! The kinds of clients. Each opens one connection after the other and uses it in its own way.

use crate::client::{Connection, Loss, Peer, Response};
use crate::findings::Findings;
use crate::{LARGE_FILE, SMALL_FILE, fastcgi, streams};
use std::cell::Cell;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

pub struct Kind {
    name: &'static str,
    /// Uses a connection; returns when it has ended.
    visit: fn(&Visit<'_>) -> Result<(), Loss>,
}

/// The data that a client needs to visit the server.
pub struct Visit<'a> {
    pub peer: &'a Peer,
    pub findings: &'a Findings,
    kind: &'static str,
    end: Instant,
    /// Whether the next connection is encrypted. Every other connection is.
    encrypts: Cell<bool>,
}

const fn kind(name: &'static str, visit: fn(&Visit<'_>) -> Result<(), Loss>) -> Kind {
    Kind { name, visit }
}

impl Kind {
    pub const CROWD: &'static [Self] = &[
        kind("kept", kept),
        kind("kept", kept),
        kind("short", brief),
        kind("pipelined", pipelined),
        kind("small POST", small_post),
        kind("large POST", large_post),
        kind("chunked POST", chunked_post),
        kind("slow reader", slow_reader),
        kind("slow sender", slow_sender),
        kind("half-closed", half_closed),
        kind("aborted", aborted),
        kind("HTTP/1.0", http_1_0),
        kind("HTTP/1.0 kept", http_1_0_kept),
        kind("HTTP/2", http_2),
        kind("HTTP/2 POST", http_2_post),
        kind("HTTP/2 streams", streams::visit),
        kind("FastCGI", fastcgi::visit),
    ];

    pub const ALONE: &'static [Self] = &[kind("alone", alone)];

    /// Visits the server until `end`.
    pub fn work(&self, peer: &Peer, findings: &Findings, end: Instant) {
        let visit = Visit { peer, findings, kind: self.name, end, encrypts: Cell::new(false) };
        while visit.goes_on() {
            match (self.visit)(&visit) {
                Ok(()) | Err(Loss::NotTaken) => {}
                // A client on a connection to a worker that was killed may connect again.
                Err(Loss::Ended { in_order, .. }) if findings.killed_since(in_order) => {}
                Err(Loss::Ended { what, .. } | Loss::Wrong(what)) => findings.note_failure(self.name, &what),
            }
        }
    }
}

impl<'a> Visit<'a> {
    pub fn goes_on(&self) -> bool {
        Instant::now() < self.end
    }

    pub fn note_answer(&self) {
        self.findings.note_answer(self.kind);
    }

    fn connect(&self) -> Result<Connection<'a>, Loss> {
        Connection::open(self.next_address(), self.findings)
    }

    fn connect_by_http2(&self) -> Result<Connection<'a>, Loss> {
        Connection::open_http2(self.next_address(), self.findings)
    }

    pub fn next_address(&self) -> SocketAddr {
        let encrypts = self.encrypts.get();
        self.encrypts.set(!encrypts);
        if encrypts { self.peer.https } else { self.peer.http }
    }

    /// Returns the expected content of the answer to a request with `length` bytes of content.
    pub fn expected(&self, method: &str, path: &str, length: usize) -> Vec<u8> {
        match path {
            "/files/large" => content_of_file(LARGE_FILE),
            "/files/small" => content_of_file(SMALL_FILE),
            _ => self.peer.app.answer(method, path, length),
        }
    }

    /// Receives the response to a request of HTTP/1.1 with `length` bytes of content. Returns whether the server keeps the
    /// connection.
    fn take_response(&self, connection: &mut Connection<'_>, method: &str, path: &str, length: usize) -> Result<bool, Loss> {
        Ok(!self.take(connection, method, path, length)?.ends)
    }

    /// Receives the response to a request with `length` bytes of content, and checks it.
    fn take(&self, connection: &mut Connection<'_>, method: &str, path: &str, length: usize) -> Result<Response, Loss> {
        let response = connection.response().map_err(|loss| loss.to(&format!("{method} {path}")))?;
        let expected = self.expected(method, path, length);
        if response.status != 200 || response.content != expected {
            let start = String::from_utf8_lossy(&response.content[..response.content.len().min(60)]).into_owned();
            let length = response.content.len();
            let what = format!("{method} {path} was answered {} with {length} bytes: {start:?}", response.status);
            // So an edge answers for a worker that was killed.
            return Err(if response.status == 502 { connection.ended(&what) } else { Loss::Wrong(what) });
        }
        self.note_answer();
        Ok(response)
    }
}

/// The content of a file of that many bytes.
pub fn content_of_file(length: usize) -> Vec<u8> {
    (0..length).map(|at| b"0123456789abcdef"[(at ^ at >> 8) & 15]).collect()
}

const CONTENT: usize = 300_000;

/// Pauses for a moment, so that other clients get CPU time.
fn breathe() {
    std::thread::sleep(Duration::from_millis(2));
}

fn kept(visit: &Visit<'_>) -> Result<(), Loss> {
    let mut connection = visit.connect()?;
    for number in 0..100 {
        let path = if number % 8 == 7 { "/files/small".to_owned() } else { format!("/kept/{number}") };
        connection.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n").as_bytes())?;
        if !visit.take_response(&mut connection, "GET", &path, 0)? {
            return connection.expect_end();
        }
        if !visit.goes_on() {
            break;
        }
        breathe();
    }
    Ok(())
}

fn brief(visit: &Visit<'_>) -> Result<(), Loss> {
    short(visit)?;
    breathe();
    Ok(())
}

fn short(visit: &Visit<'_>) -> Result<(), Loss> {
    let mut connection = visit.connect()?;
    connection.send(b"GET /short HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")?;
    visit.take_response(&mut connection, "GET", "/short", 0)?;
    connection.expect_end()
}

/// Sends short requests without a pause: then it happens more often that the worker that was woken for a request is just
/// leaving.
fn alone(visit: &Visit<'_>) -> Result<(), Loss> {
    short(visit)
}

/// Sends requests for large and small responses at once. The responses must arrive in the order of the requests.
fn pipelined(visit: &Visit<'_>) -> Result<(), Loss> {
    let mut connection = visit.connect()?;
    for number in 0..10 {
        let paths = ["/a", "/files/large", "/b", "/files/small", &format!("/c/{number}"), "/d", "/files/large", "/e"];
        let requests = paths.map(|path| format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n"));
        connection.send(requests.concat().as_bytes())?;
        for path in paths {
            if !visit.take_response(&mut connection, "GET", path, 0)? {
                // Requests after this one are not answered, and the server announces it by closing.
                return Ok(());
            }
        }
        if !visit.goes_on() {
            break;
        }
        breathe();
    }
    Ok(())
}

/// Sends a request whose content is followed by a CRLF that does not belong to it, as some clients do (RFC 9112, section 2.2).
fn small_post(visit: &Visit<'_>) -> Result<(), Loss> {
    let mut connection = visit.connect()?;
    connection.send(b"POST /small HTTP/1.1\r\nHost: test\r\nContent-Length: 7\r\nConnection: close\r\n\r\ncontent\r\n")?;
    visit.take_response(&mut connection, "POST", "/small", 7)?;
    connection.expect_end()?;
    breathe();
    Ok(())
}

fn large_post(visit: &Visit<'_>) -> Result<(), Loss> {
    let mut connection = visit.connect()?;
    for _ in 0..10 {
        connection.send(format!("POST /large HTTP/1.1\r\nHost: test\r\nContent-Length: {CONTENT}\r\n\r\n").as_bytes())?;
        connection.send(&content_of_file(CONTENT))?;
        if !visit.take_response(&mut connection, "POST", "/large", CONTENT)? || !visit.goes_on() {
            break;
        }
        breathe();
    }
    Ok(())
}

fn chunked_post(visit: &Visit<'_>) -> Result<(), Loss> {
    let mut connection = visit.connect()?;
    for _ in 0..10 {
        connection.send(b"POST /chunked HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        for piece in content_of_file(CONTENT).chunks(50_000) {
            connection.send(&[format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat())?;
        }
        connection.send(b"0\r\n\r\n")?;
        if !visit.take_response(&mut connection, "POST", "/chunked", CONTENT)? || !visit.goes_on() {
            break;
        }
        breathe();
    }
    Ok(())
}

fn slow_reader(visit: &Visit<'_>) -> Result<(), Loss> {
    let mut connection = visit.connect()?;
    connection.receive_little();
    connection.pace = Some((Duration::from_millis(3), 32_768));
    connection.send(b"GET /files/large HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")?;
    visit.take_response(&mut connection, "GET", "/files/large", 0)?;
    connection.expect_end()
}

fn slow_sender(visit: &Visit<'_>) -> Result<(), Loss> {
    let mut connection = visit.connect()?;
    let request = "POST /slow HTTP/1.1\r\nHost: test\r\nContent-Length: 20\r\n\r\n01234567890123456789";
    for piece in request.as_bytes().chunks(7) {
        connection.send(piece)?;
        std::thread::sleep(Duration::from_millis(8));
    }
    visit.take_response(&mut connection, "POST", "/slow", 20)?;
    Ok(())
}

fn half_closed(visit: &Visit<'_>) -> Result<(), Loss> {
    let mut connection = visit.connect()?;
    connection.send(b"GET /half HTTP/1.1\r\nHost: test\r\n\r\n")?;
    connection.finish_sending()?;
    visit.take_response(&mut connection, "GET", "/half", 0)?;
    connection.expect_end()?;
    breathe();
    Ok(())
}

/// Disconnects: at once, within a head, within content, and before it has received a response. Requests of other clients must
/// be answered all the same.
fn aborted(visit: &Visit<'_>) -> Result<(), Loss> {
    let beginnings: [&[u8]; 4] = [
        b"",
        b"GET /aborted HTTP/1.1\r\nHo",
        b"POST /aborted HTTP/1.1\r\nHost: test\r\nContent-Length: 1000\r\n\r\nsome",
        b"GET /files/large HTTP/1.1\r\nHost: test\r\n\r\nGET /aborted HTTP/1.1\r\nHost: test\r\n\r\n",
    ];
    for beginning in beginnings {
        let mut connection = visit.connect()?;
        connection.send(beginning)?;
        breathe();
    }
    Ok(())
}

fn http_1_0(visit: &Visit<'_>) -> Result<(), Loss> {
    let mut connection = visit.connect()?;
    connection.send(b"GET /old HTTP/1.0\r\n\r\n")?;
    visit.take(&mut connection, "GET", "/old", 0)?;
    connection.expect_end()?;
    breathe();
    Ok(())
}

fn http_1_0_kept(visit: &Visit<'_>) -> Result<(), Loss> {
    let mut connection = visit.connect()?;
    for _ in 0..20 {
        connection.send(b"GET /old HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")?;
        if !visit.take(&mut connection, "GET", "/old", 0)?.keeps || !visit.goes_on() {
            break;
        }
        breathe();
    }
    Ok(())
}

/// Sends one request after the other on a connection of HTTP/2, for large and small responses.
fn http_2(visit: &Visit<'_>) -> Result<(), Loss> {
    let mut connection = visit.connect_by_http2()?;
    for number in 0..40 {
        let path = match number % 8 {
            3 => "/files/small".to_owned(),
            7 => "/files/large".to_owned(),
            _ => format!("/kept/{number}"),
        };
        connection.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n").as_bytes())?;
        visit.take_response(&mut connection, "GET", &path, 0)?;
        if !visit.goes_on() {
            break;
        }
        breathe();
    }
    Ok(())
}

fn http_2_post(visit: &Visit<'_>) -> Result<(), Loss> {
    let mut connection = visit.connect_by_http2()?;
    for _ in 0..10 {
        connection.send(format!("POST /large HTTP/1.1\r\nHost: test\r\nContent-Length: {CONTENT}\r\n\r\n").as_bytes())?;
        connection.send(&content_of_file(CONTENT))?;
        visit.take_response(&mut connection, "POST", "/large", CONTENT)?;
        if !visit.goes_on() {
            break;
        }
        breathe();
    }
    Ok(())
}
