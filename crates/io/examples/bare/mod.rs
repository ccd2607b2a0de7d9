//! The common part of the loops that parse nothing: options, the answer, and the count of requests.

use memchr::memmem::Finder;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// The most answers that one call sends: as many as Oribi answers in a row.
const AT_ONCE: usize = 16;
/// Answers up to this size are stored [`AT_ONCE`] times in a row.
const SMALL: usize = 4 << 10;
const BACKLOG: i32 = 4096;

/// The options of the command line.
pub struct Options {
    address: String,
    /// The connection is closed after each answer.
    pub close: bool,
    pipelined: bool,
    body: usize,
    /// Sockets are registered with the ring.
    pub registered: bool,
}

impl Options {
    /// Reads the command line; a mistake ends the program.
    pub fn from_command_line(has_ring: bool) -> Options {
        let mut options = Options { address: String::new(), close: false, pipelined: false, body: 11, registered: false };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            match word.as_str() {
                "--close" => options.close = true,
                "--pipelined" => options.pipelined = true,
                "--body" => match words.next().and_then(|bytes| bytes.parse().ok()) {
                    Some(bytes) => options.body = bytes,
                    None => misused(has_ring),
                },
                "--registered" if has_ring => options.registered = true,
                word if !word.starts_with('-') && options.address.is_empty() => word.clone_into(&mut options.address),
                _ => misused(has_ring),
            }
        }
        if options.address.is_empty() {
            misused(has_ring);
        }
        options
    }

    /// A non-blocking listening socket; also raises the limit of descriptors to the hard limit.
    ///
    /// # Errors
    /// Those of the system.
    pub fn listen(&self) -> io::Result<OwnedFd> {
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = limit.maximum;
        let _ = setrlimit(Resource::Nofile, limit);
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let listener = if let Some(path) = self.address.strip_prefix("unix:") {
            let _ = std::fs::remove_file(path);
            let listener = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
            net::bind(&listener, &SocketAddrUnix::new(path)?)?;
            listener
        } else {
            let address: SocketAddr = self.address.parse().map_err(io::Error::other)?;
            let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
            let listener = net::socket_with(family, SocketType::STREAM, flags, None)?;
            sockopt::set_socket_reuseaddr(&listener, true)?;
            // Accepted sockets inherit it.
            sockopt::set_tcp_nodelay(&listener, true)?;
            net::bind(&listener, &address)?;
            listener
        };
        net::listen(&listener, BACKLOG)?;
        Ok(listener)
    }
}

fn misused(has_ring: bool) -> ! {
    let more = if has_ring { " [--registered]" } else { "" };
    eprintln!("usage: ADDRESS [--body BYTES] [--close] [--pipelined]{more}, where ADDRESS is IP:PORT or unix:PATH");
    std::process::exit(2);
}

/// The answer, repeated as often as one call may send it.
pub struct Answers {
    pub bytes: Vec<u8>,
    /// Bytes of one answer.
    pub each: usize,
}

impl Answers {
    /// Creates the native host's answer, but with a constant date.
    pub fn new(options: &Options) -> Answers {
        let end = if options.close { "Connection: close\r\n" } else { "" };
        let mut answer = format!(
            "HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nServer: Oribi\r\nContent-Type: text/plain\r\n\
             Content-Length: {}\r\n{end}\r\n",
            options.body
        )
        .into_bytes();
        answer.extend((b'a'..=b'z').cycle().take(options.body));
        let each = answer.len();
        Answers { bytes: if each <= SMALL { answer.repeat(AT_ONCE) } else { answer }, each }
    }

    /// The bytes to send next if `left` bytes of answers are still to be sent.
    pub fn next(&self, left: usize) -> &[u8] {
        let begin = (self.each - left % self.each) % self.each;
        &self.bytes[begin..self.bytes.len().min(begin + left)]
    }
}

/// Counts the requests of a connection by the empty lines that end their heads: none of them has content.
#[derive(Clone, Copy, Default)]
pub struct Heads {
    /// The last bytes received.
    last: u32,
}

const END: u32 = u32::from_be_bytes(*b"\r\n\r\n");

impl Heads {
    /// The number of requests that end in the received bytes. If requests are not pipelined, at most one request ends there,
    /// and it ends with the last byte.
    #[inline]
    pub fn count(&mut self, options: &Options, finder: &Finder<'_>, received: &[u8]) -> usize {
        let ends_here = if let Some(four) = received.last_chunk() {
            u32::from_be_bytes(*four) == END
        } else {
            received.iter().fold(self.last, |last, &byte| last << 8 | u32::from(byte)) == END
        };
        if !options.pipelined {
            self.remember(received);
            return usize::from(ends_here);
        }
        // The end of a head may lie across two receives.
        let mut across = self.last;
        let mut count = 0;
        for &byte in received.iter().take(3) {
            across = across << 8 | u32::from(byte);
            count += usize::from(across == END);
        }
        count += finder.find_iter(received).count();
        self.remember(received);
        count
    }

    #[inline]
    fn remember(&mut self, received: &[u8]) {
        self.last = match received.last_chunk() {
            Some(four) => u32::from_be_bytes(*four),
            None => received.iter().fold(self.last, |last, &byte| last << 8 | u32::from(byte)),
        };
    }
}
