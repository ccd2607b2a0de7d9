//! Proof for authorities (`acme-tls/1`, RFC 8737).

use super::certificates::{Certificates, ECDSA, any, content};
use super::{Kernel, Pair, Peer};
use oribi_io::{Accepted, Attempt, Backend, Token};
use oribi_tls::{Challenges, Options, Secret, Server, Start, Tls};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::version::{TLS12, TLS13};
use rustls::{AlertDescription, ClientConnection, Error};
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

const ACME: &[u8] = b"acme-tls/1";

/// A server, and the file with its proof.
struct Site {
    server: Arc<Server>,
    file: PathBuf,
    proof: CertificateDer<'static>,
    _place: TempDir,
}

impl Site {
    /// A server with a proof for `name`.
    fn proving(name: &str) -> Self {
        let server = Server::new(any(), Options::default(), Secret::new().expect("random numbers")).expect("it is good");
        let certificates = Certificates::new();
        let files = certificates.make("proof", &["localhost"], ECDSA);
        let (key, certificate) = (content(&files.key), content(&files.certificate));
        let place = tempfile::tempdir().expect("a directory is to be had");
        let file = place.path().join("proof");
        std::fs::write(&file, format!("{name}\n{key}{certificate}")).expect("the directory is ours");
        server.answer_challenges(Arc::new(Challenges::of(File::open(&file).expect("it is there").into())));
        let proof = CertificateDer::from_pem_slice(certificate.as_bytes()).expect("it is one");
        Self { server: Arc::new(server), file, proof, _place: place }
    }
}

/// Runs both sides until the server reports an end, and returns it.
fn talk<B: Kernel>(pair: &mut Pair<B>) -> Attempt {
    let mut last = Attempt::Later;
    pair.until(|pair| {
        pair.exchange();
        let (attempt, bytes) = pair.receive(1000);
        assert!(bytes.is_empty(), "nobody gets {bytes:?}");
        last = attempt;
        last != Attempt::Later
    });
    last
}

pub fn an_authority_is_shown_its_proof_and_nothing_else_happens<B: Kernel>() {
    let site = Site::proving("localhost");
    for version in [&TLS12, &TLS13] {
        let mut peer = Peer::speaking(&[version]);
        Arc::make_mut(&mut peer.config).alpn_protocols = vec![ACME.to_vec()];
        for request in [&b""[..], b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"] {
            let mut pair = Pair::<B>::begun(&site.server, &peer);
            // The request leaves together with the end of the handshake.
            pair.client.writer().write_all(request).expect("there is memory");
            assert_eq!(talk(&mut pair), Attempt::End);
            assert!(pair.facts_if_known().is_none(), "there is no connection to speak on");
            assert_eq!(pair.client_reads(1), (Vec::new(), true), "its end was said");
            assert_eq!(pair.client.alpn_protocol(), Some(ACME));
            assert_eq!(pair.client.peer_certificates().map(<[_]>::to_vec), Some(vec![site.proof.clone()]));
            assert_eq!(pair.send(b"x"), Attempt::Broken);
        }
    }
    // The server reads the file for each handshake.
    std::fs::write(&site.file, "").expect("it is ours");
    assert!(is_refused(&mut Pair::<B>::begun(&site.server, &Peer::offering(&[ACME]))));
}

/// Whether a client gets the alert no_application_protocol.
fn is_refused<B: Kernel>(pair: &mut Pair<B>) -> bool {
    let mut told = None;
    pair.until(|pair| {
        while pair.client.wants_write() {
            pair.client.write_tls(&mut pair.stream).expect("there is room");
        }
        assert!(matches!(pair.receive(1000), (Attempt::Later | Attempt::Broken, _)));
        match pair.client.read_tls(&mut pair.stream) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            read => assert!(read.expect("it was not cut") > 0, "there was no alert"),
        }
        told = pair.client.process_new_packets().err();
        told.is_some() || !pair.client.is_handshaking()
    });
    told == Some(Error::AlertReceived(AlertDescription::NoApplicationProtocol))
}

