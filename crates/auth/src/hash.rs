//! The hashes of passwords: which forms are known, what they cost, and whether a password is the one that was hashed.

use super::md5_crypt;
use argon2::{Algorithm, Argon2, Block, Params, Version};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use sha_crypt::{PasswordHash, PasswordVerifier, ShaCrypt};
use std::fmt;
use zeroize::Zeroize;

/// The most memory of a check, in KiB: an edge has one check at a time.
const MOST_KIB: u32 = 256 << 10;

/// The most work of a check by Argon2: KiB of memory, times passes.
const MOST_PASSES: u64 = 4 << 20;

/// The highest cost of bcrypt: four seconds for each check.
const MOST_COST: u32 = 16;

/// The most rounds of the SHA-2 of crypt(3).
const MOST_ROUNDS: u32 = 1_000_000;

/// The advice for a hash that is not accepted.
const REMEDY: &str = "make a new one with `htpasswd -B`";

/// The hash of a password, in a known form. `Debug` shows no more than the form.
pub(crate) enum Hash {
    Bcrypt(Box<str>),
    Argon2 { algorithm: Algorithm, version: Version, params: Params, salt: Box<[u8]>, expected: Box<[u8]> },
    ShaCrypt(PasswordHash),
    Md5Crypt { magic: &'static str, salt: Box<str>, expected: Box<str> },
    Sha1 { salt: Box<[u8]>, expected: [u8; 20] },
}

impl Hash {
    /// Reads a hash. `weak`: whether hashes that can be guessed quickly are accepted.
    ///
    /// # Errors
    /// The reason, with advice. It contains no part of the hash.
    pub(crate) fn read(text: &str, weak: bool) -> Result<Self, String> {
        let unreadable = |form: &str| format!("the hash is not a complete one of {form}: {REMEDY}");
        let read = if ["$2y$", "$2b$", "$2a$"].iter().any(|prefix| text.starts_with(prefix)) {
            return bcrypt(text).unwrap_or_else(|| Err(unreadable("bcrypt")));
        } else if text.starts_with("$argon2") {
            return argon2(text).unwrap_or_else(|| Err(unreadable("Argon2")));
        } else if text.starts_with("$5$") || text.starts_with("$6$") {
            return sha_crypt(text).unwrap_or_else(|| Err(unreadable("SHA-2 by crypt")));
        } else if let Some((magic, rest)) = magic(text) {
            let parts = rest.split_once('$').filter(|(salt, hash)| salt.len() <= 8 && hash.len() == 22);
            let hash = |(salt, expected): (&str, &str)| Self::Md5Crypt { magic, salt: salt.into(), expected: expected.into() };
            (if magic == "$1$" { "MD5 by crypt" } else { "apr1 (MD5)" }, parts.map(hash))
        } else if let Some(hash) = text.strip_prefix("{SHA}") {
            (
                "{SHA} (SHA-1 without a salt)",
                sha1(hash).filter(|hash| matches!(hash, Self::Sha1 { salt, .. } if salt.is_empty())),
            )
        } else if let Some(hash) = text.strip_prefix("{SSHA}") {
            ("{SSHA} (SHA-1)", sha1(hash))
        } else {
            let known = "known are bcrypt ($2y$), Argon2 ($argon2id$) and SHA-2 by crypt ($5$, $6$)";
            return Err(format!("the hash has no known form; {known}: {REMEDY}"));
        };
        let (form, hash) = read;
        match hash {
            None => Err(unreadable(form)),
            Some(_) if !weak => {
                Err(format!("a hash by {form} can be guessed quickly: {REMEDY}, or accept such hashes with weak = true"))
            }
            Some(hash) => Ok(hash),
        }
    }

    /// Whether this is the hash of `password`.
    pub(crate) fn is_of(&self, password: &[u8]) -> bool {
        match self {
            // A password has no NUL, and its first 72 bytes count, as for all programs that make these hashes.
            Self::Bcrypt(hash) => bcrypt::verify(password, hash).unwrap_or(false),
            Self::Argon2 { algorithm, version, params, salt, expected } => {
                let mut memory = vec![Block::new(); params.block_count()];
                let mut found = vec![0; expected.len()];
                let argon2 = Argon2::new(*algorithm, *version, params.clone());
                let done = argon2.hash_password_into_with_memory(password, salt, &mut found, &mut memory);
                let is_same = done.is_ok() && equal(&found, expected);
                found.zeroize();
                is_same
            }
            Self::ShaCrypt(hash) => ShaCrypt::default().verify_password(password, hash.as_password_hash_ref()).is_ok(),
            Self::Md5Crypt { magic, salt, expected } => {
                equal(md5_crypt::hash(magic, salt.as_bytes(), password).as_bytes(), expected.as_bytes())
            }
            Self::Sha1 { salt, expected } => {
                let mut salted = password.to_vec();
                salted.reserve_exact(salt.len());
                salted.extend_from_slice(salt);
                let is_same = equal(digest(&SHA1_FOR_LEGACY_USE_ONLY, &salted).as_ref(), expected);
                salted.zeroize();
                is_same
            }
        }
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Bcrypt(_) => "bcrypt",
            Self::Argon2 { .. } => "Argon2",
            Self::ShaCrypt(_) => "SHA-2",
            Self::Md5Crypt { .. } => "MD5",
            Self::Sha1 { .. } => "SHA-1",
        })
    }
}

