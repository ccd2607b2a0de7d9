//! Credentials that have been checked lately, so that a client that sends them with each request waits only once.

use super::Credentials;
use ring::hmac::{Context, HMAC_SHA256, Key};
use ring::rand::SystemRandom;
use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

/// The time for which credentials are remembered.
const LIFE: Duration = Duration::from_secs(300);

/// The most credentials that are remembered.
const MOST: usize = 8192;

/// Stands for credentials at one file of users. Nobody without the key of [`Remembered`] can tell to which credentials it
/// belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

/// Credentials that have been checked, as digests. The key is made by this process and never leaves it.
pub struct Remembered {
    key: Key,
    /// The time at which each one is forgotten.
    until: HashMap<Digest, Duration>,
}

impl Remembered {
    /// Makes the key.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new() -> Result<Self, ring::error::Unspecified> {
        Ok(Self { key: Key::generate(HMAC_SHA256, &SystemRandom::new())?, until: HashMap::new() })
    }

    /// Returns the digest of credentials at the file of users with this number.
    #[must_use]
    pub fn digest(&self, file: usize, credentials: &Credentials) -> Digest {
        // The size of the user keeps "a" with "b:c" and "a:b" with "c" apart, although no user has a colon.
        let mut context = Context::with_key(&self.key);
        context.update(&(file as u64).to_ne_bytes());
        context.update(&(credentials.user().len() as u64).to_ne_bytes());
        context.update(credentials.user());
        context.update(credentials.password());
        let mut digest = [0; 32];
        digest.copy_from_slice(context.sign().as_ref());
        Digest(digest)
    }

    /// Whether these credentials have been found right lately.
    #[must_use]
    pub fn knows(&self, digest: &Digest, now: Duration) -> bool {
        self.until.get(digest).is_some_and(|until| now < *until)
    }

    /// Remembers credentials that have been found right.
    pub fn remember(&mut self, digest: Digest, now: Duration) {
        if self.until.len() >= MOST {
            self.until.retain(|_, until| now < *until);
        }
        if self.until.len() >= MOST {
            // The one that would be forgotten first.
            let first = self.until.iter().min_by_key(|(_, until)| **until).map(|(digest, _)| *digest);
            first.and_then(|digest| self.until.remove(&digest));
        }
        self.until.insert(digest, now + LIFE);
    }

    /// Forgets all, and makes another key, so that no check that is under way can be remembered for the users of now.
    pub fn forget(&mut self) {
        self.until.clear();
        if let Ok(key) = Key::generate(HMAC_SHA256, &SystemRandom::new()) {
            self.key = key;
        }
    }
}

impl fmt::Debug for Remembered {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Remembered").field("count", &self.until.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(value: &[u8]) -> Credentials {
        Credentials::read(value).expect("valid")
    }

    #[test]
    fn credentials_are_remembered_for_a_while() {
        let mut remembered = Remembered::new().expect("random numbers");
        let (one, other) = (credentials(b"Basic YTpi"), credentials(b"Basic YTpj"));
        let digest = remembered.digest(0, &one);
        assert_ne!(digest, remembered.digest(0, &other));
        assert_ne!(digest, remembered.digest(1, &one), "of another file");
        assert_eq!(digest, remembered.digest(0, &one));
        let now = Duration::from_secs(1);
        assert!(!remembered.knows(&digest, now));
        remembered.remember(digest, now);
        assert!(remembered.knows(&digest, now) && !remembered.knows(&digest, now + LIFE));
        remembered.forget();
        assert!(!remembered.knows(&digest, now));
        assert_ne!(digest, remembered.digest(0, &one), "another key");
    }

    #[test]
    fn memory_is_bounded() {
        let mut remembered = Remembered::new().expect("random numbers");
        let of = |number: u32| {
            let mut digest = [0; 32];
            digest[..4].copy_from_slice(&number.to_ne_bytes());
            Digest(digest)
        };
        for number in 0..MOST as u32 + 10 {
            remembered.remember(of(number), Duration::from_millis(number.into()));
        }
        assert_eq!(remembered.until.len(), MOST);
        let now = Duration::from_secs(10);
        assert!(!remembered.knows(&of(9), now) && remembered.knows(&of(10), now), "the oldest ones went");
    }
}
