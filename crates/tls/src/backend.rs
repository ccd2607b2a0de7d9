//! A backend over another backend. Every guarantee of that backend also holds for encrypted connections.
//!
//! A receive decrypts the received bytes and sends the messages of the protocol itself. A send encrypts and sends at once, or
//! reports that there is no room. This backend adds events of two kinds: an end that a client has announced together with its
//! last bytes, and room for a handshake message that has not left, for which only the protocol waits.

use crate::given::{Given, Passages};
use crate::outcome::{Listener, Outcome};
use crate::outgoing::{Flushed, Haste, Outgoing, flush};
use crate::server::{Server, Speaker};
use crate::session::{Over, Session};
use oribi_io::{Accepted, Attempt, Backend, Direction, Encryption, Event, Token};
use std::any::Any;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// The most bytes of one receive. A receive is also limited to about the room in the caller's buffer, because bytes that are
/// decrypted beyond that room must be kept.
const RECEIVED: usize = 64 << 10;

/// The size of a record without its content, and the least room of a receive.
const ADDED: usize = 512;
const LEAST: usize = 4 << 10;

/// The most bytes of a file that are read at once.
const OF_FILE: usize = 64 << 10;

/// A backend that encrypts the connections of some listeners.
#[derive(Debug)]
pub struct Tls<B> {
    backend: B,
    /// Whether clients may choose HTTP/2.
    http2: bool,
    /// For each listener its rules and the start of encryption; `None` if it is not encrypted.
    speakers: Vec<Option<(Speaker, Start)>>,
    incoming: Vec<u8>,
    outgoing: Outgoing,
    of_file: Vec<u8>,
    /// Events that are unknown to the backend below.
    news: Vec<Event>,
    /// Connections whose handshake messages or alerts wait for room.
    stalled: Vec<Token>,
    /// Hijacked connections, which hosts have taken.
    passages: Passages,
    /// The receiver of the outcomes of handshakes; `None` without one.
    listener: Option<Listener>,
}

/// The start of a connection's encryption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With its first byte.
    AtOnce,
    /// For a call of [`Backend::encrypt`]: bytes in clear text arrive first.
    WhenAsked,
}

/// A connection's socket.
pub enum Socket<S> {
    /// Not encrypted.
    Plain(S),
    /// Encrypted.
    Secure(Box<Secure<S>>),
}

/// An encrypted connection.
pub struct Secure<S> {
    socket: S,
    token: Option<Token>,
    opened: bool,
    stage: SecureState,
    /// Whether the connection is in the list `stalled` of [`Tls`].
    stalled: bool,
}

#[expect(clippy::large_enum_variant, reason = "nearly every encrypted connection is in the large one")]
enum SecureState {
    /// Still in clear text, at the listener with this number.
    Clear(usize),
    Session(Session),
    /// Hijacked: a host uses the connection through a thread.
    Given(Given),
    /// The connection was cut.
    Aborted,
}

impl<B: Backend> Tls<B> {
    /// Encrypts the connections of each listener with a server, and no others. `http2`: clients may choose HTTP/2.
    ///
    /// # Errors
    /// The error of rustls if it rejects the rules.
    pub fn new(backend: B, http2: bool, listeners: impl IntoIterator<Item = Option<(Arc<Server>, Start)>>) -> io::Result<Self> {
        let mut speakers = Vec::new();
        for listener in listeners {
            let speaker = |(server, start)| Ok::<_, rustls::Error>((Speaker::new(server, http2)?, start));
            speakers.push(listener.map(speaker).transpose().map_err(io::Error::other)?);
        }
        Ok(Self {
            backend,
            http2,
            speakers,
            incoming: Vec::new(),
            outgoing: Outgoing::default(),
            of_file: Vec::new(),
            news: Vec::new(),
            stalled: Vec::new(),
            passages: Passages::default(),
            listener: None,
        })
    }

    /// Calls `told` with the outcome of each handshake from now on.
    pub fn tell_outcomes(&mut self, told: impl Fn(Outcome) + Send + Sync + 'static) {
        self.listener = Some(Listener::new(told));
    }

    /// Reports the outcome of a handshake, once.
    fn tell_outcome(&self, session: &mut Session) {
        if let (Some(outcome), Some(listener)) = (session.outcome(), &self.listener) {
            listener.tell(outcome);
        }
    }

