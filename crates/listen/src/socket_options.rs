//! Options of open sockets: a server that takes sockets over, from the server before it or from the service manager, gives them
//! those of its own settings.
//!
//! The length of the queue, SO_REUSEPORT and a mode of the settings are set. All else stays as the first server has made it,
//! because somebody may have changed it since for good reason, such as the owner of a Unix socket for a web server. The log names
//! it then.

use super::kept::{is_same_file, path_of};
use super::listener::{Listener, queue_length, words};
use oribi_config::{Settings, SocketAddress, counted};
use rustix::fs::Mode;
use rustix::net::sockopt;
use rustix::process::umask;
use std::fs::{Permissions, set_permissions, symlink_metadata};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

/// The owner of new socket files: the user, and the group if the server sets it.
type Owner = (u32, Option<u32>);

/// Gives the sockets of these listeners the options of `settings`. Logs a warning for each listener with an option that needs new
/// sockets.
pub fn fit_sockets<'a>(listeners: impl IntoIterator<Item = &'a Listener>, settings: &Settings, owner: Owner) {
    for listener in listeners {
        let kept = listener.fit(settings, owner);
        if !kept.is_empty() {
            let (display, kept) = (&listener.display, kept.join(" and "));
            log::warn!("{display} keeps {kept}; to change that, stop the server and start it");
        }
    }
}

impl Listener {
    /// Sets the options of the sockets. Returns those that they keep although the settings have others.
    fn fit(&self, settings: &Settings, owner: Owner) -> Vec<String> {
        let mut kept = Vec::new();
        for socket in self.sockets() {
            if let Err(error) = rustix::net::listen(socket, queue_length(settings.backlog)) {
                kept.push(format!("the length of its queue (--backlog: {})", words(error)));
            }
        }
        if self.unix {
            self.fit_file(settings, owner, &mut kept);
            return kept;
        }
        let is_shared = settings.reuse_port || self.sockets.len() > 1;
        for socket in self.sockets().filter(|socket| sockopt::socket_reuseport(socket) != Ok(is_shared)) {
            if let Err(error) = sockopt::set_socket_reuseport(socket, is_shared) {
                kept.push(format!("its port (--reuse-port: {})", words(error)));
            }
        }
        let (present, wanted) = (self.sockets.len(), settings.sockets_of_address());
        if present != wanted {
            kept.push(format!("{} instead of {wanted} (--accept)", counted(present, "socket")));
        }
        kept
    }

    /// Sets the mode of the file of a Unix socket.
    fn fit_file(&self, settings: &Settings, (user, group): Owner, kept: &mut Vec<String>) {
        let Some(path) = self.bound_to().and_then(path_of) else { return };
        let Ok(found) = symlink_metadata(&path) else { return };
        let mode = settings.listen.iter().find_map(|address| match &address.socket {
            SocketAddress::Unix { path: own, mode } if is_same_file(own, &path) => mode.or(settings.socket_mode),
            _ => None,
        });
        let present = found.mode() & 0o777;
        match mode {
            Some(mode) if mode != present => {
                if let Err(error) = set_permissions(&path, Permissions::from_mode(mode)) {
                    kept.push(format!("the permissions {present:03o} instead of {mode:03o} (--socket-mode: {error})"));
                }
            }
            None if present != usual_mode() => {
                kept.push(format!("the permissions {present:03o} instead of {:03o} (no --socket-mode)", usual_mode()));
            }
            _ => {}
        }
        if found.uid() != user || group.is_some_and(|group| group != found.gid()) {
            let group = group.unwrap_or(found.gid());
            kept.push(format!("the owner {}:{} instead of {user}:{group} (--user)", found.uid(), found.gid()));
        }
    }
}

/// Returns the permission bits of a socket file without a mode.
pub(super) fn usual_mode() -> u32 {
    let mask = umask(Mode::empty());
    umask(mask);
    0o777 & !mask.as_raw_mode()
}

#[cfg(test)]
mod tests {
    use super::*;
    use oribi_config::{AcceptModel, ListenAddress};
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
    use std::os::fd::OwnedFd;
    use std::path::Path;

    fn open(settings: &Settings) -> Listener {
        crate::open(settings).expect("the address is free").remove(0)
    }

    /// Returns the owner of what this process makes.
    fn owner() -> Owner {
        (rustix::process::geteuid().as_raw(), None)
    }

    fn unix(path: &Path, mode: Option<u32>) -> Settings {
        Settings { listen: vec![ListenAddress::unix(path, mode)], ..Settings::default() }
    }

    /// Connects clients until the queue is full.
    fn fill(path: &Path) -> Vec<OwnedFd> {
        let address = SocketAddrUnix::new(path).expect("it is short");
        let client = || {
            let client = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::NONBLOCK, None).expect("a socket");
            connect(&client, &address).is_ok().then_some(client)
        };
        std::iter::from_fn(client).collect()
    }

    #[test]
    fn a_longer_queue_has_room_for_more_clients() {
        let folder = tempfile::tempdir().expect("a directory is to be had");
        let path = folder.path().join("socket");
        let settings = Settings { backlog: 2, ..unix(&path, None) };
        let listener = open(&settings);
        let first = fill(&path);
        assert!(!first.is_empty() && fill(&path).is_empty());
        assert_eq!(listener.fit(&Settings { backlog: 12, ..settings }, owner()), [""; 0]);
        assert_eq!(fill(&path).len(), 10);
        drop(first);
    }

    #[test]
    fn the_mode_of_the_settings_is_set_and_other_differences_are_named() {
        let folder = tempfile::tempdir().expect("a directory is to be had");
        let path = folder.path().join("socket");
        let listener = open(&unix(&path, Some(0o600)));
        let mode = || symlink_metadata(&path).expect("it is there").mode() & 0o777;
        assert_eq!(listener.fit(&unix(&path, Some(0o640)), owner()), [""; 0]);
        assert_eq!(mode(), 0o640);
        let kept = listener.fit(&unix(&path, None), owner());
        assert_eq!(kept, [format!("the permissions 640 instead of {:03o} (no --socket-mode)", usual_mode())]);
        assert_eq!(mode(), 0o640, "somebody may have changed it");
        let (user, group) = (owner().0, symlink_metadata(&path).expect("it is there").gid());
        let kept = listener.fit(&unix(&path, Some(0o640)), (user + 1, Some(group + 1)));
        assert_eq!(kept, [format!("the owner {user}:{group} instead of {}:{} (--user)", user + 1, group + 1)]);
    }

    #[test]
    fn a_port_is_shared_as_the_settings_say_and_the_number_of_sockets_is_named() {
        let settings = Settings { listen: vec![ListenAddress::tcp("127.0.0.1", 0)], ..Settings::default() };
        let listener = open(&settings);
        let is_shared = |listener: &Listener| listener.sockets().all(|socket| sockopt::socket_reuseport(socket) == Ok(true));
        for reuse_port in [true, false] {
            assert_eq!(listener.fit(&Settings { reuse_port, ..settings.clone() }, owner()), [""; 0]);
            assert_eq!(is_shared(&listener), reuse_port);
        }
        let own = Settings { accept: AcceptModel::Own, workers: 3.into(), ..settings.clone() };
        assert_eq!(listener.fit(&own, owner()), ["1 socket instead of 3 (--accept)"]);
        let listener = open(&own);
        assert_eq!(listener.fit(&own, owner()), [""; 0]);
        assert_eq!(listener.fit(&settings, owner()), ["3 sockets instead of 1 (--accept)"]);
        assert!(is_shared(&listener), "they have the same port");
    }
}
