//! Sockets of scripts that never block: the Lua code of `waiting.lua` waits when a call would.

use mlua::{Lua, LuaString, Result, UserData, UserDataMethods, Value};
use rustix::io::Errno;
use rustix::net::sockopt::{set_tcp_nodelay, socket_error};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, send, socket_with,
};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

/// The most bytes that are received at once.
const AT_ONCE: usize = 16 << 10;

/// The bytes of an emptied buffer whose memory is kept.
const KEPT: usize = 64 << 10;

/// A connected or connecting socket, and the bytes that have arrived on it and were not read.
pub(super) struct Socket {
    socket: Option<OwnedFd>,
    input: Vec<u8>,
    /// The number of bytes of `input` that were read.
    start: usize,
    /// The number of bytes of `input` that contain no line end, from `start` on.
    searched: usize,
}

/// The words of LuaSocket for an error.
fn words(error: Errno) -> String {
    match error {
        Errno::CONNREFUSED => "connection refused".to_owned(),
        Errno::CONNRESET | Errno::PIPE | Errno::NOTCONN => "closed".to_owned(),
        Errno::TIMEDOUT => "timeout".to_owned(),
        Errno::HOSTUNREACH => "no route to host".to_owned(),
        other => {
            let text = std::io::Error::from(other).to_string();
            text.split(" (os error").next().unwrap_or_default().to_lowercase()
        }
    }
}

/// Whether a call would have blocked.
fn blocks(error: Errno) -> bool {
    matches!(error, Errno::AGAIN | Errno::INTR)
}

impl Socket {
    /// Connects to an address: returns the socket and whether it is connected, or nil and a message.
    pub(super) fn open(lua: &Lua, (datagrams, address, port): (bool, LuaString, u16)) -> Result<(Option<Self>, Value)> {
        match Self::connect(datagrams, &address.to_string_lossy(), port) {
            Ok((socket, done)) => Ok((Some(socket), Value::Boolean(done))),
            Err(error) => Ok((None, Value::String(lua.create_string(words(error))?))),
        }
    }

    fn connect(datagrams: bool, address: &str, port: u16) -> rustix::io::Result<(Self, bool)> {
        let kind = if datagrams { SocketType::DGRAM } else { SocketType::STREAM };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (socket, outcome) = if let Some(path) = address.strip_prefix("unix:") {
            let socket = socket_with(AddressFamily::UNIX, kind, flags, None)?;
            let outcome = connect(&socket, &SocketAddrUnix::new(path)?);
            (socket, outcome)
        } else {
            let address: IpAddr = address.parse().map_err(|_| Errno::INVAL)?;
            let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
            let socket = socket_with(family, kind, flags, None)?;
            if !datagrams {
                // Scripts send whole requests, and wait for the answers.
                let _ = set_tcp_nodelay(&socket, true);
            }
            let outcome = connect(&socket, &SocketAddr::new(address, port));
            (socket, outcome)
        };
        let done = match outcome {
            Ok(()) => true,
            Err(Errno::INPROGRESS | Errno::INTR) => false,
            Err(error) => return Err(error),
        };
        Ok((Self { socket: Some(socket), input: Vec::new(), start: 0, searched: 0 }, done))
    }

    fn descriptor(&self) -> rustix::io::Result<&OwnedFd> {
        self.socket.as_ref().ok_or(Errno::NOTCONN)
    }

    fn unread(&self) -> &[u8] {
        &self.input[self.start..]
    }

    /// Receives; returns the number of bytes, 0 at the end.
    fn fill(&mut self) -> rustix::io::Result<usize> {
        if self.start > 0 {
            self.input.drain(..self.start);
            self.start = 0;
        }
        let before = self.input.len();
        self.input.resize(before + AT_ONCE, 0);
        let Self { socket, input, .. } = self;
        let received = match socket {
            Some(socket) => recv(socket, &mut input[before..], RecvFlags::empty()).map(|(count, _)| count),
            None => Err(Errno::NOTCONN),
        };
        input.truncate(before + received.unwrap_or_default());
        received
    }

