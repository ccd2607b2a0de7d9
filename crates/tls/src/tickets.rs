//! Session tickets, with which clients resume a session without another signature.
//!
//! All processes of a server, also those that start later, derive their keys from one secret, which the first process has made.
//! So a client may come back to any process, and processes need not communicate. Each period has its own key. The secret of a
//! period is derived from the secret of the period before, which is forgotten: an attacker that reads the memory of a process
//! cannot open sessions whose tickets are older than two periods.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::digest::SHA256;
use ring::hkdf::{HKDF_SHA256, Prk};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::server::ProducesTickets;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The period in which a key makes tickets; in the next one it only opens them.
const PERIOD: Duration = Duration::from_secs(12 * 3600);

/// Bytes of the number of the period at the front of a ticket.
const NUMBER: usize = 8;

/// The most periods for which keys are derived one after the other: a wrong clock must not take all the time.
const MOST_STEPS: u64 = 10_000;

/// The secret from which all processes of a server derive the keys of their tickets.
#[derive(Clone)]
pub struct Secret(Arc<Mutex<Chain>>);

struct Chain {
    /// The number of the period, counted from the Unix epoch.
    period: u64,
    seed: [u8; 32],
    now: LessSafeKey,
    before: Option<LessSafeKey>,
}

impl Secret {
    /// Bytes of a serialized secret: see [`Secret::to_bytes`].
    pub const SIZE: usize = NUMBER + 32;

    /// Makes a new secret.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new() -> Result<Self, String> {
        let mut seed = [0; 32];
        SystemRandom::new().fill(&mut seed).map_err(|_| "the system gives no random numbers".to_owned())?;
        Self::of(present(), seed)
    }

    fn of(period: u64, seed: [u8; 32]) -> Result<Self, String> {
        let now = key(&seed).ok_or("a key for session tickets cannot be made")?;
        Ok(Self(Arc::new(Mutex::new(Chain { period, seed, now, before: None }))))
    }

    /// Restores the secret of another process; `None` if the bytes are not a secret.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (period, seed) = bytes.split_first_chunk::<NUMBER>()?;
        Self::of(u64::from_be_bytes(*period), seed.try_into().ok()?).ok()
    }

    /// Serializes the secret for another process of the same server. Periods that are over are forgotten first.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        let chain = self.at(present());
        let mut bytes = [0; Self::SIZE];
        bytes[..NUMBER].copy_from_slice(&chain.period.to_be_bytes());
        bytes[NUMBER..].copy_from_slice(&chain.seed);
        bytes
    }

    /// Advances the chain to this period and returns it.
    fn at(&self, period: u64) -> std::sync::MutexGuard<'_, Chain> {
        let mut chain = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let steps = period.saturating_sub(chain.period).min(MOST_STEPS);
        for _ in 0..steps {
            let Some((seed, fresh)) = derive(&chain.seed, b"next period").and_then(|seed| Some((seed, key(&seed)?))) else {
                break;
            };
            chain.seed = seed;
            chain.before = Some(std::mem::replace(&mut chain.now, fresh));
        }
        chain.period = chain.period.max(period);
        chain
    }

    fn seal(&self, period: u64, context: &[u8; 32], plain: &[u8]) -> Option<Vec<u8>> {
        let chain = self.at(period);
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).ok()?;
        let number = chain.period.to_be_bytes();
        let mut ticket = Vec::with_capacity(NUMBER + NONCE_LEN + plain.len() + AES_256_GCM.tag_len());
        ticket.extend_from_slice(&number);
        ticket.extend_from_slice(&nonce);
        ticket.extend_from_slice(plain);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let bound = Aad::from([&number[..], context].concat());
        let tag = chain.now.seal_in_place_separate_tag(nonce, bound, &mut ticket[NUMBER + NONCE_LEN..]).ok()?;
        ticket.extend_from_slice(tag.as_ref());
        Some(ticket)
    }

    fn open(&self, period: u64, context: &[u8; 32], ticket: &[u8]) -> Option<Vec<u8>> {
        let chain = self.at(period);
        let (number, rest) = ticket.split_first_chunk::<NUMBER>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let age = chain.period.checked_sub(u64::from_be_bytes(*number))?;
        let key = match age {
            0 => &chain.now,
            1 => chain.before.as_ref()?,
            _ => return None,
        };
        let mut plain = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let size = key.open_in_place(nonce, Aad::from([&number[..], context].concat()), &mut plain).ok()?.len();
        plain.truncate(size);
        Some(plain)
    }
}

