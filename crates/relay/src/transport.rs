//! A connection to Redis, perhaps encrypted, which never waits; and the thread that opens it, because the resolution of a name
//! and the opening may take long.

use crate::settings::Address;
use rustix::event::PollFlags;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// The longest time for a connection to one address.
const PATIENCE: Duration = Duration::from_secs(5);

/// The bytes that are read at once.
const READ: usize = 64 << 10;

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    fn open(address: &Address) -> io::Result<Self> {
        match address {
            Address::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_nonblocking(true)?;
                Ok(Self::Unix(stream))
            }
            Address::Tcp { host, port, .. } => {
                let mut failure = io::Error::new(ErrorKind::NotFound, "its name has no address");
                for address in (host.as_str(), *port).to_socket_addrs()? {
                    match TcpStream::connect_timeout(&address, PATIENCE) {
                        Ok(stream) => {
                            stream.set_nodelay(true)?;
                            stream.set_nonblocking(true)?;
                            return Ok(Self::Tcp(stream));
                        }
                        Err(error) => failure = error,
                    }
                }
                Err(failure)
            }
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A connection that a thread is opening.
#[derive(Debug)]
pub(crate) struct Connector {
    thread: JoinHandle<io::Result<Stream>>,
    /// Readable when the thread has ended.
    end: UnixStream,
}

impl Connector {
    pub(crate) fn start(address: &Address) -> io::Result<Self> {
        let (end, of_thread) = UnixStream::pair()?;
        let address = address.clone();
        let thread = std::thread::Builder::new().name("connector".to_owned()).spawn(move || {
            let stream = Stream::open(&address);
            drop(of_thread);
            stream
        })?;
        Ok(Self { thread, end })
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Returns the connection. `tls` and the name of the host are for an encrypted one.
    pub(crate) fn finish(self, tls: Option<(&Arc<ClientConfig>, &str)>) -> io::Result<Transport> {
        let stream = self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread has panicked")))?;
        let tls = tls.map(|(config, host)| {
            let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
            let mut connection = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
            connection.set_buffer_limit(None);
            Ok::<_, io::Error>(Box::new(connection))
        });
        Ok(Transport { stream, tls: tls.transpose()?, waiting: Vec::new(), sent: 0 })
    }
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Transport {
    stream: Stream,
    tls: Option<Box<ClientConnection>>,
    /// Bytes that have not left, if they are not encrypted, after `sent` others.
    waiting: Vec<u8>,
    sent: usize,
}

impl Transport {
    /// The socket, and the events of it for which to wait.
    pub(crate) fn polled(&self) -> (BorrowedFd<'_>, PollFlags) {
        let socket = match &self.stream {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        };
        (socket, if self.is_waiting() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN })
    }

    /// Whether bytes have not left.
    pub(crate) fn is_waiting(&self) -> bool {
        self.sent < self.waiting.len() || self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Takes bytes to be sent. Called when none wait.
    pub(crate) fn send(&mut self, bytes: Vec<u8>) -> io::Result<()> {
        match &mut self.tls {
            Some(tls) => tls.writer().write_all(&bytes)?,
            None => (self.waiting, self.sent) = (bytes, 0),
        }
        self.flush().map(|_| ())
    }

    /// Sends the bytes that wait, as far as there is room. Returns whether any have left.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        let mut have_left = false;
        while self.is_waiting() {
            let sent = match &mut self.tls {
                Some(tls) => tls.write_tls(&mut self.stream),
                None => self.stream.write(&self.waiting[self.sent..]),
            };
            match sent {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(size) => {
                    have_left = true;
                    if self.tls.is_none() {
                        self.sent += size;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(have_left),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if self.sent > 0 {
            (self.waiting, self.sent) = (Vec::new(), 0);
        }
        Ok(have_left)
    }

    /// Reads what has arrived and appends it to `buffer`. Returns whether there was anything.
    pub(crate) fn receive(&mut self, buffer: &mut Vec<u8>) -> io::Result<bool> {
        let before = buffer.len();
        let Some(tls) = &mut self.tls else {
            buffer.resize(before + READ, 0);
            let read = self.stream.read(&mut buffer[before..]);
            buffer.truncate(before + *read.as_ref().unwrap_or(&0));
            return arrived(read);
        };
        if !arrived(tls.read_tls(&mut self.stream))? {
            return Ok(false);
        }
        let processed = tls.process_new_packets();
        if let Err(error) = processed {
            // The server learns why, if it still listens.
            let _ = tls.write_tls(&mut self.stream);
            return Err(io::Error::new(ErrorKind::InvalidData, error));
        }
        match tls.reader().read_to_end(buffer) {
            Ok(_) => Err(ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(true),
            Err(error) => Err(error),
        }
    }
}

fn arrived(read: io::Result<usize>) -> io::Result<bool> {
    match read {
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(false),
        Err(error) => Err(error),
    }
}
