//! Certificates of clients.

use super::certificates::{self, Authority, Certificates, ECDSA};
use super::{Kernel, Pair, Peer};
use oribi_io::Attempt;
use oribi_tls::{CertificateFiles, Material, Options, Secret, Server, Suites, Verify};
use rustls::HandshakeKind;
use rustls::version::{TLS12, TLS13};
use std::sync::Arc;

fn server(authority: &Authority, clients: Verify, secret: &Secret) -> Arc<Server> {
    let material = certificates::any().with_authorities(Some(&authority.certificate())).expect("it is there");
    Arc::new(Server::new(material, Options { clients, ..Options::default() }, secret.clone()).expect("it is good"))
}

/// Whether the handshake succeeds for both sides.
fn agrees<B: Kernel>(server: &Arc<Server>, peer: &Peer) -> bool {
    let mut pair = Pair::<B>::begun(server, peer);
    let mut end = None;
    pair.until(|pair| {
        let open = pair.exchange();
        match pair.receive(1000).0 {
            Attempt::Later => {}
            attempt => end = Some(attempt),
        }
        let done = pair.facts_if_known().is_some() && !pair.client.is_handshaking();
        done || end.is_some() || !open
    });
    pair.facts_if_known().is_some()
}

pub fn clients_show_certificates<B: Kernel>() {
    let (authority, other) = (Authority::new(), Authority::new());
    let secret = Secret::new().expect("random numbers");
    for version in [&TLS12, &TLS13] {
        let nobody = Peer::speaking(&[version]);
        let known = Peer::showing(&[version], authority.client("/O=Firm, \\\"a\\\"/CN=J\u{f6}rg", "20990101000000Z"));
        let (required, optional) =
            (server(&authority, Verify::Required, &secret), server(&authority, Verify::Optional, &secret));
        assert!(!agrees::<B>(&required, &nobody), "{version:?}");
        assert!(agrees::<B>(&optional, &nobody));
        assert_eq!(fact(&Pair::<B>::new(&optional, &nobody), "VERIFY").as_deref(), Some("NONE"));
        for server in [&required, &optional] {
            for (client, expected) in [
                (authority.client("/CN=late", "20010101000000Z"), false),
                (other.client("/CN=foreign", "20990101000000Z"), false),
                (authority.client("/CN=good", "20990101000000Z"), true),
                (authority.client(&format!("/CN={}", "x".repeat(60)).repeat(100), "20990101000000Z"), false),
            ] {
                assert_eq!(agrees::<B>(server, &Peer::showing(&[version], client)), expected);
            }
        }
        for kind in [HandshakeKind::Full, HandshakeKind::Resumed] {
            let mut pair = Pair::<B>::new(&required, &known);
            pair.client_writes(b"question");
            assert_eq!(pair.receive_all(8), b"question");
            assert_eq!(pair.send(b"answer"), Attempt::Done(6));
            assert_eq!(pair.client_reads(6).0, b"answer");
            assert_eq!(pair.client.handshake_kind(), Some(kind), "{version:?}");
            assert_eq!(fact(&pair, "VERIFY").as_deref(), Some("SUCCESS"));
            assert_eq!(fact(&pair, "S_DN").as_deref(), Some("CN=J\\C3\\B6rg,O=Firm\\, \\\"a\\\""));
            assert_eq!(fact(&pair, "I_DN").as_deref(), Some("CN=authority"));
            assert!(fact(&pair, "M_SERIAL").is_some_and(|serial| serial.bytes().all(|digit| digit.is_ascii_hexdigit())));
            assert!(fact(&pair, "CERT").is_some_and(|text| text.starts_with("-----BEGIN CERTIFICATE-----\n")));
        }
    }
}

pub fn a_session_is_resumed_only_under_its_own_rules<B: Kernel>() {
    let authority = Authority::new();
    let secret = Secret::new().expect("random numbers");
    let (free, required) = (server(&authority, Verify::None, &secret), server(&authority, Verify::Required, &secret));
    for version in [&TLS12, &TLS13] {
        let peer = Peer::speaking(&[version]);
        for kind in [HandshakeKind::Full, HandshakeKind::Resumed] {
            let mut pair = Pair::<B>::new(&free, &peer);
            assert_eq!(pair.send(b"answer"), Attempt::Done(6));
            assert_eq!(pair.client_reads(6).0, b"answer");
            assert_eq!(pair.client.handshake_kind(), Some(kind));
            assert_eq!(fact(&pair, "VERIFY"), None, "nobody was asked");
        }
        assert!(!agrees::<B>(&required, &peer), "{version:?}: who has shown nothing elsewhere is asked here");
    }
}

pub fn suites_are_chosen<B: Kernel>() {
    let options = Options {
        suites: Suites::parse("TLS_AES_128_GCM_SHA256:ECDHE-ECDSA-CHACHA20-POLY1305").expect("known"),
        ..Options::default()
    };
    let secret = Secret::new().expect("random numbers");
    let server = Arc::new(Server::new(certificates::any(), options, secret).expect("it is good"));
    for (version, expected) in [(&TLS12, "ECDHE-ECDSA-CHACHA20-POLY1305"), (&TLS13, "TLS_AES_128_GCM_SHA256")] {
        let pair = Pair::<B>::new(&server, &Peer::speaking(&[version]));
        assert!(pair.facts().contains(&format!("SSL_CIPHER={expected}")), "{:?}", pair.facts());
    }
}

pub fn what_is_stapled_is_sent<B: Kernel>() {
    // A SEQUENCE with the status "successful", as of an authority; only clients look further.
    const ANSWER: &[u8] = &[0x30, 3, 0x0a, 1, 0];
    let certificates = Certificates::new();
    let files = certificates.make("any", &["localhost"], ECDSA);
    let status = files.certificate.path().expect("it is a file").with_extension("ocsp");
    let files = CertificateFiles { status: Some(status.clone()), ..files };
    let read = |bytes: &[u8]| {
        std::fs::write(&status, bytes).expect("the directory is ours");
        let material = Material::read(std::slice::from_ref(&files)).expect("they are there");
        Server::new(
            Material::from_bytes(&material.to_bytes()).expect("it is one"),
            Options::default(),
            Secret::new().expect("random numbers"),
        )
    };
    let server = Arc::new(read(ANSWER).expect("it is good"));
    for version in [&TLS12, &TLS13] {
        let (peer, stapled) = Peer::watching(&[version]);
        Pair::<B>::new(&server, &peer);
        assert_eq!(*stapled.lock().expect("nobody panics"), ANSWER);
    }
    for (bytes, part) in [
        (&b""[..], "not an OCSP response"),
        (b"-----BEGIN", "not an OCSP response"),
        (&[0x30, 3, 0x0a, 1, 6], "an error"),
        (&[0x30, 3, 0x0a, 1, 0, 0], "follows"),
    ] {
        let why = read(bytes).expect_err("it is none");
        assert!(why.contains("any.ocsp") && why.contains(part), "{why}");
    }
}

fn fact<B: Kernel>(pair: &Pair<B>, name: &str) -> Option<String> {
    let name = format!("SSL_CLIENT_{name}=");
    pair.facts().iter().find_map(|fact| fact.strip_prefix(&name).map(str::to_owned))
}
