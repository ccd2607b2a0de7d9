//! Files of users, which are read again when they have changed.
//!
//! The process that forks edges reads the files, because perhaps only its user may, and because an edge in a sandbox opens
//! nothing by name. It gives edges the content of changed files in a file in memory.

use oribi_auth::Users;
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

/// The most bytes of a file.
const MOST_BYTES: u64 = 8 << 20;

/// The most mistakes in a message.
const MOST_MISTAKES: usize = 5;

/// A file of users.
#[derive(Debug)]
pub struct UserFile {
    path: PathBuf,
    /// Whether hashes that can be guessed quickly are accepted.
    weak: bool,
    users: RwLock<Arc<Users>>,
}

impl UserFile {
    /// Reads the content of a file.
    ///
    /// # Errors
    /// The message names the file.
    pub fn content(path: &Path) -> Result<Vec<u8>, String> {
        content(path)
    }

    /// Creates the value for a file with this content. `weak`: whether hashes that can be guessed quickly are accepted.
    ///
    /// # Errors
    /// The message names the file, and the lines that are not accepted.
    pub fn new(path: &Path, content: &[u8], weak: bool) -> Result<Self, String> {
        let users = parse(path, content, weak)?;
        Ok(Self { path: path.to_owned(), weak, users: RwLock::new(Arc::new(users)) })
    }

    /// The path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether hashes that can be guessed quickly are accepted.
    #[must_use]
    pub fn accepts_weak(&self) -> bool {
        self.weak
    }

    /// The users.
    pub(super) fn users(&self) -> Arc<Users> {
        Arc::clone(&self.users.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn replace(&self, content: &[u8]) -> Result<(), String> {
        let users = parse(&self.path, content, self.weak)?;
        *self.users.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(users);
        Ok(())
    }
}

fn content(path: &Path) -> Result<Vec<u8>, String> {
    let failed = |why: String| format!("{}: {why}", path.display());
    // Reading from a pipe or a device could have no end.
    if !fs::metadata(path).map_err(|error| failed(error.to_string()))?.is_file() {
        return Err(failed("not a file".to_owned()));
    }
    let mut content = Vec::new();
    let read = File::open(path).and_then(|opened| opened.take(MOST_BYTES + 1).read_to_end(&mut content));
    read.map_err(|error| failed(error.to_string()))?;
    if content.len() as u64 > MOST_BYTES { Err(failed(format!("more than {MOST_BYTES} bytes"))) } else { Ok(content) }
}

fn parse(path: &Path, content: &[u8], weak: bool) -> Result<Users, String> {
    Users::read(content, weak).map_err(|mistakes| {
        let line = |mistake: &oribi_auth::Mistake| format!("{}:{}: {}", path.display(), mistake.line, mistake.message);
        let mut lines: Vec<String> = mistakes.iter().take(MOST_MISTAKES).map(line).collect();
        if mistakes.len() > MOST_MISTAKES {
            lines.push(format!("{}: and {} more lines", path.display(), mistakes.len() - MOST_MISTAKES));
        }
        lines.join("\n")
    })
}

/// Reads all files again. A file that cannot be used keeps the users it had, and the log says why. Returns a file in memory
/// with the content of all files, for [`take`].
///
/// # Errors
/// The system has no memory.
pub(super) fn read_again(files: &[Arc<UserFile>]) -> io::Result<OwnedFd> {
    let mut memory = File::from(memfd_create("oribi-users", MemfdFlags::CLOEXEC)?);
    for file in files {
        // `u64::MAX` stands for a file that stays as it was.
        let read = content(&file.path).and_then(|content| file.replace(&content).map(|()| content));
        match read {
            Ok(content) => {
                if file.users().is_empty() {
                    log::warn!("{}: there is no user, so all requests get a 401", file.path.display());
                } else {
                    log::info!("the users of {} were read again", file.path.display());
                }
                memory.write_all(&(content.len() as u64).to_ne_bytes())?;
                memory.write_all(&content)?;
            }
            Err(why) => {
                log::error!("{why}; keeping the current users");
                memory.write_all(&u64::MAX.to_ne_bytes())?;
            }
        }
    }
    Ok(memory.into())
}

/// Takes the users of all files from a file in memory. Returns `None` if its content is invalid.
pub(super) fn take(files: &[Arc<UserFile>], memory: OwnedFd) -> Option<()> {
    let memory = File::from(memory);
    let mut bytes = vec![0; usize::try_from(memory.metadata().ok()?.len()).ok()?];
    memory.read_exact_at(&mut bytes, 0).ok()?;
    let mut rest = &bytes[..];
    for file in files {
        let (size, behind) = rest.split_first_chunk::<8>()?;
        rest = behind;
        let size = u64::from_ne_bytes(*size);
        if size != u64::MAX {
            let (content, behind) = rest.split_at_checked(usize::try_from(size).ok()?)?;
            rest = behind;
            file.replace(content).ok()?;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: &str = "alice:$1$abc$iCQ2D3nhptRYi27fDYv2s1\n";

    #[test]
    fn changed_files_arrive_and_unusable_ones_change_nothing() {
        let directory = tempfile::tempdir().expect("a directory");
        let paths = [directory.path().join("one"), directory.path().join("other")];
        paths.iter().for_each(|path| fs::write(path, ALICE).expect("it is ours"));
        let read = || {
            paths.iter().map(|path| Arc::new(UserFile::new(path, ALICE.as_bytes(), true).expect("valid"))).collect::<Vec<_>>()
        };
        let (parent, edge) = (read(), read());
        fs::write(&paths[0], "bob:nothing known\n").expect("it is ours");
        fs::write(&paths[1], ALICE.replace("alice", "bob")).expect("it is ours");
        let memory = read_again(&parent).expect("memory");
        take(&edge, memory).expect("valid");
        for files in [&parent, &edge] {
            let can = |file: usize, user: &str| files[file].users().check(user.as_bytes(), b"secret");
            assert!(can(0, "alice") && !can(0, "bob") && can(1, "bob") && !can(1, "alice"));
        }
        let invalid = File::from(memfd_create("test", MemfdFlags::CLOEXEC).expect("memory"));
        invalid.write_all_at(&9u64.to_ne_bytes(), 0).expect("it has room");
        assert!(take(&edge, invalid.into()).is_none());
    }

    #[test]
    fn a_message_names_file_and_line() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("users");
        fs::write(&path, "alice:$apr1$saltsalt$LrttParrLPdxvgutaSXWJ0\n".repeat(9)).expect("it is ours");
        let why = UserFile::new(&path, &fs::read(&path).expect("it is ours"), false).expect_err("a weak hash");
        assert!(why.contains("users:1: a hash by apr1") && why.ends_with("and 4 more lines"), "{why}");
        let why = UserFile::content(directory.path()).expect_err("a directory");
        assert!(why.ends_with(": not a file"), "{why}");
    }
}