    /// Marks bytes as read.
    fn skip(&mut self, count: usize) {
        self.start += count;
        self.searched = 0;
        if self.start >= self.input.len() {
            self.input.clear();
            self.input.shrink_to(KEPT);
            self.start = 0;
        }
    }

    /// The next line without its end, and without any CR, as LuaSocket's.
    fn line(&mut self) -> Option<Vec<u8>> {
        let unread = self.unread();
        let Some(end) = memchr::memchr(b'\n', &unread[self.searched..]) else {
            self.searched = unread.len();
            return None;
        };
        let end = self.searched + end;
        let line = unread[..end].iter().copied().filter(|&byte| byte != b'\r').collect();
        self.skip(end + 1);
        Some(line)
    }

    /// The bytes up to `pattern`; with `most`, at most so many, and whether the pattern was met.
    fn up_to(&mut self, pattern: &[u8], inclusive: bool, most: Option<usize>) -> Option<(Vec<u8>, bool)> {
        let unread = self.unread();
        let found = memchr::memmem::find(unread, pattern);
        let Some(most) = most else {
            let at = found?;
            let end = at + pattern.len();
            let text = unread[..if inclusive { end } else { at }].to_vec();
            self.skip(end);
            return Some((text, true));
        };
        match found {
            Some(at) => {
                let end = at + pattern.len();
                let wanted = if inclusive { end } else { at };
                if wanted <= most {
                    let text = unread[..wanted].to_vec();
                    self.skip(end);
                    return Some((text, true));
                }
                let text = unread[..most].to_vec();
                self.skip(most);
                Some((text, false))
            }
            // The last bytes may be the beginning of the pattern.
            None if unread.len() >= most + pattern.len() => {
                let text = unread[..most].to_vec();
                self.skip(most);
                Some((text, false))
            }
            None => None,
        }
    }