    /// Records the handshake as failed, if it has begun and is not done: the connection is about to be closed.
    fn give_up_handshake(&self, stage: &mut SecureState) {
        if let SecureState::Session(session) = stage {
            session.give_up_handshake();
            self.tell_outcome(session);
        }
    }

    fn accepted(&mut self, listener: usize, accepted: Accepted<B::Socket>) -> Accepted<Socket<B::Socket>> {
        match accepted {
            Accepted::Connection(socket, peer) => {
                let stage = match self.speakers.get_mut(listener) {
                    Some(Some((_, Start::WhenAsked))) => SecureState::Clear(listener),
                    Some(Some((speaker, Start::AtOnce))) => begin(speaker),
                    Some(None) | None => return Accepted::Connection(Socket::Plain(socket), peer),
                };
                let secure = Secure { socket, token: None, opened: false, stage, stalled: false };
                Accepted::Connection(Socket::Secure(Box::new(secure)), peer)
            }
            Accepted::None => Accepted::None,
            Accepted::Exhausted(error) => Accepted::Exhausted(error),
        }
    }

    /// Separate from [`Backend::receive`], so that other connections do not pay for its size.
    #[inline(never)]
    fn receive_secure(&mut self, secure: &mut Secure<B::Socket>, buffer: &mut [u8]) -> Attempt {
        let Secure { socket, token, opened, stage, stalled } = secure;
        let session = match stage {
            SecureState::Session(session) => session,
            SecureState::Clear(_) => return self.backend.receive(socket, buffer),
            SecureState::Given(_) | SecureState::Aborted => return Attempt::Broken,
        };
        let shakes_hands = session.facts().is_none();
        let mut filled = session.take(buffer);
        while filled < buffer.len() && session.over.is_none() {
            let room = (buffer.len() - filled + ADDED).clamp(LEAST, RECEIVED);
            let kept = session.restore(&mut self.incoming, room);
            match self.backend.receive(socket, &mut self.incoming[kept..kept + room]) {
                Attempt::Done(count) => {
                    session.handle(&mut self.incoming[..kept + count]);
                    filled += session.take(&mut buffer[filled..]);
                    if count < room {
                        break;
                    }
                }
                Attempt::Later => break,
                Attempt::End | Attempt::Broken => session.ends_unannounced(),
            }
        }
        if shakes_hands {
            self.tell_outcome(session);
        }
        // If bytes were decrypted, a response to them follows, and the waiting bytes leave together with it.
        if !session.waiting.is_empty() && session.owed == 0 && (filled == 0 || session.over.is_some()) {
            match flush(&mut self.backend, socket, session) {
                Flushed::All => {
                    if let (Some(token), true) = (*token, std::mem::take(stalled)) {
                        self.stalled.retain(|other| *other != token);
                    }
                }
                Flushed::Later => {
                    if let (Some(token), false) = (*token, *stalled) {
                        *stalled = true;
                        self.stalled.push(token);
                    }
                }
                Flushed::Broken => session.over = Some(Over::Broken),
            }
        }
        match session.over {
            _ if filled > 0 => {
                // A short result means that nothing more follows, so the end needs an event of its own.
                if session.over.is_some()
                    && filled < buffer.len()
                    && let (Some(token), true) = (*token, *opened)
                {
                    self.news.push(news(token, true));
                }
                Attempt::Done(filled)
            }
            None => Attempt::Later,
            Some(Over::Ended) => Attempt::End,
            Some(Over::Broken) => Attempt::Broken,
        }
    }

