//! The link of a server to its Redis: opens a connection, again if it is lost, and moves bytes between it and the conversation.

use crate::message::Origin;
use crate::session::{Counts, Identity, Session};
use crate::settings::{Address, Redis, Settings};
use crate::transport::{Connector, Transport};
use oribi_live::Command;
use rustix::event::PollFlags;
use rustix::rand::{GetRandomFlags, getrandom};
use rustls::crypto::ring::default_provider;
use rustls::{ClientConfig, RootCertStore};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// The pause before the second attempt. Each further pause is twice as long, up to the longest one.
const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(10);

/// The pieces that are read before the caller does other work.
const IN_A_ROW: usize = 64;

/// The parts of a link that are made before privileges are dropped, because they are read from files.
pub struct Prepared {
    redis: Redis,
    identity: Identity,
    tls: Option<Arc<ClientConfig>>,
}

impl Prepared {
    /// Reads the file of the password, and that of authorities. `None` if no Redis is set.
    ///
    /// # Errors
    /// A file cannot be used; the message says which, and why.
    pub fn new(settings: &Settings) -> Result<Option<Self>, String> {
        let Some(redis) = &settings.redis else { return Ok(None) };
        let tls = if redis.is_encrypted() { Some(Arc::new(tls(settings)?)) } else { None };
        let identity = Identity { credentials: redis.credentials()?, prefix: settings.prefix.clone(), origin: origin() };
        Ok(Some(Self { redis: redis.clone(), identity, tls }))
    }
}

fn tls(settings: &Settings) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    for certificate in oribi_tls::trusted_authorities(settings.authorities.as_deref(), "--relay-ca")? {
        // The file may have certificates for other purposes.
        let _ = roots.add(certificate);
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("cannot use TLS for Redis: {error}"))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// The link.
pub struct Link {
    redis: Redis,
    tls: Option<Arc<ClientConfig>>,
    session: Session,
    state: State,
    /// The number of attempts since the last connection that has lasted.
    attempts: u32,
    /// The time since which messages are shared over the connection.
    ready_since: Instant,
    /// The reason for which there is no connection, as it was last logged.
    reason: Option<String>,
    /// Whether messages are lost, which was logged.
    is_losing: bool,
    changes: Changes,
    buffer: Vec<u8>,
}

enum State {
    /// The next attempt is at this time.
    Pause(Instant),
    Connecting(Connector),
    Open(Transport),
}

/// The connections since the last time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Connections that have become of use.
    pub connected: u64,
    /// Such connections that have ended.
    pub disconnected: u64,
}

impl Link {
    /// Makes a link, which is not connected.
    #[must_use]
    pub fn new(prepared: &Prepared, now: Instant) -> Self {
        let Prepared { redis, identity, tls } = prepared;
        Self {
            redis: redis.clone(),
            tls: tls.clone(),
            session: Session::new(identity.clone(), now),
            state: State::Pause(now),
            attempts: 0,
            ready_since: now,
            reason: None,
            is_losing: false,
            changes: Changes::default(),
            buffer: Vec::new(),
        }
    }

    /// Passes on the messages among these commands of the server.
    pub fn publish(&mut self, commands: &[u8], now: Instant) {
        if !self.session.publish(commands, now) {
            self.note_loss(if self.session.is_ready() { "Redis takes them too slowly" } else { "Redis is not reached" });
        }
    }

    /// Logs the first loss since messages last went through.
    fn note_loss(&mut self, why: &str) {
        if !std::mem::replace(&mut self.is_losing, true) {
            log::warn!("messages for other servers are lost: {why}");
        }
    }

