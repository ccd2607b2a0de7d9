//! A connection, both ends of which are in this thread.

use crate::certificates;
use oribi_io::{Accepted, Attempt, Backend, Epoll, Event, Token, Uring};
use oribi_tls::{Options, Secret, Server, Socket, Start, Tls};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientSessionMemoryCache, Resumption};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, SupportedProtocolVersion};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Longer than any test here takes.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub const TOKEN: Token = Token(7);

/// A backend that needs only a kernel.
pub trait Kernel: Backend {
    fn make() -> Self;
}

impl Kernel for Epoll {
    fn make() -> Self {
        Self::new().expect("an epoll instance")
    }
}

impl Kernel for Uring {
    fn make() -> Self {
        Self::new().unwrap_or_else(|refusal| panic!("{refusal}"))
    }
}

/// A client that trusts any certificate.
#[derive(Debug, Default)]
struct Trusting {
    /// The OCSP response of the latest certificate.
    stapled: Arc<Mutex<Vec<u8>>>,
}

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        stapled: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        *self.stapled.lock().expect("nobody panics") = stapled.to_vec();
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// A chain of certificates and its key.
pub type CertifiedIdentity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// The configuration of a client.
#[derive(Clone)]
pub struct Peer {
    pub config: Arc<ClientConfig>,
    pub name: &'static str,
}

