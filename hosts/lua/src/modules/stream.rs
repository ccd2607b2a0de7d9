//! A connection of a script, with or without TLS.

use super::received::Received;
use super::tls::{Failure, Step, Tls};
use super::trust::Trust;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::os::fd::OwnedFd;

/// The most bytes that are received at once.
const AT_ONCE: usize = 16 << 10;

/// A socket, and its TLS once that has begun.
pub(super) struct Stream {
    socket: OwnedFd,
    tls: Option<Tls>,
}

fn failure(error: Errno) -> Failure {
    if matches!(error, Errno::AGAIN | Errno::INTR) { Failure::Blocks } else { Failure::Socket(error) }
}

impl Stream {
    pub(super) const fn new(socket: OwnedFd) -> Self {
        Self { socket, tls: None }
    }

    pub(super) const fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Receives; returns the number of bytes, 0 at the end.
    ///
    /// # Errors
    /// See [`Failure`].
    pub(super) fn fill(&mut self, received: &mut Received) -> Result<usize, Failure> {
        match &mut self.tls {
            None => received
                .extend(AT_ONCE, |room| recv(&self.socket, room, RecvFlags::empty()).map(|(count, _)| count))
                .map_err(failure),
            Some(tls) => tls.fill(&self.socket, received),
        }
    }

    /// Sends; returns the number of bytes that need not be passed again. With TLS, some of them may wait for
    /// [`Stream::flush`].
    ///
    /// # Errors
    /// See [`Failure`].
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<usize, Failure> {
        match &mut self.tls {
            None => send(&self.socket, bytes, SendFlags::NOSIGNAL).map_err(failure),
            Some(tls) => tls.send(&self.socket, bytes),
        }
    }

    /// Sends the bytes that TLS has sealed.
    ///
    /// # Errors
    /// See [`Failure`].
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        self.tls.as_mut().map_or(Ok(()), |tls| tls.flush(&self.socket))
    }

    /// Begins TLS with a server, or goes on with the handshake.
    ///
    /// # Errors
    /// See [`Failure`].
    pub(super) fn shake(&mut self, name: &str, trust: &Trust) -> Result<Step, Failure> {
        let tls = match &mut self.tls {
            Some(tls) => tls,
            none => none.insert(Tls::new(name, trust).map_err(Failure::Tls)?),
        };
        tls.shake(&self.socket)
    }

    /// Whether nothing has arrived, and the connection is open: then it can be used again.
    pub(super) fn is_quiet(&mut self) -> bool {
        match &mut self.tls {
            None => matches!(recv(&self.socket, &mut [0_u8; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT), Err(Errno::AGAIN)),
            Some(tls) => tls.is_quiet(&self.socket),
        }
    }

    /// Ends the connection in the way of its protocol.
    pub(super) fn end(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.end(&self.socket);
        }
    }
}
