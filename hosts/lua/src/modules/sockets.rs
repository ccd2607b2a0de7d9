//! Sockets of scripts that never block: the Lua code of `waiting.lua` waits when a call would.

use super::kept_streams::KeptStream;
use super::received::Received;
use super::stream::Stream;
use super::tls::{Failure, Step};
use super::trust::Trust;
use crate::waits::blocking::duration;
use mlua::{Lua, LuaString, UserData, UserDataMethods, Value};
use rustix::io::Errno;
use rustix::net::sockopt::{set_tcp_nodelay, socket_error};
use rustix::net::{AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, socket_with};
use std::ffi::OsStr;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// A connected or connecting socket, and the bytes that have arrived on it and were not read.
pub(super) struct Socket {
    stream: Option<Stream>,
    /// The place of the stream while the script keeps the connection for later.
    kept: Option<KeptStream>,
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

impl Socket {
    /// Connects to an address: returns the socket and whether it is connected, or nil and a message.
    pub(super) fn open(lua: &Lua, (datagrams, address, port): (bool, LuaString, u16)) -> mlua::Result<(Option<Self>, Value)> {
        let address = address.to_string_lossy();
        let mut outcome = Self::connect(datagrams, &address, port);
        if matches!(outcome, Err(Errno::MFILE)) {
            // Handlers that have failed may have left sockets open.
            lua.gc_collect()?;
            outcome = Self::connect(datagrams, &address, port);
        }
        match outcome {
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
        let stream = Some(Stream::new(socket));
        Ok((Self { stream, kept: None, received: Received::default(), most: usize::MAX }, done))
    }

    fn descriptor(&self) -> rustix::io::Result<&OwnedFd> {
        self.stream.as_ref().map(Stream::socket).ok_or(Errno::NOTCONN)
    }

    fn stream(&mut self) -> Result<&mut Stream, Failure> {
        self.stream.as_mut().ok_or(Failure::Socket(Errno::NOTCONN))
    }

    /// Receives; returns the number of bytes, 0 at the end.
    fn fill(&mut self) -> Result<usize, Failure> {
        let Self { stream, received, most, .. } = self;
        let stream = stream.as_mut().ok_or(Failure::Socket(Errno::NOTCONN))?;
        if received.unread().len() >= *most {
            return Err(Failure::Socket(Errno::NOMEM));
        }
        stream.fill(received)
    }

    /// Whether nothing has arrived, and the connection is open: then it can be used again.
    fn is_quiet(&mut self) -> bool {
        self.received.unread().is_empty() && self.stream.as_mut().is_some_and(Stream::is_quiet)
    }

    /// Closes the connection. An `abrupt` end is none in the way of TLS.
    fn close(&mut self, abrupt: bool) {
        self.kept = None;
        if let Some(mut stream) = self.stream.take()
            && !abrupt
        {
            stream.end();
        }
    }

    /// Begins TLS with a server, or goes on with the handshake: returns whether the script must wait to read, or to write.
    fn shake(&mut self, name: &str, trust: &Trust) -> Result<Step, Failure> {
        if !self.received.unread().is_empty() {
            return Err(Failure::Tls("unread data before TLS".to_owned()));
        }
        self.stream()?.shake(name, trust)
    }
}

/// A count; or nil if the call would block; or nil and a message.
fn counted(lua: &Lua, outcome: Result<usize, Failure>) -> mlua::Result<(Option<usize>, Value)> {
    let message = match outcome {
        Ok(count) => return Ok((Some(count), Value::Nil)),
        Err(Failure::Blocks) => return Ok((None, Value::Nil)),
        Err(Failure::Socket(error)) => words(error),
        Err(Failure::Tls(message)) => message,
    };
    Ok((None, Value::String(lua.create_string(message)?)))
}

impl UserData for Socket {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("descriptor", |_, this, ()| Ok(this.descriptor().map_or(-1, AsRawFd::as_raw_fd)));
        methods.add_method_mut("close", |_, this, abrupt: Option<bool>| {
            this.close(abrupt.unwrap_or_default());
            Ok(())
        });
        methods.add_method_mut("is_quiet", |_, this, ()| Ok(this.is_quiet()));
        // Keeps the connection for some seconds; nil is no limit.
        methods.add_method_mut("keep", |_, this, seconds: Option<f64>| {
            this.kept = this.stream.take().map(|stream| KeptStream::new(stream, seconds.map(duration)));
            Ok(())
        });
        // Takes the connection back; returns whether it can be used.
        methods.add_method_mut("take_back", |_, this, ()| {
            this.stream = this.kept.take().and_then(KeptStream::take_back);
            Ok(this.is_quiet())
        });
        // True after the handshake; otherwise "read", "write" or nil and a message.
        methods.add_method_mut("shake", |lua, this, (name, verify, file): (LuaString, bool, Option<LuaString>)| {
            let file = file.map(|file| PathBuf::from(OsStr::from_bytes(&file.as_bytes())));
            match this.shake(&name.to_string_lossy(), &Trust { verify, file }) {
                Ok(Step::Done) => Ok((Value::Boolean(true), Value::Nil)),
                Ok(Step::WaitsToRead) => Ok((Value::String(lua.create_string("read")?), Value::Nil)),
                Ok(Step::WaitsToWrite) => Ok((Value::String(lua.create_string("write")?), Value::Nil)),
                Err(other) => Ok((Value::Nil, counted(lua, Err(other))?.1)),
            }
        });
        // Sends the bytes that TLS has sealed: 0 when all are sent.
        methods.add_method_mut("flush", |lua, this, ()| {
            let outcome = this.stream().and_then(Stream::flush).map(|()| 0);
            counted(lua, outcome)
        });
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
        methods.add_method_mut("send", |lua, this, (data, from): (LuaString, usize)| {
            let bytes = data.as_bytes();
            let rest = bytes.get(from..).unwrap_or_default();
            let outcome = this.stream().and_then(|stream| stream.send(rest));
            counted(lua, outcome)
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
                Err(Errno::AGAIN | Errno::INTR) => Ok((None, None)),
                Err(error) => Ok((None, Some(words(error)))),
            }
        });
    }
}
