//! The certificates of a listener, which can be exchanged while it serves, and the rules of its handshakes.

use crate::certificates::Certificates;
use crate::challenges::{ACME, Challenges, is_asked};
use crate::clients::{Verify, verifier};
use crate::material::Material;
use crate::suites::Suites;
use crate::tickets::{Secret, Tickets};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The protocols that clients may choose from (ALPN), in the server's order.
pub(crate) const HTTP_2: &[u8] = b"h2";
const HTTP_1: &[u8] = b"http/1.1";
/// The protocol of clients that insist on it, such as `curl --http1.0`.
const HTTP_1_0: &[u8] = b"http/1.0";
const PROTOCOLS: &[&[u8]] = &[HTTP_2, HTTP_1, HTTP_1_0];

/// Tickets for a client after a full handshake: browsers open several connections at once.
const TICKETS: usize = 2;

/// A version of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// TLS 1.2.
    #[default]
    Tls12,
    /// TLS 1.3.
    Tls13,
}

/// The rules of a listener's handshakes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The oldest accepted version.
    pub oldest: Version,
    /// The accepted suites.
    pub suites: Suites,
    /// Whether clients are asked for certificates.
    pub clients: Verify,
}

/// The certificates and rules of a listener, shared by all lanes of a process.
#[derive(Debug)]
pub struct Server {
    present: Mutex<(Arc<Certificates>, Material)>,
    /// The number of exchanges of the certificates.
    edition: AtomicU32,
    options: Options,
    secret: Secret,
    /// The proofs for authorities, if this server answers challenges.
    challenges: OnceLock<Arc<Challenges>>,
}

impl Server {
    /// Checks the content of a listener's files.
    ///
    /// # Errors
    /// Says which file is faulty, and why.
    pub fn new(material: Material, options: Options, secret: Secret) -> Result<Self, String> {
        let Checked(certificates, material) = check(Certificates::of(&material)?, material, &options)?;
        let present = Mutex::new((certificates, material));
        Ok(Self { present, edition: AtomicU32::new(0), options, secret, challenges: OnceLock::new() })
    }

    /// Checks that a lane can serve by these rules. `http2`: clients may choose HTTP/2.
    ///
    /// # Errors
    /// The rules contradict each other; the message says how.
    pub fn check_rules(self: &Arc<Self>, http2: bool) -> Result<(), String> {
        Speaker::new(Arc::clone(self), http2).map(drop).map_err(|error| error.to_string())
    }

    /// Checks new certificates.
    ///
    /// # Errors
    /// Says which file is faulty, and why.
    pub fn check(&self, material: Material) -> Result<Checked, String> {
        let (certificates, known) = self.present.lock().unwrap_or_else(PoisonError::into_inner).clone();
        check(certificates.renewed(&known, &material)?, material, &self.options)
    }

    /// Offers these certificates to new connections. Existing connections keep theirs.
    pub fn exchange(&self, Checked(certificates, material): Checked) {
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        // Lanes would make their rules again for nothing.
        if present.1 != material {
            *present = (certificates, material);
            self.edition.fetch_add(1, Release);
        }
    }

    /// The contents of the files of the current certificates, with the keys.
    #[must_use]
    pub fn material(&self) -> Material {
        self.present.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    /// The secret of the session tickets.
    #[must_use]
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Sets the source of proofs for authorities, for lanes that begin from now on. Only the first call has an effect.
    pub fn answer_challenges(&self, challenges: Arc<Challenges>) {
        let _ = self.challenges.set(challenges);
    }

    /// The source of proofs for authorities; `None` if this listener gives none.
    #[must_use]
    pub fn challenges(&self) -> Option<&Arc<Challenges>> {
        self.challenges.get()
    }

    /// Warnings for the operator, about certificates that have expired or will soon.
    #[must_use]
    pub fn troubles(&self) -> Vec<String> {
        self.present().troubles()
    }

    /// For each certificate with an end: its name, or that of its file if it has none, and the end in seconds since 1970.
    #[must_use]
    pub fn expiries(&self) -> Vec<(String, u64)> {
        self.present().expiries()
    }

    fn present(&self) -> Arc<Certificates> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }
}

fn check(certificates: Certificates, material: Material, options: &Options) -> Result<Checked, String> {
    if options.clients != Verify::None && certificates.authorities.is_none() {
        return Err("clients are asked for certificates, but no CA for them is given".to_owned());
    }
    Ok(Checked(Arc::new(certificates), material))
}

