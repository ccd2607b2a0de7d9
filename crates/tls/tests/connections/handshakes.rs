//! Handshakes.

use super::certificates::{Certificates, ECDSA, RSA, content};
use super::{Kernel, Pair, Peer};
use crate::pair::server;
use oribi_io::{Attempt, Backend};
use oribi_tls::{Material, Options, Secret, Server, Start};
use rustls::HandshakeKind;
use rustls::version::{TLS12, TLS13};
use std::io::{Read, Write};
use std::sync::Arc;

pub fn each_byte_may_come_alone<B: Kernel>() {
    for version in [&TLS12, &TLS13] {
        let mut pair = Pair::<B>::begun(&server(), &Peer::speaking(&[version]));
        let mut seen = Vec::new();
        let mut asked = false;
        pair.until(|pair| {
            let mut bytes = Vec::new();
            while pair.client.wants_write() {
                pair.client.write_tls(&mut bytes).expect("there is memory");
            }
            for byte in bytes {
                pair.stream.write_all(&[byte]).expect("there is room");
                pair.wait();
                match pair.receive(3) {
                    (Attempt::Done(_), bytes) => seen.extend(bytes),
                    (attempt, _) => assert_eq!(attempt, Attempt::Later),
                }
            }
            pair.exchange();
            while let (Attempt::Done(_), bytes) = pair.receive(3) {
                seen.extend(bytes);
            }
            if !pair.client.is_handshaking() && !std::mem::replace(&mut asked, true) {
                pair.client.writer().write_all(b"question").expect("there is memory");
            }
            seen == b"question"
        });
        assert_eq!(pair.send(b"answer"), Attempt::Done(6));
        assert_eq!(pair.client_reads(6).0, b"answer");
    }
}

pub fn clear_text_may_come_first<B: Kernel>() {
    for taken in [5, 6, 17, 200] {
        let mut pair = Pair::<B>::accepted(&server(), &Peer::default(), Start::WhenAsked);
        let mut bytes = b"PROXY".to_vec();
        pair.client.write_tls(&mut bytes).expect("there is memory");
        pair.stream.write_all(&bytes).expect("there is room");
        let mut seen = Vec::new();
        pair.until(|pair| {
            if let (Attempt::Done(_), more) = pair.receive(taken - seen.len()) {
                seen.extend(more);
            }
            seen.len() == taken
        });
        let (first, rest) = seen.split_at(5);
        assert_eq!(first, b"PROXY");
        let socket = pair.socket.as_mut().expect("it is open");
        assert!(pair.backend.encrypt(socket, rest));
        assert!(!pair.backend.encrypt(socket, b""), "only once");
        pair.shake_hands();
        pair.client_writes(b"question");
        assert_eq!(pair.receive_all(8), b"question");
        assert_eq!(pair.send(b"answer"), Attempt::Done(6));
        assert_eq!(pair.client_reads(6).0, b"answer");
    }
}

pub fn what_is_no_handshake_is_refused<B: Kernel>() {
    for (bytes, answer) in [
        (&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..], &b"HTTP/1.1 400 Bad Request\r\n"[..]),
        (b"\x00\x01\x02\x03\x04\x05\x06", b"\x15\x03"),
        // rustls sends no alert for a message whose announced size is too large.
        (b"\x16\x03\x01\x00\x04\x01\xff\xff\xff", b""),
        (b"\x16\x03\x01\xff\xff", b"\x15\x03"),
        (b"\x17\x03\x03\x00\x01\x00", b"\x15\x03"),
    ] {
        let mut pair = Pair::<B>::begun(&server(), &Peer::default());
        pair.stream.write_all(bytes).expect("there is room");
        let mut end = Attempt::Later;
        pair.until(|pair| {
            end = pair.receive(100).0;
            end != Attempt::Later
        });
        assert_eq!(end, Attempt::Broken, "{bytes:?}");
        assert_eq!(pair.send(b"answer"), Attempt::Broken, "nothing is sent without a handshake");
        pair.backend.close(pair.socket.take().expect("it is open"));
        pair.backend.submit();
        let mut seen = Vec::new();
        pair.until(|pair| {
            let mut buffer = [0; 1000];
            match pair.stream.read(&mut buffer) {
                Ok(0) => return true,
                Ok(count) => seen.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => return true,
            }
            false
        });
        assert!(seen.starts_with(answer), "{bytes:?}: {seen:?}");
    }
}