/// The number of the current period; zero if the clock is before 1970.
fn present() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs() / PERIOD.as_secs())
}

fn key(seed: &[u8; 32]) -> Option<LessSafeKey> {
    UnboundKey::new(&AES_256_GCM, &derive(seed, b"ticket key")?).ok().map(LessSafeKey::new)
}

fn derive(seed: &[u8; 32], purpose: &[u8]) -> Option<[u8; 32]> {
    let mut derived = [0; 32];
    let purpose = [b"oribi session tickets: ", purpose];
    Prk::new_less_safe(HKDF_SHA256, seed).expand(&purpose, HKDF_SHA256).ok()?.fill(&mut derived).ok()?;
    Some(derived)
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Secret")
    }
}

/// The tickets of a listener. The listener does not open tickets from a listener with other rules for certificates of clients,
/// because a resumed session is not verified again.
#[derive(Debug)]
pub(crate) struct Tickets {
    secret: Secret,
    /// A digest of the rules.
    context: [u8; 32],
}

impl Tickets {
    /// Makes the tickets of a listener with the rules `context`.
    pub(crate) fn new(secret: Secret, context: &[u8]) -> Self {
        let mut digest = [0; 32];
        digest.copy_from_slice(ring::digest::digest(&SHA256, context).as_ref());
        Self { secret, context: digest }
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        PERIOD.as_secs() as u32
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.secret.seal(present(), &self.context, plain)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.secret.open(present(), &self.context, ticket)
    }
}

#[cfg(test)]
mod tests {
    use super::Secret;

    const RULES: &[u8; 32] = &[3; 32];

    #[test]
    fn every_process_opens_the_tickets_of_every_other_for_two_periods() {
        let first = Secret::of(1000, [7; 32]).expect("a key");
        let bytes = [&1000_u64.to_be_bytes()[..], &[7; 32]].concat();
        let other = Secret::from_bytes(&bytes).expect("it was passed on");
        let ticket = first.seal(1000, RULES, b"session").expect("random numbers");
        assert_eq!(other.open(1000, RULES, &ticket).as_deref(), Some(&b"session"[..]));
        assert_eq!(other.open(1001, RULES, &ticket).as_deref(), Some(&b"session"[..]), "the key before opens");
        assert_eq!(other.open(1002, RULES, &ticket), None);
        // A process that starts later gets a later secret, and cannot open older tickets.
        let later = first.seal(1005, RULES, b"later").expect("random numbers");
        assert_eq!(
            other.open(1005, RULES, &later).as_deref(),
            Some(&b"later"[..]),
            "five steps are the same as one after the other"
        );
        assert_eq!(first.open(1005, RULES, &ticket), None);
        // A clock that goes back opens no forgotten tickets, and the later key stays in use.
        assert_eq!(other.open(1000, RULES, &ticket), None);
        let again = other.seal(1000, RULES, b"again").expect("random numbers");
        assert_eq!(first.open(1005, RULES, &again).as_deref(), Some(&b"again"[..]));
    }

    #[test]
    fn what_is_no_ticket_is_refused() {
        let secret = Secret::of(7, [1; 32]).expect("a key");
        let ticket = secret.seal(7, RULES, b"session").expect("random numbers");
        for bit in 0..ticket.len() * 8 {
            let mut forged = ticket.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(secret.open(7, RULES, &forged), None, "bit {bit}");
        }
        for less in 0..ticket.len() {
            assert_eq!(secret.open(7, RULES, &ticket[..less]), None, "{less} bytes");
        }
        assert_eq!(secret.open(7, &[4; 32], &ticket), None, "of a listener with other rules");
        assert_eq!(Secret::of(7, [2; 32]).expect("a key").open(7, RULES, &ticket), None);
        assert_ne!(ticket, secret.seal(7, RULES, b"session").expect("random numbers"));
    }

    #[test]
    fn a_secret_is_not_shown() {
        assert_eq!(format!("{:?}", Secret::of(7, [1; 32]).expect("a key")), "Secret");
        assert!(Secret::from_bytes(&[0; 39]).is_none() && Secret::from_bytes(&[0; 41]).is_none());
        let secret = Secret::new().expect("random numbers");
        assert!(Secret::from_bytes(&secret.to_bytes()).is_some());
    }
}
