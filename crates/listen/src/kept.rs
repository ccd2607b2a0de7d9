//! Listening sockets that the service manager kept open while this server was restarted.

use rustix::io::Errno;
use rustix::net::{SocketAddrAny, SocketAddrUnix, getsockname, sockopt};
use std::ffi::OsStr;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Sockets by the names under which they were kept. A server that opens an address first looks for its socket here.
#[derive(Debug, Default)]
pub struct Kept {
    sockets: Vec<(String, OwnedFd)>,
    /// Whether this server, or the one before it, listens there now.
    in_use: bool,
    /// Sockets at addresses that end when the new ones serve.
    ending: Vec<OwnedFd>,
    /// Those of them that got SO_REUSEPORT for the sake of a new one.
    shared: Vec<OwnedFd>,
}

/// Returns the path to which a Unix socket is bound.
pub(super) fn path_of(address: SocketAddrAny) -> Option<PathBuf> {
    let address = SocketAddrUnix::try_from(address).ok()?;
    address.path_bytes().map(|path| PathBuf::from(OsStr::from_bytes(path)))
}

/// Whether two paths lead to the same socket file.
pub(super) fn is_same_file(one: &Path, other: &Path) -> bool {
    let file = |path: &Path| {
        let found = std::fs::symlink_metadata(path).ok().filter(|found| found.file_type().is_socket())?;
        Some((found.dev(), found.ino()))
    };
    file(one).is_some_and(|known| file(other) == Some(known))
}

impl Kept {
    /// Keeps these sockets, each with the name of its address.
    pub fn new(sockets: Vec<(String, OwnedFd)>) -> Self {
        Self { sockets, ..Self::default() }
    }

    /// As [`Kept::new`], for sockets at which this server, or the one before it, listens now.
    pub(super) fn in_use(sockets: Vec<OwnedFd>) -> Self {
        let sockets = sockets.into_iter().map(|socket| (String::new(), socket)).collect();
        Self { sockets, in_use: true, ..Self::default() }
    }

    /// Adds sockets at addresses that end when the new ones serve.
    pub(super) fn with_ending(self, ending: Vec<OwnedFd>) -> Self {
        Self { ending, ..self }
    }

    /// Whether `address` is all or one of the interfaces at which a socket that ends listens. Then both can be bound from now on,
    /// and the new socket must not listen before the change is certain: it would take clients from the other.
    pub(super) fn share(&mut self, address: SocketAddr) -> Result<bool, Errno> {
        let mut found = false;
        for socket in &self.ending {
            if !getsockname(socket).and_then(SocketAddr::try_from).is_ok_and(|bound| is_within(bound, address)) {
                continue;
            }
            found = true;
            if !sockopt::socket_reuseport(socket)? {
                sockopt::set_socket_reuseport(socket, true)?;
                self.shared.push(rustix::io::fcntl_dupfd_cloexec(socket, 0)?);
            }
        }
        Ok(found)
    }

    /// Takes the sockets that share their addresses now, and did not before.
    pub(super) fn take_shared(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.shared)
    }

    /// Whether this server, or the one before it, listens at the sockets now.
    pub(super) const fn are_in_use(&self) -> bool {
        self.in_use
    }

    /// Takes the socket that listens on `address`.
    pub(super) fn take_tcp(&mut self, address: SocketAddr) -> Option<OwnedFd> {
        self.take(|bound| SocketAddr::try_from(bound).is_ok_and(|bound| bound == address))
    }

    /// Takes the socket that listens at `path`, unless its file has been removed, perhaps with its folder while the server was
    /// restarted (RuntimeDirectory= of systemd).
    pub(super) fn take_unix(&mut self, path: &Path) -> Option<OwnedFd> {
        // The path may be relative to another directory than the one of the settings, or lead there over a link.
        self.take(|bound| path_of(bound).is_some_and(|bound| is_same_file(&bound, path)))
    }

    fn take(&mut self, is_it: impl Fn(SocketAddrAny) -> bool) -> Option<OwnedFd> {
        let listens = |socket: &OwnedFd| sockopt::socket_acceptconn(socket) == Ok(true);
        let place = self.sockets.iter().position(|(_, socket)| listens(socket) && getsockname(socket).is_ok_and(&is_it))?;
        Some(self.sockets.swap_remove(place).1)
    }

    /// Closes the remaining sockets, in all processes that share them, and returns their names. A socket is closed when its
    /// name is taken from the iterator: clients that connect there are refused from then on.
    pub fn close_others(self) -> impl Iterator<Item = String> {
        self.sockets.into_iter().map(|(name, socket)| {
            // Closing this copy is not enough, because the inherited descriptor stays open. The call fails for a socket that
            // does not listen, which is harmless.
            let _ = rustix::net::shutdown(&socket, rustix::net::Shutdown::Read);
            name
        })
    }
}

/// Whether one of two addresses is for all interfaces, and the other for one of these, at the same port.
fn is_within(one: SocketAddr, other: SocketAddr) -> bool {
    let is_same = one.port() == other.port() && one.is_ipv4() == other.is_ipv4();
    is_same && one.ip().is_unspecified() != other.ip().is_unspecified()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_socket_is_found_by_its_address_and_once() {
        let tcp = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let address = tcp.local_addr().expect("it is bound");
        let silent = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None);
        let sockets = vec![("silent".to_owned(), silent.expect("a socket")), ("tcp".to_owned(), tcp.into())];
        let mut kept = Kept::new(sockets);
        assert!(kept.take_tcp("127.0.0.1:1".parse().expect("an address")).is_none());
        assert!(kept.take_tcp(address).is_some());
        assert!(kept.take_tcp(address).is_none());
        assert_eq!(kept.close_others().collect::<Vec<_>>(), ["silent"]);
    }

    #[test]
    fn a_unix_socket_without_its_file_is_of_no_use() {
        let folder = tempfile::tempdir().expect("a directory is to be had");
        let path = folder.path().join("app.sock");
        let kept = || Kept::new(vec![("app".to_owned(), UnixListener::bind(&path).expect("the folder is ours").into())]);
        let mut first = kept();
        assert!(first.take_unix(&folder.path().join("other.sock")).is_none());
        assert!(first.take_unix(&path).is_some());
        std::fs::remove_file(&path).expect("it is there");
        let mut second = kept();
        std::fs::remove_file(&path).expect("it is there");
        assert!(second.take_unix(&path).is_none());
        assert_eq!(second.close_others().count(), 1);
    }
}
