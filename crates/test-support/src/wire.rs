//! The transport between clients and a server. Clients write requests of HTTP/1 and read responses of HTTP/1. The environment
//! decides which protocols carry them: with `ORIBI_TEST_TLS=on` TLS, at addresses that the server reports as encrypted; with
//! `ORIBI_TEST_HTTP2=on` HTTP/2, at all addresses.

use crate::built;
use crate::http2::Http2;
use crate::layer::Layer;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// A handshake that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(30);

fn is_on(variable: &str) -> bool {
    std::env::var(variable).is_ok_and(|value| value == "on")
}

pub fn over_http2() -> bool {
    is_on("ORIBI_TEST_HTTP2")
}

/// Returns options that let a server encrypt, if the environment demands TLS.
pub fn options() -> Vec<String> {
    if !is_on("ORIBI_TEST_TLS") {
        return Vec::new();
    }
    vec!["--ssl-cert".to_owned(), certificate().display().to_string()]
}

/// Returns the file with a certificate for 127.0.0.1 and its key, which is made once for all tests of this program.
pub fn certificate() -> &'static PathBuf {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    FILE.get_or_init(|| {
        let file = |what| temporary().join(format!("wire-{}-{what}", std::process::id()));
        let (both, key, words) = (file("certificate"), file("key"), file("words"));
        // OpenSSL makes the certificate of an authority by default, which rustls does not accept for a server.
        let own = "[req]\ndistinguished_name=name\nx509_extensions=own\n[name]\n[own]\nsubjectAltName=IP:127.0.0.1\n";
        std::fs::write(&words, own).expect("the folder is ours");
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-nodes", "-days", "30", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]);
        openssl.args(["-subj", "/CN=wire", "-config"]).arg(&words).arg("-keyout").arg(&key).arg("-out").arg(&both);
        let made = openssl.output().expect("openssl is installed");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let text = [&both, &key].map(|part| std::fs::read(part).expect("it was just made")).concat();
        std::fs::write(&both, text).expect("the folder is ours");
        both
    })
}

/// The folder for files that remain after tests.
fn temporary() -> PathBuf {
    let folder = built().with_file_name("tmp");
    std::fs::create_dir_all(&folder).expect("the folder of cargo is ours");
    folder
}

/// The addresses at which servers encrypt.
static ENCRYPTED: Mutex<BTreeSet<SocketAddr>> = Mutex::new(BTreeSet::new());

/// Records whether a server encrypts at an address, which has the form `PROTOCOL://ADDRESS`. An earlier server may have had the
/// same address.
pub fn note(address: &str) {
    let mut known = ENCRYPTED.lock().unwrap_or_else(PoisonError::into_inner);
    match address.split_once("://").map(|(protocol, address)| (protocol, address.parse())) {
        Some(("https", Ok(address))) => _ = known.insert(address),
        Some((_, Ok(address))) => _ = known.remove(&address),
        _ => {}
    }
}

/// Returns the settings of a client that trusts only our certificate, and offers only `protocol`.
fn client(protocol: &[u8]) -> Arc<ClientConfig> {
    static CLIENT: OnceLock<ClientConfig> = OnceLock::new();
    let config = CLIENT.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(certificate()).expect("it is one")).expect("it is good");
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().expect("there are some");
        config.with_root_certificates(roots).with_no_client_auth()
    });
    let mut config = config.clone();
    config.alpn_protocols = vec![protocol.to_vec()];
    Arc::new(config)
}

/// Connects to a server, for HTTP/2 or HTTP/1. Also returns whether the connection is encrypted.
pub fn way_to(address: SocketAddr, http2: bool) -> io::Result<(Box<dyn Layer>, bool)> {
    let socket = TcpStream::connect(address)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    if !ENCRYPTED.lock().unwrap_or_else(PoisonError::into_inner).contains(&address) {
        return Ok((Box::new(socket), false));
    }
    let protocol: &[u8] = if http2 { b"h2" } else { b"http/1.1" };
    let connection = ClientConnection::new(client(protocol), ServerName::from(address.ip()));
    let mut stream = StreamOwned::new(connection.map_err(io::Error::other)?, socket);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    Ok((Box::new(stream), true))
}

/// A connection.
pub struct Wire {
    layer: Box<dyn Layer>,
}

impl Wire {
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        Self::open(address, over_http2())
    }

    /// Connects as a client of HTTP/1 even if ORIBI_TEST_HTTP2 is set, for tests that send incomplete requests.
    pub fn of_http1(address: SocketAddr) -> io::Result<Self> {
        Self::open(address, false)
    }

    /// Connects as a client of HTTP/2 even if ORIBI_TEST_HTTP2 is not set.
    pub fn of_http2(address: SocketAddr) -> io::Result<Self> {
        Self::open(address, true)
    }

    fn open(address: SocketAddr, http2: bool) -> io::Result<Self> {
        let (layer, encrypts) = way_to(address, http2)?;
        let layer: Box<dyn Layer> = if http2 { Box::new(Http2::begin(layer, encrypts)?) } else { layer };
        Ok(Self { layer })
    }

    pub fn socket(&self) -> &TcpStream {
        self.layer.socket()
    }

    /// Announces the end of the output to the server.
    pub fn finish(&mut self) -> io::Result<()> {
        self.layer.finish()
    }
}

impl Read for Wire {
    /// Reads again if the read is interrupted. The kernel interrupts reads with a time limit when a process that was stopped
    /// goes on, even without a handler of a signal (signal(7)).
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.layer.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.layer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.layer.flush()
    }
}
