//! Creates, names and removes the control socket.

use super::liveness::answers;
use super::place;
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The number of clients that may wait to be accepted.
const BACKLOG: i32 = 64;

/// The kinds of files that a new socket may replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplacePolicy {
    /// Only the file of a dead server.
    Free,
    /// Also the socket of the server that this server replaces now.
    OfServerBefore,
    /// Also the socket of another server, when this server serves: see [`ControlSocket::take_name`].
    OfOneToFollow,
}

/// A listening socket and its file. When the process that has created the file drops this value, it removes the file.
#[derive(Debug)]
pub(super) struct ControlSocket {
    socket: OwnedFd,
    path: PathBuf,
    /// The temporary path of the file, until the file gets its final name.
    draft: Option<PathBuf>,
    device: u64,
    inode: u64,
    /// The id of the process that created the file. Forked processes have copies of this value, and must not remove the file.
    owner: u32,
}

impl ControlSocket {
    /// Listens at `path`. Atomically replaces a file there, if `place` permits it to replace that file. With
    /// [`ReplacePolicy::OfOneToFollow`], the socket of a living server is replaced only by [`Self::take_name`].
    ///
    /// # Errors
    /// Another server listens at `path` and may not be replaced, or the socket cannot be created. The message contains the
    /// reason.
    pub(super) fn bind(path: &Path, place: ReplacePolicy) -> Result<Self, String> {
        let taken = is_taken(path)?;
        if taken && place == ReplacePolicy::Free {
            return Err("another server is listening there".to_owned());
        }
        if taken && place == ReplacePolicy::OfOneToFollow {
            return Self::bind_beside(path, &format!(".{}", std::process::id()));
        }
        let mut socket = Self::bind_beside(path, ".new")?;
        socket.take_name().inspect_err(|_| {
            // The file is useless, and the caller reports the first error.
            socket.draft.iter().for_each(|draft| _ = std::fs::remove_file(draft));
        })?;
        Ok(socket)
    }

    /// Listens at `path` with `suffix`, a temporary name.
    fn bind_beside(path: &Path, suffix: &str) -> Result<Self, String> {
        let words = |error: Errno| match error {
            Errno::NAMETOOLONG => "the path of a socket must be shorter than 108 bytes".to_owned(),
            _ => io::Error::from(error).to_string(),
        };
        // The file gets its final name only when the socket listens. Otherwise it could be mistaken for the file of a dead
        // server.
        let mut draft = path.as_os_str().to_owned();
        draft.push(suffix);
        let draft = PathBuf::from(draft);
        let address = SocketAddrUnix::new(&draft).map_err(words)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(words)?;
        let _ = std::fs::remove_file(&draft);
        let umask = rustix::process::umask(Mode::from_raw_mode(0o177));
        let bound = bind(&socket, &address);
        rustix::process::umask(umask);
        bound.map_err(words)?;
        let listens = listen(&socket, BACKLOG).map_err(words);
        let found = listens.and_then(|()| std::fs::symlink_metadata(&draft).map_err(|error| error.to_string()));
        let found = found.inspect_err(|_| _ = std::fs::remove_file(&draft))?;
        let (device, inode, owner) = (found.dev(), found.ino(), std::process::id());
        Ok(Self { socket, path: path.to_owned(), draft: Some(draft), device, inode, owner })
    }

    /// Renames the file to its final name, if it does not have that name yet. Under that name, clients no longer reach the
    /// previous server.
    ///
    /// # Errors
    /// The operating system refuses.
    pub(super) fn take_name(&mut self) -> Result<(), String> {
        let Some(draft) = &self.draft else { return Ok(()) };
        std::fs::rename(draft, &self.path).map_err(|error| error.to_string())?;
        self.draft = None;
        Ok(())
    }

    /// Listens at a socket that is named after process `pid`, in the directory of this user's control sockets. Removes the
    /// sockets of dead servers from that directory.
    ///
    /// # Errors
    /// The socket cannot be created; the message contains the reason.
    pub(super) fn bind_in_own_directory(pid: u32, place: ReplacePolicy) -> Result<Self, String> {
        let directory = place::own_directory()?;
        place::sweep(&directory);
        Self::bind(&place::path_of(&directory, pid), place).map_err(|why| format!("{}: {why}", directory.display()))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let same = |found: std::fs::Metadata| found.dev() == self.device && found.ino() == self.inode;
        let path = self.draft.as_ref().unwrap_or(&self.path);
        if self.owner == std::process::id() && std::fs::symlink_metadata(path).is_ok_and(same) {
            // If the file cannot be removed, the next server removes it.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Whether a server listens at `path`.
///
/// # Errors
/// The file is not a socket, or is not accessible.
fn is_taken(path: &Path) -> Result<bool, String> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error.to_string()),
        Ok(found) if !found.file_type().is_socket() => {
            Err("something that is not a socket is there; remove it or choose another path".to_owned())
        }
        Ok(_) => Ok(answers(path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_its_user_may_connect_and_the_file_goes_with_the_socket() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a.sock");
        let socket = ControlSocket::bind(&path, ReplacePolicy::Free).expect("the directory is writable");
        let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(answers(&path));
        let refused = ControlSocket::bind(&path, ReplacePolicy::Free).expect_err("it is taken");
        assert!(refused.contains("another server"), "{refused}");
        drop(socket);
        assert!(!path.exists());
        assert!(directory.path().read_dir().expect("it is there").next().is_none(), "nothing is left");
    }

    #[test]
    fn a_server_that_follows_another_takes_its_place_when_it_is_told_to() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a.sock");
        let inode = || std::fs::metadata(&path).expect("it is there").ino();
        let first = ControlSocket::bind(&path, ReplacePolicy::OfOneToFollow).expect("nobody listens");
        let of_first = inode();
        drop(ControlSocket::bind(&path, ReplacePolicy::OfOneToFollow).expect("the directory is writable"));
        assert_eq!(inode(), of_first, "a server that never serves leaves the one before in its place");
        let mut second = ControlSocket::bind(&path, ReplacePolicy::OfOneToFollow).expect("the directory is writable");
        assert_eq!(inode(), of_first);
        second.take_name().expect("the directory is writable");
        assert_ne!(inode(), of_first);
        drop(first);
        assert!(answers(&path), "it is the file of the second");
        drop(second);
        assert!(directory.path().read_dir().expect("it is there").next().is_none(), "nothing is left");
    }

    #[test]
    fn a_file_that_a_dead_server_has_left_is_replaced_and_a_file_of_another_is_left() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).expect("the directory is writable"));
        assert!(path.exists() && !answers(&path));
        let socket = ControlSocket::bind(&path, ReplacePolicy::Free).expect("nobody listens");
        std::fs::remove_file(&path).expect("it is there");
        let other = std::os::unix::net::UnixListener::bind(&path).expect("the directory is writable");
        drop(socket);
        assert!(path.exists(), "it belongs to another server now");
        drop(other);
        std::fs::remove_file(&path).expect("it is there");
        std::fs::write(&path, "text").expect("the directory is writable");
        assert!(ControlSocket::bind(&path, ReplacePolicy::Free).expect_err("it is no socket").contains("not a socket"));
    }

    #[test]
    fn the_socket_of_the_server_before_is_replaced_in_one_step() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a.sock");
        let before = ControlSocket::bind(&path, ReplacePolicy::Free).expect("the directory is writable");
        let next = ControlSocket::bind(&path, ReplacePolicy::OfServerBefore).expect("it may be there");
        drop(before);
        assert!(answers(&path), "the one before has left the file, which is not its own any more");
        drop(next);
        assert!(!path.exists());
    }
}