    /// Whether nothing has arrived, and the connection is open: then it can be used again.
    fn is_quiet(&self) -> bool {
        let Some(socket) = &self.socket else { return false };
        self.unread().is_empty()
            && matches!(recv(socket, &mut [0_u8; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT), Err(Errno::AGAIN))
    }
}

/// A count; or nil if the call would block; or nil and a message.
fn counted(lua: &Lua, outcome: rustix::io::Result<usize>) -> Result<(Option<usize>, Value)> {
    match outcome {
        Ok(count) => Ok((Some(count), Value::Nil)),
        Err(error) if blocks(error) => Ok((None, Value::Nil)),
        Err(error) => Ok((None, Value::String(lua.create_string(words(error))?))),
    }
}

impl UserData for Socket {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("descriptor", |_, this, ()| Ok(this.socket.as_ref().map_or(-1, AsRawFd::as_raw_fd)));
        methods.add_method_mut("close", |_, this, ()| {
            this.socket = None;
            Ok(())
        });
        methods.add_method("is_quiet", |_, this, ()| Ok(this.is_quiet()));
        // The reason why a connection could not be made, or nil.
        methods.add_method("failure", |_, this, ()| {
            let outcome = this.descriptor().and_then(socket_error);
            Ok(match outcome {
                Ok(Ok(())) => None,
                Ok(Err(error)) | Err(error) => Some(words(error)),
            })
        });
        methods.add_method_mut("fill", |lua, this, ()| {
            let outcome = this.fill();
            counted(lua, outcome)
        });
        methods.add_method("send", |lua, this, (data, from): (LuaString, usize)| {
            let bytes = data.as_bytes();
            let rest = bytes.get(from..).unwrap_or_default();
            counted(lua, this.descriptor().and_then(|socket| send(socket, rest, SendFlags::NOSIGNAL)))
        });
        methods.add_method_mut("line", |lua, this, ()| this.line().map(|line| lua.create_string(line)).transpose());
        methods.add_method_mut("bytes", |lua, this, count: usize| {
            let found = this.unread().get(..count).map(|bytes| lua.create_string(bytes)).transpose()?;
            if found.is_some() {
                this.skip(count);
            }
            Ok(found)
        });
        methods.add_method_mut("some", |lua, this, most: Option<usize>| {
            let count = this.unread().len().min(most.unwrap_or(usize::MAX).max(1));
            let found = (count > 0).then(|| lua.create_string(&this.unread()[..count])).transpose()?;
            this.skip(count);
            Ok(found)
        });
        methods.add_method_mut("rest", |lua, this, ()| {
            let rest = lua.create_string(this.unread())?;
            this.skip(this.unread().len());
            Ok(rest)
        });
        methods.add_method_mut("up_to", |lua, this, (pattern, inclusive, most): (LuaString, bool, Option<usize>)| {
            let found = this.up_to(&pattern.as_bytes(), inclusive, most);
            Ok(match found {
                Some((text, met)) => (Some(lua.create_string(text)?), met),
                None => (None, false),
            })
        });
        methods.add_method("datagram", |lua, this, most: usize| {
            let mut bytes = vec![0; most.clamp(1, 65536)];
            match this.descriptor().and_then(|socket| recv(socket, &mut bytes[..], RecvFlags::empty())) {
                Ok((count, _)) => Ok((Some(lua.create_string(&bytes[..count])?), None)),
                Err(error) if blocks(error) => Ok((None, None)),
                Err(error) => Ok((None, Some(words(error)))),
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> Socket {
        Socket { socket: None, input: Vec::new(), start: 0, searched: 0 }
    }

    /// Passes `text` in two pieces, split at every byte, to `read`, which is called after each piece until it returns `None`.
    fn split_everywhere(text: &[u8], mut read: impl FnMut(&mut Socket) -> Option<Vec<u8>>, expected: &[&[u8]], rest: &[u8]) {
        for at in 0..=text.len() {
            let (mut socket, mut found) = (empty(), Vec::new());
            for piece in [&text[..at], &text[at..]] {
                socket.input.extend_from_slice(piece);
                while let Some(part) = read(&mut socket) {
                    found.push(part);
                }
            }
            assert_eq!(found, expected, "split at {at}");
            assert_eq!(socket.unread(), rest, "split at {at}");
        }
    }

    #[test]
    fn lines_are_the_same_however_they_arrive() {
        split_everywhere(b"one\r\n\r\ntwo\nth\rree\n\nre\rst", Socket::line, &[b"one", b"", b"two", b"three", b""], b"re\rst");
    }

    #[test]
    fn a_pattern_is_found_however_it_arrives() {
        let up_to = |inclusive, most| move |socket: &mut Socket| socket.up_to(b"--", inclusive, most).map(|(text, _)| text);
        let text = b"a--bc---d";
        split_everywhere(text, up_to(false, None), &[b"a", b"bc"], b"-d");
        split_everywhere(text, up_to(true, None), &[b"a--", b"bc--"], b"-d");
        // With a number, the pieces may be cut elsewhere, but they are the same text, and the pattern ends in no piece.
        for at in 0..=text.len() {
            let (mut socket, mut joined, mut met) = (empty(), Vec::new(), 0);
            for piece in [&text[..at], &text[at..]] {
                socket.input.extend_from_slice(piece);
                while let Some((part, whole)) = socket.up_to(b"--", false, Some(1)) {
                    assert!(part.len() <= 1, "split at {at}");
                    joined.extend(part);
                    met += u32::from(whole);
                }
            }
            assert_eq!((joined.as_slice(), met, socket.unread()), (&b"abc"[..], 2, &b"-d"[..]), "split at {at}");
        }
    }

    #[test]
    fn what_was_read_is_dropped() {
        let mut socket = empty();
        socket.input = vec![b'x'; 200_000];
        socket.skip(100_000);
        assert_eq!(socket.unread().len(), 100_000);
        socket.skip(100_000);
        assert!(socket.unread().is_empty() && socket.input.capacity() <= KEPT);
    }
}
