//! The TLS of one connection: bytes of the client in, bytes of the app out, and the other way round. It makes no system
//! calls.
//!
//! rustls is used without its own buffers ("unbuffered"), so that an idle connection has no memory but its keys. Received
//! bytes are in a buffer that all connections share, and only the rest of an incomplete record is kept.

use crate::certificates::Aim;
use crate::challenges::ACME;
use crate::clients::{has_expired, words};
use crate::facts::facts;
use crate::outcome::{Failure, Outcome};
use crate::server::{HelloChoices, Version, Witness};
use oribi_io::Encryption;
use rustls::pki_types::UnixTime;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{Error, HandshakeKind, ProtocolVersion, ServerConfig};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The most bytes of an incomplete record, or of a handshake message in several records, that wait for the rest: the largest
/// message that rustls takes (64 KiB), with the overhead of its records.
const INCOMPLETE_BYTES: usize = 80 << 10;

/// The response to a client that speaks HTTP without TLS: its user sees the reason, as with other servers.
const SPOKE_PLAINLY: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 53\r\nConnection: close\r\n\r\n\
    This port speaks HTTPS: write https:// in the address\n";

/// The alert no_application_protocol (RFC 7301, section 3.2), for a client that asks for a proof that does not exist: a server
/// that does not know the protocol sends the same alert. rustls would send access_denied, because it only sees that a
/// certificate is missing. The alert is in clear text, because nothing is encrypted yet when a certificate is chosen.
const NO_PROOF: &[u8] = &[21, 3, 3, 0, 2, 2, 120];

/// The reason why the client sends no more bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// The client has announced the end (close_notify).
    Ended,
    /// The client has broken the protocol, or the connection has ended without close_notify.
    Broken,
}

/// The progress of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// The client has sent nothing.
    Nothing,
    Begun,
    /// The outcome; `None` if it was reported, or there is none to report.
    Over(Option<Outcome>),
}

pub(crate) struct Session {
    connection: UnbufferedServerConnection,
    witness: Arc<Witness>,
    /// The requests in the client's hello, until the handshake is done.
    told: Option<HelloChoices>,
    /// Received bytes that are not a whole record yet.
    incomplete: Vec<u8>,
    /// Decrypted bytes; those from `taken` on have not been returned yet.
    decrypted: Vec<u8>,
    taken: usize,
    /// Encrypted bytes that have not been sent yet.
    pub(crate) waiting: Vec<u8>,
    /// The number of the app's bytes that are encrypted in `waiting` and that the caller will pass again.
    pub(crate) owed: usize,
    pub(crate) over: Option<Over>,
    /// The facts about the connection, once the handshake is done.
    facts: Option<Arc<Encryption>>,
    /// The server that the connection is for; `None` if it is for any server.
    aim: Option<Box<Aim>>,
    said_goodbye: bool,
    progress: Progress,
    /// rustls has panicked: it is not called again, and nothing is sent.
    failed: bool,
}

impl Session {
    pub(crate) fn new(config: Arc<ServerConfig>, witness: Arc<Witness>) -> Result<Self, Error> {
        Ok(Self {
            connection: UnbufferedServerConnection::new(config)?,
            witness,
            told: None,
            incomplete: Vec::new(),
            decrypted: Vec::new(),
            taken: 0,
            waiting: Vec::new(),
            owed: 0,
            over: None,
            facts: None,
            aim: None,
            said_goodbye: false,
            progress: Progress::Nothing,
            failed: false,
        })
    }

    /// The facts about the connection; `None` before the handshake is done.
    pub(crate) fn facts(&self) -> Option<&Arc<Encryption>> {
        self.facts.as_ref()
    }

    /// Whether `host` has another certificate than the one that this client got for another name.
    pub(crate) fn is_misdirected(&self, host: &[u8]) -> bool {
        self.aim.as_ref().is_some_and(|aim| self.witness.certificates.is_misdirected(aim, host))
    }

    /// Whether the handshake is done, so that bytes can be encrypted.
    pub(crate) fn is_established(&self) -> bool {
        self.facts.is_some() && !self.said_goodbye
    }

    /// The outcome of the handshake, unless it was returned before.
    pub(crate) fn outcome(&mut self) -> Option<Outcome> {
        if let Progress::Over(outcome) = &mut self.progress { outcome.take() } else { None }
    }