/// Checked certificates that are not offered yet.
#[derive(Debug)]
pub struct Checked(Arc<Certificates>, Material);

impl std::fmt::Display for Server {
    /// The names of the certificates, and the ends of their validity.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.present().fmt(formatter)
    }
}

/// The requests in a client's hello.
#[derive(Debug)]
pub(crate) struct HelloChoices {
    /// The server name (SNI).
    pub(crate) name: Option<String>,
    /// The index of the certificate that the client gets.
    pub(crate) place: Option<usize>,
    /// Whether the client offers only the protocol of authorities, and there is no proof for it.
    pub(crate) is_refused: bool,
}

/// Chooses certificates for the connections of one lane, and keeps the requests of the latest hello, which rustls shows only
/// to the resolver of certificates.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    pub(crate) certificates: Arc<Certificates>,
    told: Mutex<Option<HelloChoices>>,
    clients: Verify,
    challenges: Option<Arc<Challenges>>,
    /// The other protocols that clients may choose.
    protocols: &'static [&'static [u8]],
}

impl Witness {
    /// Whether clients are asked for certificates.
    pub(crate) fn asks_clients(&self) -> bool {
        self.clients != Verify::None
    }

    pub(crate) fn take(&self) -> Option<HelloChoices> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn note(&self, told: HelloChoices) {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = Some(told);
    }
}

impl ResolvesServerCert for Witness {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name().map(str::to_owned);
        if let Some(challenges) = &self.challenges
            && is_asked(&hello, self.protocols)
        {
            let proof = challenges.proof(&hello);
            self.note(HelloChoices { name, place: None, is_refused: proof.is_none() });
            return proof;
        }
        let place = self.certificates.choose(&hello);
        self.note(HelloChoices { name, place, is_refused: false });
        Some(self.certificates.at(place?))
    }
}

/// A listener's rules as one lane uses them.
#[derive(Debug)]
pub(crate) struct Speaker {
    server: Arc<Server>,
    edition: u32,
    http2: bool,
    config: Arc<ServerConfig>,
    witness: Arc<Witness>,
}

impl Speaker {
    /// Makes the rules. `http2`: clients may choose HTTP/2.
    ///
    /// # Errors
    /// The rules contradict one another.
    pub(crate) fn new(server: Arc<Server>, http2: bool) -> Result<Self, rustls::Error> {
        let edition = server.edition.load(Acquire);
        let (config, witness) = configure(&server, http2)?;
        Ok(Self { server, edition, http2, config, witness })
    }

    /// The configuration and the witness for the next connection, with the current certificates.
    pub(crate) fn present(&mut self) -> (Arc<ServerConfig>, Arc<Witness>) {
        let edition = self.server.edition.load(Acquire);
        if edition != self.edition
            && let Ok((config, witness)) = configure(&self.server, self.http2)
        {
            (self.edition, self.config, self.witness) = (edition, config, witness);
        }
        (self.config.clone(), self.witness.clone())
    }
}

fn configure(server: &Server, http2: bool) -> Result<(Arc<ServerConfig>, Arc<Witness>), rustls::Error> {
    let (certificates, material) = server.present.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let Options { oldest, suites, clients } = &server.options;
    let mut provider = ring::default_provider();
    provider.cipher_suites = suites.chosen();
    let provider = Arc::new(provider);
    let verifier = verifier(*clients, certificates.authorities.clone(), &provider)?;
    let (challenges, protocols) = (server.challenges.get().cloned(), &PROTOCOLS[usize::from(!http2)..]);
    let told = Mutex::new(None);
    let witness = Arc::new(Witness { certificates, told, clients: *clients, challenges: challenges.clone(), protocols });
    let versions: &[_] = match oldest {
        Version::Tls12 => &[&TLS13, &TLS12],
        Version::Tls13 => &[&TLS13],
    };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(witness.clone());
    // The protocol of authorities comes last: a client that also offers another protocol is not an authority, and gets that
    // protocol.
    let of_authorities = challenges.map(|_| ACME);
    config.alpn_protocols = protocols.iter().copied().chain(of_authorities).map(<[u8]>::to_vec).collect();
    config.ticketer = Arc::new(Tickets::new(server.secret.clone(), &clients.context(material.authorities.as_ref())));
    config.send_tls13_tickets = TICKETS;
    // No process could look up a session that another one has stored; a ticket contains its session.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    // A request in early data may be repeated by anyone that has seen it (RFC 8470).
    config.max_early_data_size = 0;
    Ok((Arc::new(config), witness))
}
