//! The variables about an encrypted connection that apps get. They are CGI-style, with the names of Apache's mod_ssl, which
//! frameworks and apps in every language know.

use crate::clients::describe;
use crate::server::{HTTP_2, HelloChoices};
use crate::suites::name_and_bits;
use oribi_io::Encryption;
use rustls::server::UnbufferedServerConnection;
use rustls::{HandshakeKind, ProtocolVersion};

/// The facts about a connection whose handshake is done. `told` is the client's hello; `asked` is whether the client was
/// asked for a certificate.
pub(crate) fn facts(connection: &UnbufferedServerConnection, told: Option<HelloChoices>, asked: bool) -> Encryption {
    let protocol = match connection.protocol_version() {
        Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
        _ => "TLSv1.2",
    };
    let (cipher, bits) = connection.negotiated_cipher_suite().map_or(("", ""), |found| name_and_bits(found.suite()));
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
    if asked {
        describe(connection.peer_certificates().and_then(<[_]>::first), &mut add);
    }
    Encryption { variables: variables.into(), http2: connection.alpn_protocol() == Some(HTTP_2) }
}