    /// Ends the handshake as stalled: this side is about to close the connection.
    pub(crate) fn give_up_handshake(&mut self) {
        self.conclude_failed(Failure::Stalled);
    }

    /// Records the outcome of a handshake that has begun and has none yet.
    fn conclude(&mut self, outcome: Option<Outcome>) {
        if self.progress == Progress::Begun {
            self.progress = Progress::Over(outcome);
        }
    }

    fn conclude_failed(&mut self, failure: Failure) {
        self.conclude(Some(Outcome::Failed(failure)));
    }

    /// Copies the kept part of an incomplete record to the front of `buffer`, and returns its size. The caller appends received
    /// bytes to it; the buffer has space for at least `room` of them.
    pub(crate) fn restore(&mut self, buffer: &mut Vec<u8>, room: usize) -> usize {
        let kept = self.incomplete.len();
        if buffer.len() < kept + room {
            buffer.resize(kept + room, 0);
        }
        buffer[..kept].copy_from_slice(&self.incomplete);
        kept
    }

    /// Processes received bytes.
    pub(crate) fn handle(&mut self, received: &mut [u8]) {
        if self.failed {
            return;
        }
        if self.progress == Progress::Nothing && !received.is_empty() {
            self.progress = Progress::Begun;
        }
        if catch_unwind(AssertUnwindSafe(|| self.handle_records(received))).is_err() {
            self.give_up();
        }
    }

    /// Ends this connection after a panic in rustls or in this crate: the connection's state is not used again. The panicking
    /// code may also have changed state that the sessions of a listener share, which are the latest hello and the keys of
    /// tickets. Both remain usable after a panic at any point.
    fn give_up(&mut self) {
        log::error!("a TLS session failed, and its connection is closed; please report this with the message of the panic");
        self.failed = true;
        self.conclude_failed(Failure::Other);
        let _ = self.witness.take();
        self.over = Some(Over::Broken);
        self.said_goodbye = true;
        self.incomplete = Vec::new();
        self.waiting = Vec::new();
    }