impl Peer {
    pub fn speaking(versions: &[&'static SupportedProtocolVersion]) -> Self {
        Self::with(versions, None, Trusting::default())
    }

    /// A client that shows this certificate.
    pub fn showing(versions: &[&'static SupportedProtocolVersion], shown: CertifiedIdentity) -> Self {
        Self::with(versions, Some(shown), Trusting::default())
    }

    /// A client, and the OCSP response that it gets.
    pub fn watching(versions: &[&'static SupportedProtocolVersion]) -> (Self, Arc<Mutex<Vec<u8>>>) {
        let trusting = Trusting::default();
        let stapled = trusting.stapled.clone();
        (Self::with(versions, None, trusting), stapled)
    }

    /// A client that offers these protocols.
    pub fn offering(protocols: &[&[u8]]) -> Self {
        let mut peer = Self::default();
        let mut config = (*peer.config).clone();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        peer.config = Arc::new(config);
        peer
    }

    fn with(versions: &[&'static SupportedProtocolVersion], shown: Option<CertifiedIdentity>, trusting: Trusting) -> Self {
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_protocol_versions(versions)
            .expect("they are known")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(trusting));
        let mut config = match shown {
            Some((chain, key)) => config.with_client_auth_cert(chain, key).expect("it is one"),
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.resumption = Resumption::store(Arc::new(ClientSessionMemoryCache::new(8)));
        Self { config: Arc::new(config), name: "localhost" }
    }
}

impl Default for Peer {
    fn default() -> Self {
        Self::speaking(rustls::ALL_VERSIONS)
    }
}

/// A server for tests that need no particular one.
pub fn server() -> Arc<Server> {
    let secret = Secret::new().expect("random numbers");
    Arc::new(Server::new(certificates::any(), Options::default(), secret).expect("it is good"))
}

pub struct Pair<B: Kernel> {
    pub backend: Tls<B>,
    pub socket: Option<Socket<B::Socket>>,
    pub client: ClientConnection,
    pub stream: TcpStream,
    pub events: Vec<Event>,
}

impl<B: Kernel> Pair<B> {
    /// A connection, before its handshake.
    pub fn begun(server: &Arc<Server>, peer: &Peer) -> Self {
        Self::accepted(server, peer, Start::AtOnce)
    }

    /// A connection that has just been accepted.
    pub fn accepted(server: &Arc<Server>, peer: &Peer, start: Start) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback has a free port");
        listener.set_nonblocking(true).expect("it is ours");
        let mut backend = Tls::new(B::make(), true, [None, Some((server.clone(), start))]).expect("the rules fit");
        let stream = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("the queue has room");
        stream.set_nonblocking(true).expect("it is ours");
        stream.set_nodelay(true).expect("it is ours");
        let Accepted::Connection(mut socket, _) = backend.accept(1, listener.as_fd()) else { panic!("one waits") };
        backend.open(&mut socket, TOKEN).expect("it can be opened");
        let name = ServerName::try_from(peer.name).expect("a name");
        let client = ClientConnection::new(peer.config.clone(), name).expect("the rules fit");
        Self { backend, socket: Some(socket), client, stream, events: Vec::new() }
    }

    /// A connection whose handshake is done.
    pub fn new(server: &Arc<Server>, peer: &Peer) -> Self {
        let mut pair = Self::begun(server, peer);
        pair.shake_hands();
        pair
    }

    pub fn any() -> Self {
        Self::new(&server(), &Peer::default())
    }

    pub fn shake_hands(&mut self) {
        self.until(|pair| {
            pair.exchange();
            assert_eq!(pair.receive(1000), (Attempt::Later, Vec::new()));
            !pair.client.is_handshaking() && pair.backend.encryption(pair.socket.as_ref().expect("it is open")).is_some()
        });
    }

    #[track_caller]
    pub fn until(&mut self, mut done: impl FnMut(&mut Self) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !done(self) {
            assert!(Instant::now() < end, "it does not come; these events did: {:?}", self.events);
            self.wait();
        }
    }

    /// Waits briefly for events, because the client's end is not watched.
    pub fn wait(&mut self) {
        self.backend.wait(Some(Duration::from_millis(1)), &mut self.events).expect("waiting works");
    }

    /// Lets the client send and receive as much as it can; `false` if the connection has ended.
    pub fn exchange(&mut self) -> bool {
        while self.client.wants_write() {
            match self.client.write_tls(&mut self.stream) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return false,
            }
        }
        match self.client.read_tls(&mut self.stream) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
            // The client has not taken the decrypted bytes yet.
            Err(error) if error.kind() == ErrorKind::Other => return true,
            Err(_) => return false,
        }
        self.client.process_new_packets().is_ok()
    }

    /// Receives once into a buffer of this size, and returns the bytes.
    pub fn receive(&mut self, room: usize) -> (Attempt, Vec<u8>) {
        let mut buffer = vec![0; room];
        let attempt = self.backend.receive(self.socket.as_mut().expect("it is open"), &mut buffer);
        buffer.truncate(if let Attempt::Done(count) = attempt { count } else { 0 });
        (attempt, buffer)
    }

    /// Receives at least `size` bytes.
    #[track_caller]
    pub fn receive_all(&mut self, size: usize) -> Vec<u8> {
        let mut all = Vec::new();
        self.until(|pair| {
            pair.exchange();
            loop {
                match pair.receive(5000) {
                    (Attempt::Done(_), bytes) => all.extend(bytes),
                    (Attempt::Later, _) => return all.len() >= size,
                    (attempt, _) => panic!("{attempt:?} after {} bytes", all.len()),
                }
            }
        });
        all
    }

    /// Lets the client read `size` bytes, or all up to the end. Returns them, and whether the end has arrived.
    #[track_caller]
    pub fn client_reads(&mut self, size: usize) -> (Vec<u8>, bool) {
        let (mut all, mut ended) = (Vec::new(), false);
        self.until(|pair| {
            pair.backend.submit();
            let open = pair.exchange();
            let mut buffer = vec![0; 1 << 16];
            loop {
                match pair.client.reader().read(&mut buffer) {
                    Ok(0) => {
                        ended = true;
                        return true;
                    }
                    Ok(count) => all.extend_from_slice(&buffer[..count]),
                    Err(_) => return all.len() >= size || !open,
                }
            }
        });
        (all, ended)
    }

    pub fn client_writes(&mut self, bytes: &[u8]) {
        self.client.writer().write_all(bytes).expect("it has room");
        self.exchange();
    }

    pub fn send(&mut self, bytes: &[u8]) -> Attempt {
        self.backend.send(self.socket.as_mut().expect("it is open"), bytes)
    }

    /// The facts about the connection, if its handshake is done.
    pub fn facts_if_known(&self) -> Option<Vec<String>> {
        self.socket.as_ref().and_then(|socket| self.backend.encryption(socket)).map(|_| self.facts())
    }

    /// The facts about the connection: `NAME=value`.
    pub fn facts(&self) -> Vec<String> {
        let socket = self.socket.as_ref().expect("it is open");
        let facts = self.backend.encryption(socket).expect("the handshake is done");
        let texts: Vec<_> = facts.variables.split(|byte| *byte == 0).map(|text| String::from_utf8_lossy(text)).collect();
        texts.chunks_exact(2).map(|pair| format!("{}={}", pair[0], pair[1])).collect()
    }
}

/// Bytes that differ at every place.
pub fn pattern(size: usize) -> Vec<u8> {
    (0..size).map(|place| (place * 7 + place / 251) as u8).collect()
}
