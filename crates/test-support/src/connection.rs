//! A client with one connection, which waits for each of its answers.

use crate::response::{self, Response};
use crate::wire::Wire;
use rustix::net::sockopt::set_socket_linger;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Longer than anything that a test waits for.
const PATIENCE: Duration = Duration::from_secs(30);

pub struct Connection {
    stream: Wire,
    /// Bytes that were received and not yet taken.
    bytes: Vec<u8>,
    asked: Instant,
}

impl Connection {
    pub fn open(address: SocketAddr) -> Self {
        let stream = Wire::connect(address).expect("the server listens");
        stream.socket().set_read_timeout(Some(PATIENCE)).expect("it is ours");
        Self { stream, bytes: Vec::new(), asked: Instant::now() }
    }

    /// Returns the address of this client, as the server sees it.
    pub fn own_address(&self) -> SocketAddr {
        self.stream.socket().local_addr().expect("it is connected")
    }

    /// Sends a request without content.
    pub fn ask(&mut self, target: &str) {
        self.send(&request("GET", target, &[]));
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.asked = Instant::now();
        self.stream.write_all(bytes).expect("the server keeps the connection");
    }

    /// Returns the next response, and the time since the last request was sent.
    pub fn answer(&mut self) -> (Response, Duration) {
        let response = self.response(false).unwrap_or_else(|why| panic!("{why}"));
        (response, self.asked.elapsed())
    }

    /// Returns the next response, or the reason why there is none. `bodiless` means that it answers a HEAD request.
    pub fn response(&mut self, bodiless: bool) -> Result<Response, String> {
        loop {
            if let Some(response) = response::take(&mut self.bytes, bodiless)? {
                return Ok(response);
            }
            if self.receive(65_536)? == 0 {
                return Err(format!("the server has ended the connection after {:?}", String::from_utf8_lossy(&self.bytes)));
            }
        }
    }

    /// Receives the available bytes, at most `most`, after those that were not taken yet. Returns their number; 0 at the end of
    /// the connection.
    pub fn receive(&mut self, most: usize) -> Result<usize, String> {
        let mut buffer = vec![0; most];
        match self.stream.read(&mut buffer) {
            Ok(count) => {
                self.bytes.extend_from_slice(&buffer[..count]);
                Ok(count)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Err(format!("nothing came for {PATIENCE:?} behind {} bytes", self.bytes.len()))
            }
            Err(error) => Err(format!("{error} behind {} bytes", self.bytes.len())),
        }
    }

    /// Receives until `text` has arrived, and discards all bytes up to its end.
    pub fn receive_until(&mut self, text: &str) -> Result<(), String> {
        loop {
            if let Some(at) = self.bytes.windows(text.len()).position(|window| window == text.as_bytes()) {
                self.bytes.drain(..at + text.len());
                return Ok(());
            }
            if self.receive(65_536)? == 0 {
                return Err(format!("the server has ended the connection after {:?}", String::from_utf8_lossy(&self.bytes)));
            }
        }
    }

    /// Returns how often `text` is in the received bytes that were not taken.
    pub fn count_of(&self, text: &str) -> usize {
        String::from_utf8_lossy(&self.bytes).matches(text).count()
    }

    /// Receives until `text` has arrived `times` times. Takes no bytes.
    pub fn receive_times(&mut self, text: &str, times: usize) -> Result<(), String> {
        while self.count_of(text) < times {
            if self.receive(65_536)? == 0 {
                return Err(format!("the server has ended the connection after {:?}", String::from_utf8_lossy(&self.bytes)));
            }
        }
        Ok(())
    }

    /// Sends a request and returns the response, after which the server must keep the connection.
    pub fn get(&mut self, target: &str) -> Response {
        self.ask(target);
        let response = self.answer().0;
        assert!(!response.ends(), "{target}: the server does not keep the connection: {response:?}");
        response
    }

    /// Asks for /fast, which must be answered by the app.
    pub fn get_fast(&mut self, number: u64) -> Response {
        let response = self.get(&format!("/fast?{number}"));
        assert_eq!((response.status, &*response.content), (200, format!("fast {number}\n").as_bytes()));
        response
    }

    /// Whether the server keeps this connection open and silent. Received bytes can be taken.
    pub fn is_quiet(&mut self) -> bool {
        self.stream.socket().set_nonblocking(true).expect("it is ours");
        let mut buffer = [0; 4096];
        let received = self.stream.read(&mut buffer);
        self.stream.socket().set_nonblocking(false).expect("it is ours");
        match received {
            Ok(count) => {
                self.bytes.extend_from_slice(&buffer[..count]);
                false
            }
            Err(error) => error.kind() == ErrorKind::WouldBlock && self.bytes.is_empty(),
        }
    }

    /// Whether bytes have been received that were not taken.
    pub fn has_received(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Closes the connection so that the server gets a reset.
    pub fn reset(self) {
        set_socket_linger(self.stream.socket(), Some(Duration::ZERO)).expect("it is ours");
    }
}

/// A request. The content is framed by its length.
pub fn request(method: &str, target: &str, content: &[u8]) -> Vec<u8> {
    let length = if content.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", content.len()) };
    [format!("{method} {target} HTTP/1.1\r\nHost: test\r\n{length}\r\n").as_bytes(), content].concat()
}
