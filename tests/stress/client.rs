//! A connection to the server, and its possible faults.

use crate::App;
use crate::findings::Findings;
use crate::http2::NOT_TAKEN;
use crate::wire::Wire;
use rustix::net::sockopt::set_socket_recv_buffer_size;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The longest time that a client may wait for the next bytes. A longer wait is a failure.
pub const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// The time after which a waiting client gives up.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// The addresses of the server.
pub struct Peer {
    pub http: SocketAddr,
    /// The address at which the server encrypts.
    pub https: SocketAddr,
    pub fastcgi: SocketAddr,
    pub(crate) app: App,
}

/// The reason why a request was not answered correctly.
#[derive(Debug)]
pub enum Loss {
    /// The connection ended, or was refused. The worker was alive at the time `in_order`, but may have been killed after it.
    Ended { what: String, in_order: Instant },
    /// The server ends the connection and has not taken the request, which may be sent again (RFC 9113, section 6.8).
    NotTaken,
    /// A failure that a killed worker does not excuse: a wait that was too long, or an answer that belongs to another request.
    Wrong(String),
}

impl Loss {
    /// Adds the request to the description of the loss.
    pub fn to(self, request: &str) -> Self {
        match self {
            Self::Ended { what, in_order } => Self::Ended { what: format!("{request}: {what}"), in_order },
            Self::NotTaken => Self::NotTaken,
            Self::Wrong(what) => Self::Wrong(format!("{request}: {what}")),
        }
    }
}

/// A response, without the framing of chunks.
pub struct Response {
    pub status: u16,
    /// Whether the server announces the end of this connection, and whether it announces that it keeps it. A server of HTTP/1.1
    /// may announce nothing and keeps it then.
    pub ends: bool,
    pub keeps: bool,
    pub content: Vec<u8>,
}

pub struct Connection<'a> {
    stream: Wire,
    findings: &'a Findings,
    /// Bytes that were received and not yet taken.
    bytes: Vec<u8>,
    /// The time at which the last request was sent.
    asked: Instant,
    /// The time at which the last answered request was sent. The worker was alive then. The time at which the answer was read
    /// would not show that: the answer may have waited in the socket while the worker died.
    in_order: Instant,
    /// The number of responses that arrived.
    responses: usize,
    /// The pause before each receive, and the most bytes of a receive.
    pub pace: Option<(Duration, usize)>,
}

impl<'a> Connection<'a> {
    pub fn open(address: SocketAddr, findings: &'a Findings) -> Result<Self, Loss> {
        let in_order = Instant::now();
        Self::over(Wire::of_http1(address), in_order, findings)
    }

    /// Opens a connection of HTTP/2, on which requests and responses have the form of HTTP/1.
    pub fn open_http2(address: SocketAddr, findings: &'a Findings) -> Result<Self, Loss> {
        let in_order = Instant::now();
        Self::over(Wire::of_http2(address), in_order, findings)
    }

    fn over(stream: std::io::Result<Wire>, in_order: Instant, findings: &'a Findings) -> Result<Self, Loss> {
        let ended = |error: std::io::Error| Loss::Ended { what: format!("connecting: {error}"), in_order };
        let stream = stream.map_err(ended)?;
        stream.socket().set_read_timeout(Some(PATIENCE)).map_err(ended)?;
        Ok(Self { stream, findings, bytes: Vec::new(), asked: in_order, in_order, responses: 0, pace: None })
    }

    /// Makes the receive buffer of this client small, so that the server has to wait for the client.
    pub fn receive_little(&self) {
        // A kernel that refuses gives the client more than it asks for; nothing is proved less by that.
        let _ = set_socket_recv_buffer_size(self.stream.socket(), 65_536);
    }

    pub fn send(&mut self, bytes: &[u8]) -> Result<(), Loss> {
        self.asked = Instant::now();
        let sent = self.stream.write_all(bytes).and_then(|()| self.stream.flush());
        sent.map_err(|error| self.failed("sending", &error))
    }

    /// Ends this client's side of the connection.
    pub fn finish_sending(&mut self) -> Result<(), Loss> {
        self.stream.finish().map_err(|error| self.failed("ending", &error))
    }

