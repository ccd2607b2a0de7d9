//! Sockets of scripts that never block: the Lua code of `waiting.lua` waits when a call would.

use super::received::Received;
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

/// A connected or connecting socket, and the bytes that have arrived on it and were not read.
pub(super) struct Socket {
    socket: Option<OwnedFd>,
    received: Received,
    /// The most bytes that may be unread: the memory that the state may have.
    most: usize,
}

/// The words of LuaSocket for an error.
fn words(error: Errno) -> String {
    match error {
        Errno::CONNREFUSED => "connection refused".to_owned(),
        Errno::CONNRESET | Errno::PIPE | Errno::NOTCONN => "closed".to_owned(),
        Errno::TIMEDOUT => "timeout".to_owned(),
        Errno::NOMEM => "not enough memory".to_owned(),
        Errno::HOSTUNREACH => "no route to host".to_owned(),
        other => {
            let text = std::io::Error::from(other).to_string();
            text.split(" (os error").next().unwrap_or_default().to_lowercase()
        }
    }
}

/// The number of bytes that a state may have, which its creator leaves in the state. Lua does not count the bytes that wait in
/// sockets.
pub(crate) struct MemoryLimit(pub(crate) usize);

/// Whether a call would have blocked.
fn blocks(error: Errno) -> bool {
    matches!(error, Errno::AGAIN | Errno::INTR)
}

impl Socket {
    /// Connects to an address: returns the socket and whether it is connected, or nil and a message.
    pub(super) fn open(lua: &Lua, (datagrams, address, port): (bool, LuaString, u16)) -> Result<(Option<Self>, Value)> {
        match Self::connect(datagrams, &address.to_string_lossy(), port) {
            Ok((mut socket, done)) => {
                socket.most = lua.app_data_ref::<MemoryLimit>().map_or(usize::MAX, |limit| limit.0);
                Ok((Some(socket), Value::Boolean(done)))
            }
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
        Ok((Self { socket: Some(socket), received: Received::default(), most: usize::MAX }, done))
    }

    fn descriptor(&self) -> rustix::io::Result<&OwnedFd> {
        self.socket.as_ref().ok_or(Errno::NOTCONN)
    }

    /// Receives; returns the number of bytes, 0 at the end.
    fn fill(&mut self) -> rustix::io::Result<usize> {
        let Self { socket, received, most } = self;
        let socket = socket.as_ref().ok_or(Errno::NOTCONN)?;
        if received.unread().len() >= *most {
            return Err(Errno::NOMEM);
        }
        received.extend(AT_ONCE, |room| recv(socket, room, RecvFlags::empty()).map(|(count, _)| count))
    }

    /// Whether nothing has arrived, and the connection is open: then it can be used again.
    fn is_quiet(&self) -> bool {
        let Some(socket) = &self.socket else { return false };
        self.received.unread().is_empty()
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
        methods.add_method_mut("line", |lua, this, ()| this.received.line().map(|line| lua.create_string(line)).transpose());
        methods.add_method_mut("bytes", |lua, this, count: usize| {
            let found = this.received.unread().get(..count).map(|bytes| lua.create_string(bytes)).transpose()?;
            if found.is_some() {
                this.received.skip(count);
            }
            Ok(found)
        });
        methods.add_method_mut("some", |lua, this, most: Option<usize>| {
            let count = this.received.unread().len().min(most.unwrap_or(usize::MAX).max(1));
            let found = (count > 0).then(|| lua.create_string(&this.received.unread()[..count])).transpose()?;
            this.received.skip(count);
            Ok(found)
        });
        methods.add_method_mut("rest", |lua, this, ()| {
            // If there is no memory for them, the bytes are dropped.
            let received = std::mem::take(&mut this.received);
            lua.create_string(received.unread())
        });
        methods.add_method_mut("up_to", |lua, this, (pattern, inclusive, most): (LuaString, bool, Option<usize>)| {
            let found = this.received.up_to(&pattern.as_bytes(), inclusive, most);
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
