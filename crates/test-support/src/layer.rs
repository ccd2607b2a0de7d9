//! The layers between a client and its socket: none, or TLS.

use rustls::{ClientConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::TcpStream;

/// Bytes to and from a server, by way of a socket.
pub trait Layer: Read + Write + Send {
    fn socket(&self) -> &TcpStream;
    /// Announces the end of the client's output to the server.
    fn finish(&mut self) -> io::Result<()>;
}

impl Layer for TcpStream {
    fn socket(&self) -> &TcpStream {
        self
    }

    fn finish(&mut self) -> io::Result<()> {
        self.shutdown(std::net::Shutdown::Write)
    }
}

impl Layer for StreamOwned<ClientConnection, TcpStream> {
    fn socket(&self) -> &TcpStream {
        &self.sock
    }

    fn finish(&mut self) -> io::Result<()> {
        self.conn.send_close_notify();
        self.flush()?;
        self.sock.finish()
    }
}