    fn failed(&self, doing: &str, error: &std::io::Error) -> Loss {
        if error.kind() == NOT_TAKEN { Loss::NotTaken } else { self.ended(&format!("{doing}: {error}")) }
    }

    /// Returns the loss for a request whose outcome is unknown, or whose worker has died as the server reports.
    pub fn ended(&self, what: &str) -> Loss {
        let what = format!("{what}, {:.1?} after the request and behind {} responses", self.asked.elapsed(), self.responses);
        Loss::Ended { what, in_order: self.in_order }
    }

    /// Receives more bytes. Returns `false` if the server has ended its side.
    fn receive(&mut self) -> Result<bool, Loss> {
        let mut buffer = [0; 65_536];
        let mut room = buffer.len();
        if let Some((pause, most)) = self.pace {
            std::thread::sleep(pause);
            room = most.min(room);
        }
        let begun = Instant::now();
        let received = self.stream.read(&mut buffer[..room]);
        let wait = begun.elapsed();
        self.findings.note_wait(wait);
        match received {
            Ok(count) => {
                self.bytes.extend_from_slice(&buffer[..count]);
                if wait > LONGEST_WAIT {
                    return Err(Loss::Wrong(format!("waited {wait:.1?}")));
                }
                Ok(count > 0)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                let local = self.stream.socket().local_addr().map_or(0, |address| address.port());
                Err(Loss::Wrong(format!(
                    "waited {PATIENCE:?} in vain, from port {local}, with {} bytes received",
                    self.bytes.len()
                )))
            }
            Err(error) => Err(self.failed(&format!("receiving after {} bytes", self.bytes.len()), &error)),
        }
    }

    /// Waits for `count` bytes, and removes and returns them.
    pub fn take(&mut self, count: usize) -> Result<Vec<u8>, Loss> {
        while self.bytes.len() < count {
            if !self.receive()? {
                return Err(self.ended(&format!("the end after {} of {count} bytes", self.bytes.len())));
            }
        }
        let rest = self.bytes.split_off(count);
        Ok(std::mem::replace(&mut self.bytes, rest))
    }

    /// Removes the received bytes up to the end of `mark`, and returns those before `mark`.
    fn take_to(&mut self, mark: &str) -> Result<String, Loss> {
        loop {
            if let Some(at) = self.bytes.windows(mark.len()).position(|window| window == mark.as_bytes()) {
                let taken = self.take(at + mark.len())?;
                return Ok(String::from_utf8_lossy(&taken[..at]).into_owned());
            }
            if !self.receive()? {
                return Err(self.ended(&format!("the end after {} bytes", self.bytes.len())));
            }
        }
    }

    /// Waits for the server to end the connection.
    pub fn expect_end(&mut self) -> Result<(), Loss> {
        if !self.bytes.is_empty() || self.receive()? {
            return Err(Loss::Wrong(format!("{} bytes came behind the response", self.bytes.len())));
        }
        Ok(())
    }

    /// Takes the next response.
    pub fn response(&mut self) -> Result<Response, Loss> {
        let head = self.take_to("\r\n\r\n")?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| Loss::Wrong(format!("this is no response: {head:?}")))?;
        let field = |name: &str| {
            let mut fields = head.lines().skip(1).filter_map(|line| line.split_once(": "));
            fields.find_map(|(found, value)| found.eq_ignore_ascii_case(name).then_some(value))
        };
        let says = |token| field("Connection").is_some_and(|value| value.eq_ignore_ascii_case(token));
        let length = field("Content-Length").and_then(|length| length.parse().ok());
        let (ends, keeps) = (says("close"), says("keep-alive"));
        let content = match length {
            Some(length) => self.take(length)?,
            None => return Err(Loss::Wrong(format!("the length of the content is not told: {head:?}"))),
        };
        self.is_in_order();
        Ok(Response { status, ends, keeps, content })
    }

    /// Notes that the last request has been answered.
    pub fn is_in_order(&mut self) {
        self.in_order = self.asked;
        self.responses += 1;
    }
}
