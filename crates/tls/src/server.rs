//! What a listener offers: its certificates, which can be exchanged while it serves, and the rules of its handshakes.

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
/// What clients offer that are told to speak it, such as `curl --http1.0`.
const HTTP_1_0: &[u8] = b"http/1.0";
const PROTOCOLS: &[&[u8]] = &[HTTP_2, HTTP_1, HTTP_1_0];

/// The tickets that a client gets with a full handshake: browsers open several connections at once.
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
    /// The oldest version.
    pub oldest: Version,
    /// Which suites are taken.
    pub suites: Suites,
    /// Whether clients are asked for certificates.
    pub clients: Verify,
}

/// What a listener offers. All lanes of a process share it.
#[derive(Debug)]
pub struct Server {
    present: Mutex<(Arc<Certificates>, Material)>,
    /// How many times the certificates have been exchanged.
    edition: AtomicU32,
    options: Options,
    secret: Secret,
    /// Where to look when an authority asks for proof that a domain is this server's.
    challenges: OnceLock<Arc<Challenges>>,
}

impl Server {
    /// Checks what was read from a listener's files.
    ///
    /// # Errors
    /// Says what is wrong, and with which file.
    pub fn new(material: Material, options: Options, secret: Secret) -> Result<Self, String> {
        let Checked(certificates, material) = check(material, &options)?;
        let present = Mutex::new((certificates, material));
        Ok(Self { present, edition: AtomicU32::new(0), options, secret, challenges: OnceLock::new() })
    }

    /// Checks other certificates.
    ///
    /// # Errors
    /// Says what is wrong, and with which file.
    pub fn check(&self, material: Material) -> Result<Checked, String> {
        check(material, &self.options)
    }

    /// Offers these certificates from now on. Connections keep theirs.
    pub fn exchange(&self, Checked(certificates, material): Checked) {
        *self.present.lock().unwrap_or_else(PoisonError::into_inner) = (certificates, material);
        self.edition.fetch_add(1, Release);
    }

    /// What the files of the present certificates contained, with the keys.
    #[must_use]
    pub fn material(&self) -> Material {
        self.present.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    /// The secret of its session tickets.
    #[must_use]
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Has authorities get their proof from there, at lanes that begin from now on. It stays as it was said first.
    pub fn answer_challenges(&self, challenges: Arc<Challenges>) {
        let _ = self.challenges.set(challenges);
    }

    /// Where authorities get their proof from; `None`: they get none here.
    #[must_use]
    pub fn challenges(&self) -> Option<&Arc<Challenges>> {
        self.challenges.get()
    }

    /// What an operator should know of the certificates: those that have expired, or will soon.
    #[must_use]
    pub fn troubles(&self) -> Vec<String> {
        self.present().troubles()
    }

    /// For each certificate that says until when it is valid: the name that it is for, or that of its file if it is for none, and when
    /// it ends, in seconds since 1970.
    #[must_use]
    pub fn expiries(&self) -> Vec<(String, u64)> {
        self.present().expiries()
    }

    fn present(&self) -> Arc<Certificates> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }
}

fn check(material: Material, options: &Options) -> Result<Checked, String> {
    let certificates = Certificates::of(&material)?;
    if options.clients != Verify::None && certificates.authorities.is_none() {
        return Err("clients are asked for certificates, and it is not said who may vouch for them".to_owned());
    }
    Ok(Checked(Arc::new(certificates), material))
}

/// Certificates that are good, and that nobody offers yet.
#[derive(Debug)]
pub struct Checked(Arc<Certificates>, Material);

impl std::fmt::Display for Server {
    /// The names that the certificates are for, and until when.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.present().fmt(formatter)
    }
}

/// What a client has asked for.
#[derive(Debug)]
pub(crate) struct Told {
    /// The server that it wants to reach (SNI).
    pub(crate) name: Option<String>,
    /// The place of the certificate that it is shown.
    pub(crate) place: Option<usize>,
    /// It speaks nothing but the protocol of authorities, and there is nothing to be proved to it.
    pub(crate) is_refused: bool,
}

/// Chooses certificates for the connections of one lane, and notes what the latest client has asked for: rustls tells nobody
/// else.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    pub(crate) certificates: Arc<Certificates>,
    told: Mutex<Option<Told>>,
    clients: Verify,
    challenges: Option<Arc<Challenges>>,
    /// What clients choose from otherwise.
    protocols: &'static [&'static [u8]],
}

impl Witness {
    /// Whether clients are asked for certificates.
    pub(crate) fn asks_clients(&self) -> bool {
        self.clients != Verify::None
    }

    pub(crate) fn take(&self) -> Option<Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn note(&self, told: Told) {
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
            self.note(Told { name, place: None, is_refused: proof.is_none() });
            return proof;
        }
        let place = self.certificates.choose(&hello);
        self.note(Told { name, place, is_refused: false });
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
    /// `http2`: clients may choose HTTP/2.
    ///
    /// # Errors
    /// The rules contradict one another.
    pub(crate) fn new(server: Arc<Server>, http2: bool) -> Result<Self, rustls::Error> {
        let edition = server.edition.load(Acquire);
        let (config, witness) = configure(&server, http2)?;
        Ok(Self { server, edition, http2, config, witness })
    }

    /// What the next connection needs.
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
    // That of authorities is the last one: who offers any other as well is no authority, and gets that.
    let of_authorities = challenges.map(|_| ACME);
    config.alpn_protocols = protocols.iter().copied().chain(of_authorities).map(<[u8]>::to_vec).collect();
    config.ticketer = Arc::new(Tickets::new(server.secret.clone(), &clients.context(material.authorities.as_ref())));
    config.send_tls13_tickets = TICKETS;
    // No process could look up a session that another one has stored; tickets carry theirs.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    // A request in early data may be repeated by anyone who has seen it (RFC 8470).
    config.max_early_data_size = 0;
    Ok((Arc::new(config), witness))
}