pub fn sessions_are_resumed_at_every_lane<B: Kernel>() {
    for version in [&TLS12, &TLS13] {
        let material = super::certificates::any();
        let secret = Secret::new().expect("random numbers");
        let passed_on = Secret::from_bytes(&secret.to_bytes()).expect("it is one");
        let stranger = Secret::new().expect("random numbers");
        let lane = |secret| Arc::new(Server::new(material.clone(), Options::default(), secret).expect("it is good"));
        let (first, second, other) = (lane(secret), lane(passed_on), lane(stranger));
        let peer = Peer::speaking(&[version]);
        for (lane, expected) in
            [(&first, HandshakeKind::Full), (&second, HandshakeKind::Resumed), (&other, HandshakeKind::Full)]
        {
            let mut pair = Pair::<B>::new(lane, &peer);
            assert_eq!(pair.client.handshake_kind(), Some(expected));
            // The tickets arrive with the first response at the latest.
            assert_eq!(pair.send(b"answer"), Attempt::Done(6));
            pair.client_reads(6);
            let resumed = pair.facts().iter().any(|fact| fact == "SSL_SESSION_RESUMED=Resumed");
            assert_eq!(resumed, expected == HandshakeKind::Resumed);
        }
    }
}

pub fn the_name_chooses_the_certificate<B: Kernel>() {
    let certificates = Certificates::new();
    let files = [
        certificates.make("first", &["a.example", "*.b.example"], ECDSA),
        certificates.make("rsa", &["c.example"], RSA),
        certificates.make("ecdsa", &["C.example"], ECDSA),
    ];
    let material = Material::read(&files).expect("they are there");
    let server =
        Arc::new(Server::new(material, Options::default(), Secret::new().expect("random numbers")).expect("it is good"));
    let pem = |place: usize| content(&files[place].certificate).into_bytes();
    for (name, place) in [("a.example", 0), ("x.b.example", 0), ("c.example", 1), ("x.y.b.example", 0), ("unknown.example", 0)]
    {
        for version in [&TLS12, &TLS13] {
            let pair = Pair::<B>::new(&server, &Peer { name, ..Peer::speaking(&[version]) });
            let shown = pair.client.peer_certificates().expect("it was shown")[0].clone();
            let expected = rustls::pki_types::pem::PemObject::from_pem_slice(&pem(place)).expect("it is one");
            assert_eq!(shown, expected, "{name}");
            assert!(pair.facts().contains(&format!("SSL_TLS_SNI={name}")));
        }
    }
    assert!(server.to_string().starts_with("a.example, *.b.example (until 20"), "{server}");
    assert!(server.troubles().is_empty());
}

pub fn certificates_are_exchanged_while_connections_stay<B: Kernel>() {
    let certificates = Certificates::new();
    let before = certificates.make("before", &["localhost"], ECDSA);
    let after = certificates.make("after", &["localhost"], ECDSA);
    let read = |files| Material::read(&[files]).expect("they are there");
    let secret = Secret::new().expect("random numbers");
    let server = Arc::new(Server::new(read(before.clone()), Options::default(), secret).expect("it is good"));
    let mut pair = Pair::<B>::new(&server, &Peer::default());
    let shown = |pair: &Pair<B>| pair.client.peer_certificates().expect("it was shown")[0].clone();
    let first = shown(&pair);
    let mixed = oribi_tls::CertificateFiles { key: after.key.clone(), ..before };
    let why = server.check(read(mixed)).expect_err("the key is another one's");
    assert!(why.contains("after.key") && why.contains("does not belong to the certificate"), "{why}");
    assert_eq!(shown(&Pair::new(&server, &Peer::default())), first);
    server.exchange(server.check(read(after)).expect("they are good"));
    assert_ne!(shown(&Pair::new(&server, &Peer::default())), first);
    // A lane that has served before notices the change.
    pair.client_writes(b"question");
    assert_eq!(pair.receive_all(8), b"question");
}

pub fn the_protocol_is_agreed_on<B: Kernel>() {
    let (h2, http1, http1_0): (&[u8], &[u8], &[u8]) = (b"h2", b"http/1.1", b"http/1.0");
    for (offered, agreed) in [
        (&[http1, h2][..], Some(h2)),
        (&[h2], Some(h2)),
        (&[http1_0, http1], Some(http1)),
        (&[http1_0], Some(http1_0)),
        (&[], None),
    ] {
        let pair = Pair::<B>::new(&server(), &Peer::offering(offered));
        assert_eq!(pair.client.alpn_protocol(), agreed);
        let known = pair.backend.encryption(pair.socket.as_ref().expect("it is open")).expect("the handshake is done");
        assert_eq!(known.http2, agreed == Some(h2), "{offered:?}");
    }
}
