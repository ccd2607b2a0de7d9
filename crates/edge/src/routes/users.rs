//! Files of users, which are read again when they have changed.
//!
//! The process that forks edges reads the files, because perhaps only its user may, and because an edge in a sandbox opens
//! nothing by name. It gives edges the content of changed files in a file in memory.

use oribi_auth::Users;
use rustix::fs::{MemfdFlags, memfd_create};
use std::fmt;
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
pub struct UserFile {
    path: PathBuf,
    /// Whether hashes that can be guessed quickly are accepted.
    weak: bool,
    users: RwLock<Arc<Users>>,
}

impl fmt::Debug for UserFile {
    /// Without the users: routes are compared by this text, and the users of a map have no order.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, weak, users: _ } = self;
        formatter.debug_struct("UserFile").field("path", path).field("weak", weak).finish_non_exhaustive()
    }
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

    /// Reads the file, and replaces the users. Returns its content.
    fn read(&self) -> Result<Vec<u8>, String> {
        let content = content(&self.path)?;
        self.replace(&content)?;
        if self.users().is_empty() {
            log::warn!("{}: there is no user, so all requests get a 401", self.path.display());
        }
        Ok(content)
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

/// Reads all files. Returns the content of all, for [`take`].
///
/// # Errors
/// A file cannot be used; the message says why.
pub(super) fn read(files: &[Arc<UserFile>]) -> Result<Vec<u8>, String> {
    let mut all = Vec::new();
    for file in files {
        append(&mut all, Some(&file.read()?));
    }
    Ok(all)
}

/// Reads all files again. A file that cannot be used keeps the users it had, and the log says why. Returns a file in memory
/// with the content of all files, for [`take_from`].
///
/// # Errors
/// The system has no memory.
pub(super) fn read_again(files: &[Arc<UserFile>]) -> io::Result<OwnedFd> {
    let mut all = Vec::new();
    for file in files {
        let read = file.read();
        match &read {
            Ok(_) if file.users().is_empty() => {}
            Ok(_) => log::info!("the users of {} were read again", file.path.display()),
            Err(why) => log::error!("{why}; keeping the current users"),
        }
        append(&mut all, read.ok().as_deref());
    }
    let mut memory = File::from(memfd_create("oribi-users", MemfdFlags::CLOEXEC)?);
    memory.write_all(&all)?;
    Ok(memory.into())
}

/// Appends the content of a file; `None`: it stays as it was, for which `u64::MAX` stands.
fn append(all: &mut Vec<u8>, content: Option<&[u8]>) {
    all.extend(content.map_or(u64::MAX, |content| content.len() as u64).to_ne_bytes());
    all.extend_from_slice(content.unwrap_or_default());
}

/// Takes the users of all files from a file in memory. Returns `None` if its content is invalid.
pub(super) fn take_from(files: &[Arc<UserFile>], memory: OwnedFd) -> Option<()> {
    let memory = File::from(memory);
    let mut bytes = vec![0; usize::try_from(memory.metadata().ok()?.len()).ok()?];
    memory.read_exact_at(&mut bytes, 0).ok()?;
    take(files, &bytes)
}

/// Takes the users of all files from their content. Returns `None` if it is invalid.
pub(super) fn take(files: &[Arc<UserFile>], mut rest: &[u8]) -> Option<()> {
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
    rest.is_empty().then_some(())
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
        take_from(&edge, memory).expect("valid");
        for files in [&parent, &edge] {
            let can = |file: usize, user: &str| files[file].users().check(user.as_bytes(), b"secret");
            assert!(can(0, "alice") && !can(0, "bob") && can(1, "bob") && !can(1, "alice"));
        }
        let invalid = File::from(memfd_create("test", MemfdFlags::CLOEXEC).expect("memory"));
        invalid.write_all_at(&9u64.to_ne_bytes(), 0).expect("it has room");
        assert!(take_from(&edge, invalid.into()).is_none());
    }

    #[test]
    fn a_plan_has_usable_files_only() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("users");
        fs::write(&path, ALICE).expect("it is ours");
        let [parent, edge] =
            [(); 2].map(|()| [Arc::new(UserFile::new(&path, b"bob:$1$abc$iCQ2D3nhptRYi27fDYv2s1\n", true).expect("valid"))]);
        let content = read(&parent).expect("the file is valid");
        assert!(take(&edge, &content[..content.len() - 1]).is_none() && take(&edge, &[&content[..], b"a"].concat()).is_none());
        take(&edge, &content).expect("valid");
        for files in [&parent, &edge] {
            assert!(files[0].users().check(b"alice", b"secret") && !files[0].users().check(b"bob", b"secret"));
        }
        fs::write(&path, "bob:nothing known\n").expect("it is ours");
        let why = read(&parent).expect_err("the hash is unknown");
        assert!(why.contains("users:1: "), "{why}");
        assert!(take(&edge, &[]).is_none());
        assert!(take(&[], &[]).is_some(), "there may be no file");
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
