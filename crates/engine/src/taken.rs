//! Hijacked sockets: an app speaks another protocol with its client.
//!
//! The host gets its own descriptor. If the server has received bytes after the request, the app must read them first, but
//! bytes cannot be put back into a socket. So the app gets one end of a socket pair, and two threads pass on these bytes first,
//! and then everything that follows in both directions. This is rare, because a client waits for the answer before it uses the
//! other protocol.

use super::Engine;
use super::connection::State;
use super::respond::Target;
use super::send::Still;
use oribi_host::ExchangeId;
use oribi_io::{Backend, Sent, break_off, receive_from_app};
use rustix::io::Errno;
use std::io::{self, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread;

/// Exchanges whose sockets hosts have hijacked, and that have not ended.
#[derive(Debug, Default)]
pub(super) struct Taken(Vec<ExchangeId>);

impl<B: Backend> Engine<'_, B> {
    /// Returns a descriptor of the client's connection, for a host that uses the socket itself.
    ///
    /// # Errors
    /// The operating system refused a call; `NotConnected` if the exchange is over; `Unsupported` if the connection also
    /// carries other requests; `WouldBlock` if answers to earlier requests still wait for the client and must reach it first.
    pub fn take_socket(&mut self, exchange: ExchangeId) -> io::Result<OwnedFd> {
        let target =
            Target::find(&mut self.connections, &mut self.streams, exchange).map_err(|_| io::ErrorKind::NotConnected)?;
        if target.alone.is_none() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "the connection also carries other requests"));
        }
        let index = target.index;
        if self.flush(index) == Still::Gone {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let connection = &mut self.connections[index];
        if connection.line.output.is_some() {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, "earlier responses wait for the client"));
        }
        let State::Answering(answering) = &mut connection.state else { return Err(io::ErrorKind::NotConnected.into()) };
        if std::mem::take(&mut connection.line.guarded) {
            // The host ends the connection.
            self.backend.guard(&mut connection.line.socket, false);
        }
        let (descriptor, received) = self.backend.give_away(&mut connection.line.socket)?;
        connection.line.opened = false;
        answering.outlook.taken = true;
        self.taken.0.push(exchange);
        let mut early = answering.early.take().map_or_else(Vec::new, |early| early.0.into_vec());
        early.extend_from_slice(&received);
        if early.is_empty() { Ok(descriptor) } else { with_early_bytes(descriptor, early) }
    }
}

impl<B: Backend> Engine<'_, B> {
    /// Whether the socket of an exchange that has ended was hijacked. Returns `true` only once for each exchange.
    pub(super) fn was_taken(&mut self, exchange: ExchangeId) -> bool {
        let Taken(exchanges) = &mut self.taken;
        let place = exchanges.iter().position(|taken| *taken == exchange);
        place.map(|place| exchanges.swap_remove(place)).is_some()
    }
}

/// Returns a descriptor from which first `early` can be read, and then the bytes of `client`.
fn with_early_bytes(client: OwnedFd, early: Vec<u8>) -> io::Result<OwnedFd> {
    let (ours, theirs) = UnixStream::pair()?;
    // The client's socket may be of another kind. It is only read and written, which works in the same way for every kind.
    let client = UnixStream::from(client);
    let (client_out, ours_out) = (client.try_clone()?, ours.try_clone()?);
    let spawn = |name: &str, task: Box<dyn FnOnce() + Send>| thread::Builder::new().name(name.to_owned()).spawn(task);
    spawn("to app", Box::new(move || pass_on(&client, ours_out, &early)))?;
    spawn("to client", Box::new(move || pass_on(&ours, client_out, &[])))?;
    Ok(theirs.into())
}

/// Passes `first`, and then everything that `from` sends, on to `to`. When `from` has ended, ends the input of `to`; if `from`
/// was broken off, aborts the connection of `to`.
fn pass_on(from: &UnixStream, mut to: UnixStream, first: &[u8]) {
    // If one side has ended, the thread ends; the other side notices it on its own socket.
    let passed = to.write_all(first).and_then(|()| copy(from, &mut to));
    if passed.is_ok_and(|end| matches!(end, Sent::Cut(_))) {
        let _ = break_off(to.as_fd());
        // The other thread also has a descriptor of this socket, and waits there.
        let _ = to.shutdown(Shutdown::Read);
    } else {
        let _ = to.shutdown(Shutdown::Write);
    }
    let _ = from.shutdown(Shutdown::Read);
}

/// Copies all bytes; returns how the input ended.
fn copy(from: &UnixStream, to: &mut UnixStream) -> io::Result<Sent> {
    let mut buffer = [0; 16 << 10];
    loop {
        match receive_from_app(from.as_fd(), &mut buffer) {
            Ok(Sent::Bytes(0)) => return Ok(Sent::Bytes(0)),
            Ok(Sent::Bytes(count)) => to.write_all(&buffer[..count])?,
            Ok(Sent::Cut(count)) => return to.write_all(&buffer[..count]).map(|()| Sent::Cut(count)),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::with_early_bytes;
    use std::io::{Read, Write};
    use std::net::Shutdown;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::thread;

    #[test]
    fn early_bytes_come_first_and_everything_else_follows_in_both_directions() {
        let _deadline = oribi_test_support::waits_for("the threads that pass bytes on");
        let (mut client, server) = UnixStream::pair().expect("sockets are there");
        let mut app = UnixStream::from(with_early_bytes(server.into(), b"early ".to_vec()).expect("sockets are there"));
        client.write_all(b"late").expect("the app is there");
        client.shutdown(Shutdown::Write).expect("the app is there");
        let mut seen = String::new();
        app.read_to_string(&mut seen).expect("the client is there");
        assert_eq!(seen, "early late");
        // More bytes than the sockets hold, so the client reads meanwhile.
        let sending = thread::spawn(move || app.write_all(&[7; 1_000_000]));
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).expect("the app was there");
        sending.join().expect("it does not panic").expect("the client is there");
        assert!(answer == [7; 1_000_000]);
    }

    #[test]
    fn what_is_broken_off_does_not_look_whole() {
        let _deadline = oribi_test_support::waits_for("the threads that pass bytes on");
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let mut client = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
        let (server, _) = listener.accept().expect("it has connected");
        let mut app = UnixStream::from(with_early_bytes(server.into(), b"early".to_vec()).expect("sockets are there"));
        app.write_all(b"half of it").expect("the client is there");
        let mut half = [0; 10];
        client.read_exact(&mut half).expect("it is sent");
        oribi_io::break_off(app.as_fd()).expect("there is room");
        drop(app);
        let error = client.read(&mut half).expect_err("it is not the end");
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    }
}