    #[inline(never)]
    fn send_secure(&mut self, secure: &mut Secure<B::Socket>, pieces: &[IoSlice<'_>], haste: Haste) -> Attempt {
        match &mut secure.stage {
            SecureState::Session(session) => self.outgoing.send(&mut self.backend, &mut secure.socket, session, pieces, haste),
            SecureState::Clear(_) => self.backend.send_gathered(&mut secure.socket, pieces),
            SecureState::Given(given) => given.send(pieces),
            SecureState::Aborted => Attempt::Broken,
        }
    }

    /// Sends close_notify, if there is room for it.
    fn say_goodbye(&mut self, secure: &mut Secure<B::Socket>) {
        if let SecureState::Session(session) = &mut secure.stage
            && session.over != Some(Over::Broken)
            && session.owed == 0
        {
            let mut last = std::mem::take(&mut session.waiting);
            let before = last.len();
            session.say_goodbye(&mut last);
            if last.len() > before {
                let _ = self.backend.send_last(&mut secure.socket, &last);
            }
        }
    }

    /// Marks connections that wait for room as readable: a receive also sends their messages.
    #[inline(never)]
    fn adapt(&mut self, events: &mut [Event]) {
        for event in events {
            if let Event::Socket { token, readable, writable: true, .. } = event {
                *readable |= self.stalled.contains(token);
            }
        }
    }
}

/// Begins a session. If it cannot begin, only its connection ends.
fn begin(speaker: &mut Speaker) -> SecureState {
    let (config, witness) = speaker.present();
    match Session::new(config, witness) {
        Ok(session) => SecureState::Session(session),
        Err(error) => {
            log::error!("cannot begin a TLS session: {error}");
            SecureState::Aborted
        }
    }
}

/// The event that makes the caller try a receive.
fn news(token: Token, ended: bool) -> Event {
    Event::Socket { token, readable: true, writable: false, ended, broken: false }
}

/// Waits until the threads of hijacked connections have passed on the bytes of their apps, because the process ends after its
/// last connection, and the threads with it.
impl<B> Drop for Tls<B> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.passages.finish();
        }
    }
}

impl<B: Backend> Backend for Tls<B> {
    type Socket = Socket<B::Socket>;
    type Waiter = B::Waiter;

    #[inline]
    fn sends_at_once(&self) -> bool {
        self.backend.sends_at_once()
    }

    #[inline]
    fn tells_one(&self) -> bool {
        self.backend.tells_one()
    }

    #[inline]
    fn tells_ends(&self) -> bool {
        self.backend.tells_ends()
    }