pub fn who_asks_for_proof_that_there_is_none_of_is_refused<B: Kernel>() {
    let site = Site::proving("a.example");
    let offering = |protocols: &[&[u8]], name| Peer { name, ..Peer::offering(protocols) };
    let mut nameless = offering(&[ACME], "a.example");
    Arc::make_mut(&mut nameless.config).enable_sni = false;
    for peer in [
        offering(&[ACME], "localhost"),
        offering(&[ACME], "b.a.example"),
        // RFC 8737, section 3: it must be the only protocol.
        offering(&[ACME, b"other"], "a.example"),
        offering(&[b"other", ACME], "a.example"),
        nameless,
    ] {
        assert!(is_refused(&mut Pair::<B>::begun(&site.server, &peer)), "{:?} {}", peer.config.alpn_protocols, peer.name);
    }
    assert!(!is_refused(&mut Pair::<B>::begun(&site.server, &offering(&[ACME], "a.example"))));
    let other = crate::pair::server();
    assert!(is_refused(&mut Pair::<B>::begun(&other, &offering(&[ACME], "a.example"))), "as where none is ever given");
}

pub fn who_speaks_http_as_well_is_no_authority<B: Kernel>() {
    let site = Site::proving("localhost");
    let (h2, http1): (&[u8], &[u8]) = (b"h2", b"http/1.1");
    for (offered, agreed) in [(&[ACME, http1][..], http1), (&[ACME, h2], h2), (&[h2, ACME, http1], h2)] {
        let mut pair = Pair::<B>::new(&site.server, &Peer::offering(offered));
        assert_eq!(pair.client.alpn_protocol(), Some(agreed));
        assert_ne!(pair.client.peer_certificates().expect("it was shown")[0], site.proof);
        pair.client_writes(b"question");
        assert_eq!(pair.receive_all(8), b"question");
    }
}

pub fn a_client_that_is_refused_is_not_taken_for_another<B: Kernel>() {
    let site = Site::proving("a.example");
    let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback has a free port");
    listener.set_nonblocking(true).expect("it is ours");
    let mut backend = Tls::new(B::make(), true, [Some((site.server.clone(), Start::AtOnce))]).expect("the rules fit");
    let mut client = |name: &'static str, protocol: &[u8], number| {
        let peer = Peer::offering(&[protocol]);
        let stream = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("the queue has room");
        let Accepted::Connection(mut socket, _) = backend.accept(0, listener.as_fd()) else { panic!("one waits") };
        backend.open(&mut socket, Token(number)).expect("it can be opened");
        (ClientConnection::new(peer.config, name.try_into().expect("a name")).expect("the rules fit"), stream, socket)
    };
    let mut good = client("good.example", b"http/1.1", 1);
    let others = [client("bad.example", ACME, 2), client("worse.example", b"unknown", 3)];
    // Receives until nothing more is to be sent.
    let mut hear = |socket: &mut _, expected| {
        let (mut events, mut buffer) = (Vec::new(), [0; 100]);
        let end = std::time::Instant::now() + crate::pair::PATIENCE;
        loop {
            // Bytes that the backend has begun to send leave while it waits.
            backend.wait(Some(std::time::Duration::from_millis(1)), &mut events).expect("waiting works");
            let attempt = backend.receive(socket, &mut buffer);
            if attempt == expected || backend.encryption(socket).is_some() {
                return backend.encryption(socket).cloned();
            }
            assert!(std::time::Instant::now() < end, "{attempt:?}");
        }
    };
    good.0.write_tls(&mut good.1).expect("there is room");
    let (mut answered, end) = (false, std::time::Instant::now() + crate::pair::PATIENCE);
    while !answered {
        assert!(std::time::Instant::now() < end, "it is not answered");
        hear(&mut good.2, Attempt::Later);
        good.1.set_nonblocking(true).expect("it is ours");
        answered = good.0.read_tls(&mut good.1).is_ok();
    }
    good.0.process_new_packets().expect("it is a handshake");
    for mut other in others {
        other.0.write_tls(&mut other.1).expect("there is room");
        assert!(hear(&mut other.2, Attempt::Broken).is_none(), "it is refused");
    }
    good.0.write_tls(&mut good.1).expect("there is room");
    let facts = hear(&mut good.2, Attempt::Broken).expect("its handshake is done");
    let facts = String::from_utf8_lossy(&facts.variables).into_owned();
    assert!(facts.contains("SSL_TLS_SNI\0good.example\0"), "{facts:?}");
}