    /// Does all that is possible now, and passes messages of others to `deliver`. Returns whether there may be more to do.
    pub fn advance(&mut self, now: Instant, deliver: &mut dyn FnMut(&Command<'_>)) -> bool {
        if self.session.expire(now) > 0 {
            self.note_loss("Redis is not reached");
        }
        let has_more = match self.try_to_advance(now, deliver) {
            Ok(has_more) => has_more,
            Err(why) => {
                self.disconnect(&why, now);
                false
            }
        };
        if self.is_losing && self.session.is_ready() && self.session.is_flushed() {
            self.is_losing = false;
        }
        has_more
    }

    fn try_to_advance(&mut self, now: Instant, deliver: &mut dyn FnMut(&Command<'_>)) -> Result<bool, String> {
        if matches!(self.state, State::Pause(until) if now >= until) {
            let connector = Connector::start(&self.redis.address).map_err(|error| explained(&error))?;
            self.state = State::Connecting(connector);
        }
        if matches!(&self.state, State::Connecting(connector) if connector.is_finished())
            && let State::Connecting(connector) = std::mem::replace(&mut self.state, State::Pause(now))
        {
            let host = match &self.redis.address {
                Address::Tcp { host, .. } => host,
                Address::Unix(_) => "",
            };
            let tls = self.tls.as_ref().map(|tls| (tls, host));
            self.state = State::Open(connector.finish(tls).map_err(|error| explained(&error))?);
            self.session.begin(now);
        }
        let State::Open(transport) = &mut self.state else { return Ok(false) };
        let was_ready = self.session.is_ready();
        let mut has_more = true;
        for _ in 0..IN_A_ROW {
            self.buffer.clear();
            let arrived = transport.receive(&mut self.buffer);
            // Bytes that have come before an end still count.
            self.session.receive(&self.buffer, now, deliver)?;
            has_more = arrived.map_err(|error| explained(&error))?;
            if !has_more {
                break;
            }
        }
        if transport.flush().map_err(|error| explained(&error))? {
            self.session.note_progress(now);
        }
        self.session.keep_alive(now)?;
        while !transport.is_waiting() {
            let output = self.session.take_output(now);
            if output.is_empty() {
                break;
            }
            transport.send(output).map_err(|error| explained(&error))?;
        }
        if !was_ready && self.session.is_ready() {
            self.note_connection(now);
        }
        Ok(has_more)
    }

    fn note_connection(&mut self, now: Instant) {
        self.changes.connected += 1;
        self.ready_since = now;
        let again = if self.reason.take().is_some() { " again" } else { "" };
        log::info!("messages are shared with other servers{again}, over {}", self.redis);
    }

    fn disconnect(&mut self, why: &str, now: Instant) {
        if self.session.is_ready() {
            self.changes.disconnected += 1;
            // One that ends again and again gets longer pauses.
            if now.saturating_duration_since(self.ready_since) >= LONGEST {
                self.attempts = 0;
            }
        }
        self.session.end(now);
        let pause = FIRST.saturating_mul(1 << self.attempts.min(10)).min(LONGEST).mul_f64(1.0 - 0.5 * chance());
        self.attempts = self.attempts.saturating_add(1);
        self.state = State::Pause(now + pause);
        match self.reason.replace(why.to_owned()) {
            None => log::error!("no connection to {}, so no messages are shared with other servers: {why}", self.redis),
            Some(before) if before == why => log::debug!("still no connection to {}: {why}", self.redis),
            Some(_) => log::error!("still no connection to {}: {why}", self.redis),
        }
    }

    /// Whether there is a connection over which messages are shared.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.session.is_ready()
    }

    /// Whether Redis has taken all messages.
    #[must_use]
    pub fn is_flushed(&self) -> bool {
        self.session.is_flushed()
    }

    /// The descriptor for which to wait, and its events.
    #[must_use]
    pub fn polled(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        match &self.state {
            State::Pause(_) => None,
            State::Connecting(connector) => Some((connector.descriptor(), PollFlags::IN)),
            State::Open(transport) => Some(transport.polled()),
        }
    }

    /// The time at which [`Link::advance`] is due, whatever comes. `None`: there is no such time.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        let pause = match &self.state {
            State::Pause(until) => Some(*until),
            State::Connecting(_) | State::Open(_) => None,
        };
        pause.into_iter().chain(self.session.due()).min()
    }

    /// Returns the numbers since the last call.
    pub fn take_counts(&mut self) -> (Changes, Counts) {
        (std::mem::take(&mut self.changes), std::mem::take(&mut self.session.counts))
    }
}

/// A number that no other server has, not even one that the same process has forked: random numbers of the standard library go on
/// from those of the parent.
fn origin() -> Origin {
    let mut origin = Origin::default();
    if getrandom(&mut origin, GetRandomFlags::NONBLOCK) == Ok(origin.len()) {
        return origin;
    }
    // The machine has just started and has no random numbers yet.
    for half in origin.as_chunks_mut::<8>().0 {
        *half = RandomState::new().hash_one((std::process::id(), SystemTime::now())).to_ne_bytes();
    }
    origin
}

/// A random number from 0 to 1.
fn chance() -> f64 {
    f64::from(RandomState::new().hash_one(0) as u32) / f64::from(u32::MAX)
}

/// Describes an error, and says what to do about it, if anything helps.
fn explained(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::WriteZero => "it has ended the connection".to_owned(),
        ErrorKind::TimedOut => "it does not answer".to_owned(),
        ErrorKind::InvalidData if error.to_string().contains("certificate") => {
            format!("{error}; if its authority is your own, give its CA certificate by --relay-ca")
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_has_a_number_and_its_relays_have_the_same() {
        let settings = Settings { redis: Some(Redis::parse("redis://localhost").expect("valid")), ..Settings::default() };
        let [one, two] = [(); 2].map(|()| Prepared::new(&settings).expect("no files").expect("a Redis"));
        let numbers = [&one, &one, &two].map(|prepared| Link::new(prepared, Instant::now()).session.origin());
        assert!(numbers[0] == numbers[1] && numbers[0] != numbers[2] && numbers[0] != Origin::default());
    }
}