    fn name(&self) -> &'static str {
        self.backend.name()
    }

    #[inline]
    fn now(&self) -> Duration {
        self.backend.now()
    }

    fn read_clock(&mut self) {
        self.backend.read_clock();
    }

    fn wall_clock(&self) -> Duration {
        self.backend.wall_clock()
    }

    fn listen(&mut self, listener: usize, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.backend.listen(listener, socket)
    }

    fn unlisten(&mut self, listener: usize, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.backend.unlisten(listener, socket)
    }

    /// `encryption` is a `(Arc<Server>, Start)`.
    fn set_encryption(&mut self, listener: usize, encryption: Option<&dyn Any>) -> io::Result<()> {
        let speaker = encryption.map(|encryption| {
            let known = encryption.downcast_ref::<(Arc<Server>, Start)>().ok_or(io::ErrorKind::Unsupported)?;
            let (server, start) = known.clone();
            Ok::<_, io::Error>((Speaker::new(server, self.http2).map_err(io::Error::other)?, start))
        });
        let speaker = speaker.transpose()?;
        if self.speakers.len() <= listener {
            self.speakers.resize_with(listener + 1, || None);
        }
        self.speakers[listener] = speaker;
        Ok(())
    }

    fn watch(&mut self, pipe: BorrowedFd<'_>) -> io::Result<()> {
        self.backend.watch(pipe)
    }

    fn watch_doorbell(&mut self, doorbell: BorrowedFd<'_>) -> io::Result<()> {
        self.backend.watch_doorbell(doorbell)
    }

    fn accept_ahead(&mut self, listener: usize, most: usize) -> bool {
        self.backend.accept_ahead(listener, most)
    }

    fn be_cautious(&mut self) {
        self.backend.be_cautious();
    }

    fn take_accepted(&mut self, listener: usize, socket: BorrowedFd<'_>) -> Accepted<Self::Socket> {
        let accepted = self.backend.take_accepted(listener, socket);
        self.accepted(listener, accepted)
    }

    fn is_waited_at(&self, listener: usize, socket: BorrowedFd<'_>) -> bool {
        self.backend.is_waited_at(listener, socket)
    }

    fn accept(&mut self, listener: usize, socket: BorrowedFd<'_>) -> Accepted<Self::Socket> {
        let accepted = self.backend.accept(listener, socket);
        self.accepted(listener, accepted)
    }

    fn open(&mut self, socket: &mut Self::Socket, token: Token) -> io::Result<()> {
        match socket {
            Socket::Plain(socket) => self.backend.open(socket, token),
            Socket::Secure(secure) => {
                secure.token = Some(token);
                secure.opened = true;
                if let SecureState::Session(session) = &secure.stage
                    && (session.over.is_some() || session.has_decrypted())
                {
                    self.news.push(news(token, session.over.is_some()));
                }
                self.backend.open(&mut secure.socket, token)
            }
        }
    }

    fn put_off(&mut self, socket: &mut Self::Socket, token: Token) -> bool {
        match socket {
            Socket::Plain(socket) => self.backend.put_off(socket, token),
            // A handshake needs the next event anyhow.
            Socket::Secure(_) => false,
        }
    }

    #[inline(always)]
    fn receive(&mut self, socket: &mut Self::Socket, buffer: &mut [u8]) -> Attempt {
        match socket {
            Socket::Plain(socket) => self.backend.receive(socket, buffer),
            Socket::Secure(secure) => self.receive_secure(secure, buffer),
        }
    }

    #[inline(always)]
    fn send(&mut self, socket: &mut Self::Socket, buffer: &[u8]) -> Attempt {
        match socket {
            Socket::Plain(socket) => self.backend.send(socket, buffer),
            Socket::Secure(secure) => self.send_secure(secure, &[IoSlice::new(buffer)], Haste::Now),
        }
    }

    fn send_last(&mut self, socket: &mut Self::Socket, buffer: &[u8]) -> Attempt {
        match socket {
            Socket::Plain(socket) => self.backend.send_last(socket, buffer),
            Socket::Secure(secure) => self.send_secure(secure, &[IoSlice::new(buffer)], Haste::WithEnd),
        }
    }

    fn send_gathered(&mut self, socket: &mut Self::Socket, buffers: &[IoSlice<'_>]) -> Attempt {
        match socket {
            Socket::Plain(socket) => self.backend.send_gathered(socket, buffers),
            Socket::Secure(secure) => self.send_secure(secure, buffers, Haste::Now),
        }
    }

    fn send_file(&mut self, socket: &mut Self::Socket, file: BorrowedFd<'_>, offset: u64, size: usize) -> Attempt {
        let secure = match socket {
            Socket::Plain(socket) => return self.backend.send_file(socket, file, offset, size),
            Socket::Secure(secure) => secure,
        };
        let mut sent = 0;
        while sent < size {
            let mut bytes = std::mem::take(&mut self.of_file);
            bytes.resize(OF_FILE, 0);
            let wanted = (size - sent).min(OF_FILE);
            let read = rustix::io::pread(file, &mut bytes[..wanted], offset + sent as u64);
            let attempt = match read {
                Ok(0) => Attempt::End,
                Ok(count) => self.send_secure(secure, &[IoSlice::new(&bytes[..count])], Haste::Now),
                Err(rustix::io::Errno::INTR) => Attempt::Done(0),
                Err(_) => Attempt::Broken,
            };
            self.of_file = bytes;
            match (attempt, read) {
                (Attempt::Done(count), Ok(all)) if count < all => return Attempt::Done(sent + count),
                (Attempt::Done(count), _) => sent += count,
                // Reports the bytes that have left; the next attempt reports the failure.
                (_, _) if sent > 0 => return Attempt::Done(sent),
                (attempt, _) => return attempt,
            }
        }
        Attempt::Done(sent)
    }

    #[inline]
    fn submit(&mut self) {
        self.backend.submit();
    }

    fn guard(&mut self, socket: &mut Self::Socket, on: bool) {
        match socket {
            Socket::Plain(socket) => self.backend.guard(socket, on),
            Socket::Secure(secure) => self.backend.guard(&mut secure.socket, on),
        }
    }

    fn shutdown(&mut self, socket: &mut Self::Socket, direction: Direction) {
        match (socket, direction) {
            (Socket::Plain(socket), _) => self.backend.shutdown(socket, direction),
            (Socket::Secure(secure), Direction::Send) => {
                if let SecureState::Given(given) = &secure.stage {
                    return given.end();
                }
                self.say_goodbye(secure);
                self.backend.shutdown(&mut secure.socket, direction);
            }
            (Socket::Secure(secure), Direction::Abort) => {
                self.give_up_handshake(&mut secure.stage);
                secure.stage = SecureState::Aborted;
                self.backend.shutdown(&mut secure.socket, direction);
            }
        }
    }

    fn close(&mut self, socket: Self::Socket) {
        match socket {
            Socket::Plain(socket) => self.backend.close(socket),
            Socket::Secure(mut secure) => {
                self.give_up_handshake(&mut secure.stage);
                self.say_goodbye(&mut secure);
                if let (true, Some(token)) = (secure.stalled, secure.token) {
                    self.stalled.retain(|stalled| *stalled != token);
                }
                self.backend.close(secure.socket);
            }
        }
    }

    /// Gives the host one end of a pair of sockets. A thread passes bytes between the other end and the client, and encrypts
    /// and decrypts them.
    fn give_away(&mut self, socket: &mut Self::Socket) -> io::Result<(OwnedFd, Vec<u8>)> {
        let secure = match socket {
            Socket::Plain(socket) => return self.backend.give_away(socket),
            Socket::Secure(secure) => secure,
        };
        let SecureState::Session(session) = &mut secure.stage else { return Err(io::ErrorKind::NotConnected.into()) };
        if session.owed > 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let (connection, received) = self.backend.give_away(&mut secure.socket)?;
        let SecureState::Session(session) = std::mem::replace(&mut secure.stage, SecureState::Aborted) else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let (given, descriptor) = self.passages.pass(session, connection, received)?;
        secure.stage = SecureState::Given(given);
        Ok((descriptor, Vec::new()))
    }

    fn adopt(&mut self, connection: OwnedFd) -> io::Result<Self::Socket> {
        self.backend.adopt(connection).map(Socket::Plain)
    }

    #[inline]
    fn encryption<'s>(&self, socket: &'s Self::Socket) -> Option<&'s Arc<Encryption>> {
        match socket {
            Socket::Plain(_) => None,
            Socket::Secure(secure) => match &secure.stage {
                SecureState::Session(session) => session.facts(),
                SecureState::Clear(_) | SecureState::Given(_) | SecureState::Aborted => None,
            },
        }
    }

    fn is_misdirected(&self, socket: &Self::Socket, host: &[u8]) -> bool {
        match socket {
            Socket::Plain(_) => false,
            Socket::Secure(secure) => matches!(&secure.stage, SecureState::Session(session) if session.is_misdirected(host)),
        }
    }

    fn encrypt(&mut self, socket: &mut Self::Socket, received: &[u8]) -> bool {
        let Socket::Secure(secure) = socket else { return false };
        let SecureState::Clear(listener) = secure.stage else { return false };
        let Some(Some((speaker, _))) = self.speakers.get_mut(listener) else { return false };
        secure.stage = begin(speaker);
        if let (SecureState::Session(session), false) = (&mut secure.stage, received.is_empty()) {
            session.handle(&mut received.to_vec());
            self.tell_outcome(session);
        }
        true
    }

    fn local_address(&self, socket: &Self::Socket) -> Option<SocketAddr> {
        match socket {
            Socket::Plain(socket) => self.backend.local_address(socket),
            Socket::Secure(secure) => self.backend.local_address(&secure.socket),
        }
    }

    fn can_move(&self, socket: &Self::Socket) -> bool {
        matches!(socket, Socket::Plain(_))
    }

    fn has_news(&self) -> bool {
        !self.news.is_empty() || self.backend.has_news()
    }

    fn wait(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        let known = events.len();
        let timeout = if self.news.is_empty() { timeout } else { Some(Duration::ZERO) };
        self.backend.wait(timeout, events)?;
        if !self.stalled.is_empty() {
            self.adapt(&mut events[known..]);
        }
        if !self.news.is_empty() {
            events.append(&mut self.news);
        }
        Ok(())
    }

    fn waiter(&self) -> io::Result<Self::Waiter> {
        self.backend.waiter()
    }

    fn collect(&mut self, waiter: &mut Self::Waiter, events: &mut Vec<Event>) {
        let known = events.len();
        self.backend.collect(waiter, events);
        if !self.stalled.is_empty() {
            self.adapt(&mut events[known..]);
        }
        if !self.news.is_empty() {
            events.append(&mut self.news);
        }
    }
}

impl<S: std::fmt::Debug> std::fmt::Debug for Socket<S> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Plain(socket) => socket.fmt(formatter),
            Self::Secure(secure) => formatter.debug_tuple("Secure").field(&secure.socket).finish(),
        }
    }
}