/// Compares in a time that depends on the lengths only.
fn equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |all, (one, other)| all | (one ^ other)) == 0
}

fn magic(text: &str) -> Option<(&'static str, &str)> {
    ["$apr1$", "$1$"].into_iter().find_map(|magic| Some((magic, text.strip_prefix(magic)?)))
}

fn bcrypt(text: &str) -> Option<Result<Hash, String>> {
    let cost: u32 = text.get(4..6)?.parse().ok()?;
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"./".contains(&byte);
    if text.len() != 60 || text.as_bytes()[6] != b'$' || !text[7..].bytes().all(is_letter) || cost < 4 {
        return None;
    }
    Some(if cost > MOST_COST {
        Err(format!("a check of this hash would take too long: its cost is {cost}, and at most {MOST_COST} is accepted"))
    } else {
        Ok(Hash::Bcrypt(text.into()))
    })
}

fn argon2(text: &str) -> Option<Result<Hash, String>> {
    let mut parts = text.strip_prefix('$')?.split('$').peekable();
    let algorithm = match parts.next()? {
        "argon2id" => Algorithm::Argon2id,
        "argon2i" => Algorithm::Argon2i,
        "argon2d" => Algorithm::Argon2d,
        _ => return None,
    };
    let version = match parts.next_if(|part| part.starts_with("v=")) {
        Some("v=19") => Version::V0x13,
        Some("v=16") | None => Version::V0x10,
        Some(_) => return None,
    };
    let (mut memory, mut passes, mut lanes) = (None, None, None);
    for parameter in parts.next()?.split(',') {
        let (name, number) = parameter.split_once('=')?;
        let number: u32 = number.parse().ok()?;
        let slot = match name {
            "m" => &mut memory,
            "t" => &mut passes,
            "p" => &mut lanes,
            _ => return None,
        };
        if slot.replace(number).is_some() {
            return None;
        }
    }
    let (memory, passes, lanes) = (memory?, passes?, lanes?);
    let salt = STANDARD_NO_PAD.decode(parts.next()?).ok()?;
    let expected = STANDARD_NO_PAD.decode(parts.next()?).ok()?;
    if parts.next().is_some() || salt.len() > 64 || !(16..=64).contains(&expected.len()) {
        return None;
    }
    if memory > MOST_KIB {
        let (wanted, most) = (memory >> 10, MOST_KIB >> 10);
        return Some(Err(format!(
            "a check of this hash would take {wanted} MiB of memory, and at most {most} MiB are accepted"
        )));
    }
    if u64::from(memory) * u64::from(passes) > MOST_PASSES {
        return Some(Err(format!("a check of this hash would take too long: it has {passes} passes over {memory} KiB")));
    }
    let params = Params::new(memory, passes, lanes, Some(expected.len())).ok()?;
    Some(Ok(Hash::Argon2 { algorithm, version, params, salt: salt.into(), expected: expected.into() }))
}

fn sha_crypt(text: &str) -> Option<Result<Hash, String>> {
    let mut parts = text[3..].split('$').peekable();
    let rounds = match parts.next_if(|part| part.starts_with("rounds=")) {
        Some(rounds) => rounds["rounds=".len()..].parse::<u32>().ok()?,
        None => 5000,
    };
    let (salt, hash) = (parts.next()?, parts.next()?);
    let size = if text.starts_with("$5$") { 43 } else { 86 };
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"./".contains(&byte);
    if parts.next().is_some() || salt.len() > 16 || hash.len() != size || !salt.bytes().chain(hash.bytes()).all(is_letter) {
        return None;
    }
    if rounds > MOST_ROUNDS {
        return Some(Err(format!(
            "a check of this hash would take too long: it has {rounds} rounds, and at most {MOST_ROUNDS} are accepted"
        )));
    }
    (rounds >= 1000).then_some(())?;
    PasswordHash::new(text).ok().map(|hash| Ok(Hash::ShaCrypt(hash)))
}

fn sha1(text: &str) -> Option<Hash> {
    let bytes = STANDARD.decode(text).ok()?;
    let (expected, salt) = bytes.split_first_chunk::<20>()?;
    Some(Hash::Sha1 { salt: salt.into(), expected: *expected })
}