    fn handle_records(&mut self, mut received: &mut [u8]) {
        while self.over.is_none() {
            let UnbufferedStatus { discard, state } = self.connection.process_tls_records(received);
            let goes_on = match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        match record {
                            Ok(record) => self.decrypted.extend_from_slice(record.payload),
                            Err(_) => self.over = Some(Over::Broken),
                        }
                    }
                    true
                }
                Ok(ConnectionState::EncodeTlsData(mut message)) => {
                    if encode(|room| message.encode(room).map_err(|error| size_of_message(&error)), &mut self.waiting).is_none()
                    {
                        self.over = Some(Over::Broken);
                    }
                    true
                }
                Ok(ConnectionState::TransmitTlsData(message)) => {
                    message.done();
                    true
                }
                Ok(ConnectionState::PeerClosed) => {
                    self.over = Some(Over::Ended);
                    false
                }
                Ok(ConnectionState::Closed | ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_)) => false,
                // Early data is switched off.
                Ok(_) => {
                    self.over = Some(Over::Broken);
                    false
                }
                Err(error) => {
                    let old = old_version(received);
                    self.fail(&error, old, &mut received[discard..]);
                    return;
                }
            };
            received = &mut received[discard..];
            if !goes_on {
                break;
            }
        }
        self.keep(received);
        if self.facts.is_none() {
            // Takes the hello before the handshake of another client continues.
            self.told = self.witness.take().or(self.told.take());
            if !self.connection.is_handshaking() && self.connection.alpn_protocol() == Some(ACME) {
                self.end_proof();
            } else if !self.connection.is_handshaking() {
                if self.shows_what_has_expired() {
                    // The certificate was not checked again since the session began.
                    log::info!("refused a TLS client because of its certificate: it has expired since its session was begun");
                    self.over = Some(Over::Broken);
                    self.said_goodbye = true;
                    self.conclude_failed(Failure::ClientCertificate);
                }
                let tls13 = self.connection.protocol_version() == Some(ProtocolVersion::TLSv1_3);
                let version = if tls13 { Version::Tls13 } else { Version::Tls12 };
                let resumed = self.connection.handshake_kind() == Some(HandshakeKind::Resumed);
                self.conclude(Some(Outcome::Done { version, resumed }));
                let told = self.told.take();
                if let Some(HelloChoices { name: Some(name), place: Some(place), .. }) = &told {
                    self.aim = self.witness.certificates.aim(name, *place).map(Box::new);
                }
                self.facts = Some(Arc::new(facts(&self.connection, told, self.witness.asks_clients())));
            }
        }
    }

    /// Ends the session with an authority, which has seen the proof in the handshake. The protocol of authorities has no
    /// application data (RFC 8737, section 4), so bytes that arrived with the end of the handshake are dropped.
    fn end_proof(&mut self) {
        log::debug!("an authority has asked for proof that a domain belongs to this server, and got it");
        self.conclude(None);
        self.decrypted = Vec::new();
        if self.over.is_none() {
            let mut waiting = std::mem::take(&mut self.waiting);
            #[allow(clippy::redundant_closure_for_method_calls, reason = "the method is that of one lifetime")]
            self.write(&mut waiting, |traffic, room| traffic.queue_close_notify(room));
            self.waiting = waiting;
            self.over = Some(Over::Ended);
        }
        self.incomplete = Vec::new();
        self.said_goodbye = true;
    }

    /// Whether the resumed session has a client's certificate that has expired.
    fn shows_what_has_expired(&self) -> bool {
        self.connection.handshake_kind() == Some(HandshakeKind::Resumed)
            && self
                .connection
                .peer_certificates()
                .and_then(<[_]>::first)
                .is_some_and(|shown| has_expired(shown, UnixTime::now()))
    }

    fn keep(&mut self, rest: &[u8]) {
        self.incomplete.clear();
        if self.over.is_some() || rest.is_empty() {
            self.incomplete = Vec::new();
        } else if rest.len() > INCOMPLETE_BYTES {
            self.over = Some(Over::Broken);
        } else {
            self.incomplete.extend_from_slice(rest);
        }
        match self.over.filter(|_| self.connection.is_handshaking()) {
            Some(Over::Ended) => self.conclude_failed(Failure::Gone),
            Some(Over::Broken) => self.conclude_failed(Failure::Other),
            None => {}
        }
        if self.over == Some(Over::Broken) {
            // rustls must not be called again: it remembers how far it has read bytes that are gone.
            self.said_goodbye = true;
        }
    }

    /// Ends the session after an error of the client, and leaves the alert for it in `waiting`. `old` is the result of
    /// [`old_version`].
    fn fail(&mut self, error: &Error, old: Option<u8>, received: &mut [u8]) {
        match error {
            Error::NoCertificatesPresented => log::info!("refused a TLS client: it has sent no certificate"),
            Error::InvalidCertificate(why) => log::info!("refused a TLS client because of its certificate: {}", words(why)),
            _ => log::debug!("a TLS connection is over: {error}"),
        }
        self.over = Some(Over::Broken);
        self.incomplete = Vec::new();
        // Otherwise the hello would be used for the next client.
        let is_refused = self.witness.take().is_some_and(|told| told.is_refused);
        let plain = self.facts.is_none() && received.first().is_some_and(u8::is_ascii_uppercase) && self.waiting.is_empty();
        self.conclude_failed(if plain { Failure::NotTls } else { Failure::of(error) });
        // Encodes the alert.
        while self.connection.wants_write()
            && let Ok(ConnectionState::EncodeTlsData(mut message)) = self.connection.process_tls_records(received).state
        {
            if encode(|room| message.encode(room).map_err(|error| size_of_message(&error)), &mut self.waiting).is_none() {
                break;
            }
        }
        if plain {
            self.waiting.clear();
            self.waiting.extend_from_slice(SPOKE_PLAINLY);
        } else if is_refused {
            self.waiting.clear();
            self.waiting.extend_from_slice(NO_PROOF);
        } else if let Some(minor) = old.filter(|_| self.facts.is_none()) {
            self.waiting.clear();
            self.waiting.extend_from_slice(&[21, 3, minor, 0, 2, 2, 70]);
        }
        self.said_goodbye = true;
    }

    /// Ends the session after an end of the connection without close_notify, which an attacker may have caused: bytes may be
    /// missing.
    pub(crate) fn ends_unannounced(&mut self) {
        self.over.get_or_insert(Over::Broken);
        self.conclude_failed(Failure::Gone);
    }

    /// Whether decrypted bytes wait.
    pub(crate) fn has_decrypted(&self) -> bool {
        self.taken < self.decrypted.len()
    }

    /// Moves decrypted bytes into `room`, and returns their number.
    pub(crate) fn take(&mut self, room: &mut [u8]) -> usize {
        let count = room.len().min(self.decrypted.len() - self.taken);
        room[..count].copy_from_slice(&self.decrypted[self.taken..self.taken + count]);
        self.taken += count;
        if self.taken == self.decrypted.len() {
            (self.decrypted, self.taken) = (Vec::new(), 0);
        }
        count
    }

    /// Encrypts `bytes`, at most those of one record, and appends them to `out`. `false` if this connection encrypts nothing
    /// more.
    pub(crate) fn encrypt(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> bool {
        self.write(out, |traffic, room| traffic.encrypt(bytes, room))
    }

    /// Appends close_notify to `out`, once.
    pub(crate) fn say_goodbye(&mut self, out: &mut Vec<u8>) {
        if self.facts.is_some() && !std::mem::replace(&mut self.said_goodbye, true) {
            #[allow(clippy::redundant_closure_for_method_calls, reason = "the method is that of one lifetime")]
            self.write(out, |traffic, room| traffic.queue_close_notify(room));
        }
    }

    fn write(
        &mut self,
        out: &mut Vec<u8>,
        act: impl FnMut(&mut Traffic<'_>, &mut [u8]) -> Result<usize, EncryptError>,
    ) -> bool {
        if self.failed {
            return false;
        }
        let before = out.len();
        catch_unwind(AssertUnwindSafe(|| self.write_record(out, act))).unwrap_or_else(|_| {
            self.give_up();
            out.truncate(before);
            false
        })
    }

    fn write_record(
        &mut self,
        out: &mut Vec<u8>,
        mut act: impl FnMut(&mut Traffic<'_>, &mut [u8]) -> Result<usize, EncryptError>,
    ) -> bool {
        loop {
            // rustls gets the incomplete bytes again, because it remembers how far it has read them.
            match self.connection.process_tls_records(&mut self.incomplete).state {
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    return encode(|room| act(&mut traffic, room).map_err(|error| size_of_record(&error)), out).is_some();
                }
                // The response to a change of keys, which goes first.
                Ok(ConnectionState::EncodeTlsData(mut message)) => {
                    if encode(|room| message.encode(room).map_err(|error| size_of_message(&error)), out).is_none() {
                        return false;
                    }
                }
                Ok(ConnectionState::TransmitTlsData(message)) => message.done(),
                // The client has announced its end; it may still get a response.
                Ok(ConnectionState::PeerClosed) => {}
                Ok(_) | Err(_) => return false,
            }
        }
    }
}

type Traffic<'a> = rustls::unbuffered::WriteTraffic<'a, rustls::server::ServerConnectionData>;

/// The room for a message whose size is not known yet, in bytes: most are smaller.
const FIRST_GUESS: usize = 512;

/// Appends the output of `write` to `out`, with as much room as `write` asks for. `None` if it has failed.
fn encode(mut write: impl FnMut(&mut [u8]) -> Result<usize, Option<usize>>, out: &mut Vec<u8>) -> Option<()> {
    let start = out.len();
    let mut room = FIRST_GUESS;
    loop {
        out.resize(start + room, 0);
        match write(&mut out[start..]) {
            Ok(count) => {
                out.truncate(start + count);
                return Some(());
            }
            Err(Some(needed)) if needed > room => room = needed,
            Err(_) => {
                out.truncate(start);
                return None;
            }
        }
    }
}

/// The highest minor version that a client offers, if `received` begins with its hello and that version is older than TLS 1.2.
/// Such a client gets the alert protocol_version (RFC 8446, section 6.2); rustls would send handshake_failure, because the
/// hello lacks an extension of later versions.
fn old_version(received: &[u8]) -> Option<u8> {
    match received {
        [22, 3, _, _, _, 1, _, _, _, 3, minor @ 0..=2, ..] => Some(*minor),
        _ => None,
    }
}

fn size_of_message(error: &EncodeError) -> Option<usize> {
    match error {
        EncodeError::InsufficientSize(size) => Some(size.required_size),
        EncodeError::AlreadyEncoded => None,
    }
}

fn size_of_record(error: &EncryptError) -> Option<usize> {
    match error {
        EncryptError::InsufficientSize(size) => Some(size.required_size),
        EncryptError::EncryptExhausted => None,
    }
}

#[cfg(test)]
mod tests;
