//! A session after a panic below it.

use super::{Over, Session};
use crate::outcome::{Failure, Outcome};
use crate::server::Witness;
use rustls::pki_types::ServerName;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig};
use std::sync::Arc;

/// A bug in rustls, or in a crate that it calls.
#[derive(Debug)]
struct Panics;

impl ResolvesServerCert for Panics {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        panic!("this test wants it")
    }
}

fn session() -> Session {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = builder.expect("they fit").with_no_client_auth().with_cert_resolver(Arc::new(Panics));
    Session::new(Arc::new(config), Arc::new(Witness::default())).expect("the rules fit")
}

#[test]
fn a_handshake_ends_once_and_only_if_it_has_begun() {
    let begun: &[u8] = b"\x16\x03\x01\x01\x00\x01";
    let failed = |failure| Some(Outcome::Failed(failure));
    for (received, gone, expected) in [
        (&b""[..], true, None),
        (b"", false, None),
        (begun, true, failed(Failure::Gone)),
        (begun, false, failed(Failure::Stalled)),
        (b"GET / HTTP/1.1\r\n", true, failed(Failure::NotTls)),
        (b"\x16\x03\x01\xff\xff", true, failed(Failure::Other)),
    ] {
        let mut session = session();
        session.handle(&mut received.to_vec());
        if gone {
            session.ends_unannounced();
        }
        session.give_up_handshake();
        assert_eq!((session.outcome(), session.outcome()), (expected, None), "{received:?}");
    }
}

/// The hello of a client whose highest version is this one, without extensions, as clients of TLS 1.1 send it.
fn old_hello(minor: u8) -> Vec<u8> {
    let mut hello = vec![3, minor];
    hello.extend([7; 32]);
    hello.extend([0, 0, 2, 0xc0, 0x14, 1, 0]);
    let mut record = vec![22, 3, 1, 0, hello.len() as u8 + 4, 1, 0, 0, hello.len() as u8];
    record.extend(hello);
    record
}

#[test]
fn a_client_of_an_old_version_is_told_so() {
    for (minor, alert) in [(0, 70), (1, 70), (2, 70), (3, 40)] {
        for size in [1, 7, 100] {
            let mut session = session();
            let mut kept = Vec::new();
            for piece in old_hello(minor).chunks(size) {
                let before = session.restore(&mut kept, piece.len());
                kept.truncate(before);
                kept.extend_from_slice(piece);
                session.handle(&mut kept);
            }
            assert_eq!(session.waiting, [21, 3, minor, 0, 2, 2, alert], "3.{minor} by {size}");
            assert_eq!(session.over, Some(Over::Broken));
            assert_eq!(session.outcome(), Some(Outcome::Failed(Failure::Incompatible)));
        }
    }
}

#[test]
fn a_panic_costs_one_session() {
    let mut session = session();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("they fit");
    let config = builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    let name = ServerName::try_from("localhost").expect("a name");
    let mut client = ClientConnection::new(Arc::new(config), name).expect("the rules fit");
    let mut hello = Vec::new();
    client.write_tls(&mut hello).expect("there is memory");
    session.handle(&mut hello.clone());
    assert_eq!(session.over, Some(Over::Broken));
    assert_eq!((session.outcome(), session.outcome()), (Some(Outcome::Failed(Failure::Other)), None));
    // rustls is not called again.
    session.handle(&mut hello);
    let mut out = Vec::new();
    session.say_goodbye(&mut out);
    assert!(!session.encrypt(b"x", &mut out) && out.is_empty() && session.waiting.is_empty() && !session.is_established());
}
