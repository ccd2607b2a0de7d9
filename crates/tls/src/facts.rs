//! What apps are told about an encrypted connection: CGI-style variables with the names of Apache's mod_ssl, which frameworks
//! and apps in every language know.

use crate::server::Told;
use oribi_io::Encryption;
use rustls::CipherSuite::{self, *};
use rustls::server::UnbufferedServerConnection;
use rustls::{HandshakeKind, ProtocolVersion};

/// A suite's name in OpenSSL, and the bits of its key.
fn suite(suite: CipherSuite) -> (&'static str, &'static str) {
    match suite {
        TLS13_AES_128_GCM_SHA256 => ("TLS_AES_128_GCM_SHA256", "128"),
        TLS13_AES_256_GCM_SHA384 => ("TLS_AES_256_GCM_SHA384", "256"),
        TLS13_CHACHA20_POLY1305_SHA256 => ("TLS_CHACHA20_POLY1305_SHA256", "256"),
        TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 => ("ECDHE-ECDSA-AES128-GCM-SHA256", "128"),
        TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 => ("ECDHE-ECDSA-AES256-GCM-SHA384", "256"),
        TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 => ("ECDHE-ECDSA-CHACHA20-POLY1305", "256"),
        TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => ("ECDHE-RSA-AES128-GCM-SHA256", "128"),
        TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => ("ECDHE-RSA-AES256-GCM-SHA384", "256"),
        TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => ("ECDHE-RSA-CHACHA20-POLY1305", "256"),
        _ => ("", ""),
    }
}

/// What is known of a connection whose handshake is done. `told` is what its client asked for.
pub(crate) fn facts(connection: &UnbufferedServerConnection, told: Option<Told>) -> Encryption {
    let protocol = match connection.protocol_version() {
        Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
        _ => "TLSv1.2",
    };
    let (cipher, bits) = connection.negotiated_cipher_suite().map_or(("", ""), |found| suite(found.suite()));
    let resumed = connection.handshake_kind() == Some(HandshakeKind::Resumed);
    let mut variables = Vec::new();
    let mut add = |name: &str, value: &str| {
        for text in [name, value] {
            variables.extend_from_slice(text.as_bytes());
            variables.push(0);
        }
    };
    add("SSL_PROTOCOL", protocol);
    add("SSL_CIPHER", cipher);
    add("SSL_CIPHER_USEKEYSIZE", bits);
    add("SSL_CIPHER_ALGKEYSIZE", bits);
    add("SSL_SESSION_RESUMED", if resumed { "Resumed" } else { "Initial" });
    if let Some(name) = told.and_then(|told| told.name) {
        add("SSL_TLS_SNI", &name);
    }
    Encryption { variables: variables.into() }
}
