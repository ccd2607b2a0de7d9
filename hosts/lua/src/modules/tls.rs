//! TLS on a socket of a script. The bytes are sealed and opened here; the waits are those of the socket.

use super::received::Received;
use super::trust::{Trust, settings};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConnection, Error, InvalidMessage};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;

/// The most bytes of a script that are sealed at once, so that a slow peer costs no more memory.
const AT_ONCE: usize = 64 << 10;

/// The most records that are read in a row without content for the script, so that a peer cannot keep the worker.
const ROUNDS: usize = 32;

/// The message for a connection that has ended without an alert: an attacker may have cut off the rest.
const CUT_OFF: &str = "TLS connection cut off";

/// The result of a step that does not block.
pub(super) enum Step {
    Done,
    WaitsToRead,
    WaitsToWrite,
}

/// The reason why a connection cannot go on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The call would block.
    Blocks,
    /// The socket has failed.
    Socket(Errno),
    /// A message for the script.
    Tls(String),
}

/// The state of TLS on a connection.
pub(super) struct Tls {
    connection: Box<ClientConnection>,
}

/// The socket, as rustls reads and writes it.
struct Raw<'a>(&'a OwnedFd);

impl Read for Raw<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        Ok(recv(self.0, room, RecvFlags::empty())?.0)
    }
}

impl Write for Raw<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(self.0, bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A text for scripts: what is wrong, without the bytes of the peer.
fn words(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(reason) => of_certificate(reason),
        Error::NoCertificatesPresented => "the peer has shown no certificate".to_owned(),
        Error::AlertReceived(alert) => format!("the peer has refused TLS: {alert:?}"),
        Error::PeerIncompatible(_) => "the peer has no version or cipher of TLS in common".to_owned(),
        Error::InvalidMessage(InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion)
        | Error::PeerSentOversizedRecord => "the peer does not speak TLS".to_owned(),
        Error::DecryptError => "TLS connection damaged".to_owned(),
        _ => "the peer violates TLS".to_owned(),
    }
}

fn of_certificate(reason: &CertificateError) -> String {
    match reason {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "certificate expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => "certificate not yet valid",
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => "certificate host mismatch",
        CertificateError::UnknownIssuer => "certificate of an unknown authority",
        CertificateError::BadEncoding => "certificate cannot be parsed",
        CertificateError::BadSignature => "certificate has a bad signature",
        CertificateError::Revoked => "certificate revoked",
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => "certificate not for servers",
        // The only one of webpki's own reasons that is common: `openssl req -x509` makes such certificates.
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            "certificate of an authority shown by a server"
        }
        _ => "certificate not acceptable",
    }
    .to_owned()
}

fn failure(error: &io::Error) -> Failure {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::Interrupted => Failure::Blocks,
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::NotConnected => Failure::Tls(CUT_OFF.to_owned()),
        _ => Errno::from_io_error(error).map_or_else(|| Failure::Tls("the peer violates TLS".to_owned()), Failure::Socket),
    }
}

impl Tls {
    /// Begins TLS with the server `name`.
    ///
    /// # Errors
    /// Says what is wrong with the name or the authorities.
    pub(super) fn new(name: &str, trust: &Trust) -> Result<Self, String> {
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        let server = ServerName::try_from(bare.to_owned()).map_err(|_| "bad server name".to_owned())?;
        let connection = ClientConnection::new(settings(trust)?, server).map_err(|error| words(&error))?;
        Ok(Self { connection: Box::new(connection) })
    }

    /// Goes on with the handshake.
    ///
    /// # Errors
    /// See [`Failure`]; never [`Failure::Blocks`].
    pub(super) fn shake(&mut self, socket: &OwnedFd) -> Result<Step, Failure> {
        loop {
            match self.flush(socket) {
                Ok(()) if !self.connection.is_handshaking() => return Ok(Step::Done),
                Ok(()) => {}
                Err(Failure::Blocks) => return Ok(Step::WaitsToWrite),
                // The reason may be in an alert that has arrived.
                Err(other) => return Err(self.take_in(socket).err().filter(|it| *it != Failure::Blocks).unwrap_or(other)),
            }
            match self.take_in(socket) {
                Ok(0) => return Err(Failure::Tls("the peer has closed the connection during the handshake".to_owned())),
                Ok(_) => {}
                Err(Failure::Blocks) => return Ok(Step::WaitsToRead),
                Err(other) => return Err(other),
            }
        }
    }

    /// Receives records and opens them; returns the number of bytes, 0 at the end of the socket.
    fn take_in(&mut self, socket: &OwnedFd) -> Result<usize, Failure> {
        let count = self.connection.read_tls(&mut Raw(socket)).map_err(|error| failure(&error))?;
        if let Err(error) = self.connection.process_new_packets() {
            // The peer gets an alert, if there is room for it.
            let _ = self.flush(socket);
            return Err(Failure::Tls(words(&error)));
        }
        Ok(count)
    }

    /// Receives content; returns the number of bytes, 0 if the peer has ended the connection in the way of TLS.
    ///
    /// # Errors
    /// See [`Failure`].
    pub(super) fn fill(&mut self, socket: &OwnedFd, received: &mut Received) -> Result<usize, Failure> {
        for _ in 0..ROUNDS {
            let mut content = self.connection.reader();
            let opened = received.extend(16 << 10, |room| content.read(room));
            match opened {
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Err(Failure::Tls(CUT_OFF.to_owned())),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(failure(&error)),
            }
            self.take_in(socket)?;
            // An answer to a change of keys; if there is no room, a later call sends it.
            let _ = self.flush(socket);
        }
        Err(Failure::Blocks)
    }

    /// Seals bytes and sends them as far as there is room; returns the number of bytes that need not be passed again.
    ///
    /// # Errors
    /// See [`Failure`].
    pub(super) fn send(&mut self, socket: &OwnedFd, bytes: &[u8]) -> Result<usize, Failure> {
        self.flush(socket)?;
        let bytes = &bytes[..bytes.len().min(AT_ONCE)];
        let count = self.connection.writer().write(bytes).map_err(|error| failure(&error))?;
        match self.flush(socket) {
            Ok(()) | Err(Failure::Blocks) => Ok(count),
            Err(other) => Err(other),
        }
    }

    /// Sends sealed bytes.
    ///
    /// # Errors
    /// See [`Failure`].
    pub(super) fn flush(&mut self, socket: &OwnedFd) -> Result<(), Failure> {
        while self.connection.wants_write() {
            self.connection.write_tls(&mut Raw(socket)).map_err(|error| failure(&error))?;
        }
        Ok(())
    }

    /// Whether the connection is open, and nothing is on its way in or out that a later user would take for an answer.
    pub(super) fn is_quiet(&mut self, socket: &OwnedFd) -> bool {
        if self.connection.is_handshaking() || self.flush(socket).is_err() {
            return false;
        }
        // Session tickets arrive at any time.
        let mut received = Received::default();
        self.fill(socket, &mut received) == Err(Failure::Blocks)
            && !self.connection.wants_write()
            && matches!(recv(socket, &mut [0_u8; 1], RecvFlags::PEEK), Err(Errno::AGAIN))
    }

    /// Says that the connection ends here, if the peer has got everything before.
    pub(super) fn end(&mut self, socket: &OwnedFd) {
        if !self.connection.wants_write() && !self.connection.is_handshaking() {
            self.connection.send_close_notify();
            let _ = self.flush(socket);
        }
    }
}
