//! A file of users and the hashes of their passwords, as `htpasswd` writes it.

use super::hash::Hash;
use std::collections::HashMap;

/// The most bytes of a user.
const MOST_BYTES: usize = 255;

/// A line that is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The number of the line, from 1 on.
    pub line: usize,
    /// The reason, with advice. It contains no part of a hash.
    pub message: String,
}

/// Users, and the hashes of their passwords.
#[derive(Debug, Default)]
pub struct Users {
    hashes: HashMap<Box<[u8]>, Hash>,
    /// The user whose hash is compared with the passwords of unknown users; empty if there are no users.
    decoy: Box<[u8]>,
}

impl Users {
    /// Reads the content of a file. Each line has a user, a colon and a hash; what follows another colon is ignored, and so are
    /// empty lines and those that begin with `#`. `weak`: whether hashes that can be guessed quickly are accepted.
    ///
    /// # Errors
    /// All mistakes.
    pub fn read(content: &[u8], weak: bool) -> Result<Self, Vec<Mistake>> {
        let (mut users, mut mistakes) = (Self::default(), Vec::new());
        for (number, line) in content.split(|byte| *byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let added = str::from_utf8(line).map_err(|_| "the line is not text in UTF-8".to_owned());
            if let Err(message) = added.and_then(|line| users.add(line, weak)) {
                mistakes.push(Mistake { line: number + 1, message });
            }
        }
        if mistakes.is_empty() { Ok(users) } else { Err(mistakes) }
    }

    fn add(&mut self, line: &str, weak: bool) -> Result<(), String> {
        let (user, rest) = line.split_once(':').ok_or("a line has a user, a colon and a hash, as `htpasswd` writes it")?;
        if user.is_empty() || user.len() > MOST_BYTES || user.trim() != user || user.contains(char::is_control) {
            return Err(format!("a user is a text of 1 to {MOST_BYTES} bytes, without control characters and outer spaces"));
        }
        let hash = rest.split(':').next().unwrap_or_default();
        if hash.is_empty() {
            return Err("there is no hash after the user".to_owned());
        }
        let hash = Hash::read(hash, weak)?;
        if self.hashes.insert(user.as_bytes().into(), hash).is_some() {
            return Err("the user is already in a line above".to_owned());
        }
        if self.decoy.is_empty() {
            self.decoy = user.as_bytes().into();
        }
        Ok(())
    }

    /// Whether the user is known and has this password. For an unknown user it takes as long as for the first one of the file.
    #[must_use]
    pub fn check(&self, user: &[u8], password: &[u8]) -> bool {
        let known = self.hashes.get(user);
        let compared = known.or_else(|| self.hashes.get(&self.decoy));
        let is_same = compared.is_some_and(|hash| hash.is_of(password));
        is_same && known.is_some()
    }

    /// The number of users.
    #[must_use]
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Whether there are no users.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }
}

#[cfg(test)]
mod tests;
