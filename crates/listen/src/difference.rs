//! Changes the addresses of a server while it serves: opens sockets at new ones, and gives those that stay their new options.
//!
//! Everything that can fail is done by [`AddressPlan::open`], which changes nothing at the present listeners: a listener whose
//! options differ is a new one with copies of the descriptors of the sockets. So no connection in their queues is lost.

use super::kept::Kept;
use super::listener::{self, Listener, displays, queue_length, words};
use super::parts::address_in;
use super::secure::{Vault, secure};
use super::socket_options::usual_mode;
use oribi_config::{ListenAddress, Protocol, Settings, SocketAddress};
use rustix::net::sockopt;
use std::fs::{Permissions, set_permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// The differences between the addresses of a file and those of the server.
#[derive(Debug, Default)]
pub struct AddressPlan {
    /// The addresses that are new or have other options.
    changed: Vec<ListenAddress>,
    /// The places of listeners that stay as they are.
    kept: Vec<String>,
    /// The numbers of listeners that end.
    ended: Vec<u32>,
    lines: Vec<String>,
}

/// Listeners for new addresses and options, which do not serve yet.
#[derive(Debug, Default)]
pub struct ListenChange {
    /// The listeners at new addresses.
    pub(super) opened: Vec<Listener>,
    /// The listeners with other options, each with the number of the listener whose sockets it shares.
    pub(super) replacing: Vec<(u32, Listener)>,
    ended: Vec<u32>,
    /// The permission bits of socket files that stay.
    modes: Vec<(PathBuf, u32)>,
    /// Present sockets that share their addresses with new ones since the change was opened.
    shared: Vec<OwnedFd>,
    /// The length of the queues of sockets that do not listen yet.
    backlog: u32,
    /// Whether programs may share the addresses of this server.
    reuse_port: bool,
}

impl AddressPlan {
    /// Compares the addresses of the settings `before` and `after`. `present` are the listeners of the server.
    ///
    /// # Errors
    /// Something cannot be changed in place; the message says what, and why.
    pub fn compare(before: &Settings, after: &Settings, present: &[Listener]) -> Result<Self, String> {
        let same = |one: &ListenAddress, other: &ListenAddress| one == other && before.offer_of(one) == after.offer_of(other);
        let (stay, changed): (Vec<_>, Vec<_>) =
            after.listen.iter().partition(|address| before.listen.iter().any(|known| same(known, address)));
        let gone: Vec<_> =
            before.listen.iter().filter(|address| !after.listen.iter().any(|wanted| same(address, wanted))).collect();
        if changed.is_empty() && gone.is_empty() {
            return Ok(Self::default());
        }
        if present.iter().any(|listener| listener.lent && !listener.stored) {
            return Err(
                "[[listen]] differs, and another program keeps the sockets of this server (systemd, start_server): its \
                        addresses are those of its start"
                    .to_owned(),
            );
        }
        let mut kept = Vec::new();
        for address in stay {
            kept.extend(displays(after, address)?.iter().map(|display| address_in(display).to_owned()));
        }
        let (mut lines, mut wanted) = (Vec::new(), kept.clone());
        for address in &changed {
            for display in displays(after, address)? {
                let place = address_in(&display);
                let word = if present.iter().any(|known| known.address() == place) { "changed" } else { "added" };
                lines.push(format!("{display}: {word}"));
                wanted.push(place.to_owned());
            }
        }
        let mut ended = Vec::new();
        for address in gone {
            let displays = displays(before, address)?;
            let is_there = |known: &&Listener| displays.iter().any(|display| address_in(display) == known.address());
            let mut found = present.iter().filter(is_there).peekable();
            if found.peek().is_none() {
                return Err(format!(
                    "[[listen]] differs, and the socket of {} is not known (port 0, or a relative path): oribi ctl upgrade \
                     applies it",
                    displays.join(", ")
                ));
            }
            for listener in found.filter(|known| !wanted.iter().any(|place| place == known.address())) {
                if !ended.contains(&listener.id) {
                    ended.push(listener.id);
                    lines.push(format!("{}: removed", listener.display));
                }
            }
        }
        Ok(Self { changed: changed.into_iter().cloned().collect(), kept, ended, lines })
    }

    /// Returns the differences for users, a line each.
    #[must_use]
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Opens the new sockets and reads the certificates. The new listeners have numbers from `next` on.
    ///
    /// # Errors
    /// An address cannot be opened, or a file is unusable; the message says which, and why. Then nothing is left of it.
    pub fn open(self, after: &Settings, present: &[Listener], next: u32) -> Result<ListenChange, String> {
        let Self { changed, kept, ended, .. } = self;
        let (backlog, reuse_port) = (after.backlog, after.reuse_port);
        let mut change = ListenChange { ended, backlog, reuse_port, ..ListenChange::default() };
        if changed.is_empty() {
            return Ok(change);
        }
        let copies = |sockets: &[OwnedFd]| {
            let copies = sockets.iter().map(OwnedFd::try_clone).collect::<Result<Vec<_>, _>>();
            copies.map_err(|error| format!("no descriptor for a socket: {error}"))
        };
        let replaced = |place: &str| {
            let is_kept = kept.iter().any(|known| known == place);
            present.iter().find(|known| !is_kept && known.address() == place)
        };
        let mut sockets = Vec::new();
        for listener in present.iter().filter(|known| !kept.iter().any(|place| place == known.address())) {
            sockets.extend(copies(&listener.sockets[..1])?);
        }
        let settings = Settings { listen: changed, ..after.clone() };
        let ends = present.iter().filter(|known| change.ended.contains(&known.id));
        let ending = ends.map(|known| copies(&known.sockets)).collect::<Result<Vec<_>, _>>()?;
        let mut kept = Kept::in_use(sockets).with_ending(ending.into_iter().flatten().collect());
        let opened = listener::open_or_take(&settings, &mut kept);
        change.shared = kept.take_shared();
        let mut opened = match opened {
            Ok(opened) => opened,
            Err(why) => {
                change.abandon();
                return Err(why);
            }
        };
        let done = secure(
            &mut opened,
            present
                .iter()
                .find_map(|known| known.tls.as_ref())
                .map(|server| Vault { secret: server.secret().clone(), materials: Vec::new() }),
        );
        let done = done.and_then(|()| {
            for (mut listener, id) in opened.drain(..).zip(next..) {
                listener.id = id;
                listener.answer_as(present);
                match replaced(listener.address()) {
                    Some(known) => {
                        listener.lent = false;
                        listener.sockets.extend(copies(&known.sockets[1..])?);
                        change.replacing.push((known.id, listener));
                    }
                    None => change.opened.push(listener),
                }
            }
            Ok(())
        });
        if let Err(why) = done {
            opened.iter_mut().for_each(Listener::remove_file);
            change.abandon();
            return Err(why);
        }
        for address in &settings.listen {
            if let SocketAddress::Unix { path, mode } = &address.socket
                && replaced(&format!("unix:{}", path.display())).is_some()
            {
                change.modes.push((path.clone(), mode.or(settings.socket_mode).unwrap_or_else(usual_mode)));
            }
        }
        Ok(change)
    }
}

impl Listener {
    /// Answers challenges of authorities as these listeners do.
    pub(super) fn answer_as(&mut self, others: &[Self]) {
        if self.protocol == Protocol::Http {
            self.thumbprint = others.iter().find_map(|other| other.thumbprint.clone());
        }
        if let Some(server) = &self.tls
            && let Some(challenges) = others.iter().find_map(|other| other.tls.as_ref()?.challenges())
        {
            server.answer_challenges(challenges.clone());
        }
    }
}

impl ListenChange {
    /// Returns the listeners at new addresses.
    #[must_use]
    pub fn opened(&self) -> &[Listener] {
        &self.opened
    }

    /// Makes new listeners listen that share an address with a listener that ends. Until then its clients arrive at that one, so
    /// that a change that is given up loses none.
    ///
    /// # Errors
    /// The operating system refused it; the message says where.
    pub fn listen(&self) -> Result<(), String> {
        for listener in &self.opened {
            let refused = |error| format!("cannot listen on {}: {}", listener.display, words(error));
            let silent = |socket: &&OwnedFd| sockopt::socket_acceptconn(socket) == Ok(false);
            for socket in listener.sockets.iter().filter(silent) {
                rustix::net::listen(socket, queue_length(self.backlog)).map_err(refused)?;
                if listener.sockets.len() == 1 && !self.reuse_port {
                    sockopt::set_socket_reuseport(socket, false).map_err(refused)?;
                }
            }
        }
        Ok(())
    }

    /// Makes the new listeners those of a server. Returns the listeners that end, whose sockets are open. Calls `forget` with the
    /// names of listeners that the service manager must not keep any longer.
    pub fn commit(self, listeners: &mut Vec<Listener>, forget: impl Fn(&str)) -> Vec<Listener> {
        let Self { opened, replacing, ended, modes, .. } = self;
        for (before, mut listener) in replacing {
            if let Some(index) = listeners.iter().position(|known| known.id == before) {
                let mut known = listeners.remove(index);
                listener.file = known.file.take();
                if known.display == listener.display {
                    (listener.lent, listener.stored) = (known.lent, known.stored);
                } else if known.stored {
                    forget(&known.display);
                }
            }
            listeners.push(listener);
        }
        let (mut ended, rest): (Vec<Listener>, _) = listeners.drain(..).partition(|listener| ended.contains(&listener.id));
        *listeners = rest;
        for listener in ended.iter_mut().filter(|listener| listener.stored) {
            forget(&listener.display);
            (listener.lent, listener.stored) = (false, false);
            listener.own_file();
        }
        listeners.extend(opened);
        listeners.sort_by_key(|listener| listener.id);
        for (path, mode) in modes {
            if let Err(error) = set_permissions(&path, Permissions::from_mode(mode)) {
                log::error!("{} keeps its permissions: {error}", path.display());
            }
        }
        ended
    }

    /// Closes what was opened.
    pub fn abandon(self) {
        for mut listener in self.opened {
            listener.end();
        }
        for socket in self.shared {
            // It fails only on a socket that does not exist any more.
            let _ = sockopt::set_socket_reuseport(socket, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(addresses: &[String]) -> Settings {
        let listen = addresses.iter().map(|address| ListenAddress::parse(address).expect("an address")).collect();
        Settings { listen, ..Settings::default() }
    }

    fn free_port() -> u16 {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        listener.local_addr().expect("it is bound").port()
    }

    fn present(settings: &Settings) -> Vec<Listener> {
        let mut listeners = crate::open(settings).expect("the addresses are free");
        listeners.iter_mut().zip(0..).for_each(|(listener, id)| listener.id = id);
        listeners
    }

    #[test]
    fn addresses_come_go_and_change_and_a_queue_is_not_lost() {
        let folder = tempfile::tempdir().expect("a directory is to be had");
        let unix = |name: &str, more: &str| format!("unix:{}{more}", folder.path().join(name).display());
        let tcp = format!("127.0.0.1:{}", free_port());
        let before = settings(&[tcp.clone(), unix("a", "?mode=600"), unix("b", "")]);
        let mut listeners = present(&before);
        let waiting = std::net::TcpStream::connect(&tcp).expect("it listens");
        let after = settings(&[format!("{tcp}?proxy_protocol=v1"), unix("a", "?mode=660"), unix("c", "")]);
        let plan = AddressPlan::compare(&before, &after, &listeners).expect("all can change");
        let lines = [
            format!("http://{tcp}: changed"),
            format!("{}: changed", unix("a", "")),
            format!("{}: added", unix("c", "")),
            format!("{}: removed", unix("b", "")),
        ];
        assert_eq!(plan.lines(), lines);
        let change = plan.open(&after, &listeners, 3).expect("all can be opened");
        assert!(folder.path().join("c").exists() && folder.path().join("b").exists());
        let ended = change.commit(&mut listeners, |_| {});
        assert_eq!(ended.iter().map(|listener| listener.id).collect::<Vec<_>>(), [2]);
        assert_eq!(listeners.iter().map(|listener| listener.id).collect::<Vec<_>>(), [3, 4, 5]);
        assert!(listeners[0].has_waiting() && listeners[0].proxy_protocol != oribi_config::ProxyProtocol::Off);
        let mode = std::fs::metadata(folder.path().join("a")).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o660);
        listeners.iter_mut().for_each(Listener::end);
        assert!(!folder.path().join("a").exists(), "the file of a changed listener is still its own");
        drop(waiting);
    }

    #[test]
    fn listeners_that_the_service_manager_keeps_change_and_those_of_others_do_not() {
        let folder = tempfile::tempdir().expect("a directory is to be had");
        let unix = |name: &str| format!("unix:{}", folder.path().join(name).display());
        let (before, after) = (settings(&[unix("a"), unix("b")]), settings(&[unix("b")]));
        let mut listeners = present(&before);
        listeners.iter_mut().for_each(Listener::lend);
        let why = AddressPlan::compare(&before, &after, &listeners).expect_err("they belong to another program");
        assert!(why.contains("another program"), "{why}");
        listeners.iter_mut().for_each(|listener| listener.stored = true);
        let plan = AddressPlan::compare(&before, &after, &listeners).expect("they can change");
        let change = plan.open(&after, &listeners, 2).expect("nothing is opened");
        let forgotten = std::cell::RefCell::new(Vec::new());
        let mut ended = change.commit(&mut listeners, |name| forgotten.borrow_mut().push(name.to_owned()));
        assert_eq!(forgotten.into_inner(), [unix("a")]);
        ended.iter_mut().for_each(Listener::end);
        assert!(!folder.path().join("a").exists() && folder.path().join("b").exists());
    }

    #[test]
    fn nothing_is_left_of_a_change_that_fails() {
        let folder = tempfile::tempdir().expect("a directory is to be had");
        let unix = format!("unix:{}", folder.path().join("new").display());
        let other = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let used = other.local_addr().expect("it is bound").to_string();
        let first = format!("127.0.0.1:{}", free_port());
        let before = settings(std::slice::from_ref(&first));
        let listeners = present(&before);
        let after = settings(&[format!("{first}?proxy_protocol=v2"), unix, used.clone()]);
        let plan = AddressPlan::compare(&before, &after, &listeners).expect("there are differences");
        let why = plan.open(&after, &listeners, 1).expect_err("an address is in use");
        assert!(why.contains(&format!("cannot listen on {used}")), "{why}");
        assert!(!folder.path().join("new").exists());
        std::net::TcpStream::connect(&first).expect("the present listener is as it was");
    }

    /// The numbers of the listeners in whose queues a client waits.
    fn waiting(listeners: &[Listener]) -> Vec<u32> {
        let listens = |listener: &Listener| listener.sockets().all(|socket| sockopt::socket_acceptconn(socket) == Ok(true));
        listeners.iter().filter(|listener| listens(listener) && listener.has_waiting()).map(|listener| listener.id).collect()
    }

    #[test]
    fn clients_arrive_at_an_address_within_another_when_the_change_is_certain() {
        // The kernel prefers the narrower address, which in the last case is the one that ends.
        for (before, after, target, opened, arrive) in [
            ("0.0.0.0:{}", "127.0.0.1:{}", "127.0.0.1:{}", 1, 1),
            (":{}", "[::1]:{}", "[::1]:{}", 1, 1),
            ("127.0.0.1:{}", ":{}", "127.0.0.1:{}", 2, 0),
        ] {
            let port = free_port().to_string();
            let [before, after] = [before, after].map(|address| settings(&[address.replace("{}", &port)]));
            let target = target.replace("{}", &port);
            let mut listeners = present(&before);
            let open = |listeners: &[Listener]| {
                let plan = AddressPlan::compare(&before, &after, listeners).expect("they can change");
                plan.open(&after, listeners, 10).expect("both can be open")
            };
            open(&listeners).abandon();
            let shares = |listener: &Listener| listener.sockets().any(|socket| sockopt::socket_reuseport(socket) != Ok(false));
            assert!(!listeners.iter().any(shares), "nobody else can take the port");
            let change = open(&listeners);
            let early = std::net::TcpStream::connect(&target).expect("it listens");
            assert!(waiting(change.opened()).is_empty() && waiting(&listeners).len() == 1, "{target}");
            change.listen().expect("both can listen");
            let late = std::net::TcpStream::connect(&target).expect("it listens");
            assert_eq!((waiting(change.opened()).len(), change.opened().len()), (arrive, opened), "{target}");
            assert!(!change.opened().iter().any(shares), "{target}");
            let ended = change.commit(&mut listeners, |_| {});
            assert_eq!((waiting(&ended).len(), waiting(&listeners).len()), (1, arrive), "{target}");
            drop((early, late));
        }
    }

    #[test]
    fn a_socket_that_cannot_be_found_is_named() {
        let before = settings(&["127.0.0.1:0".to_owned()]);
        let listeners = present(&before);
        let same = AddressPlan::compare(&before, &before, &listeners).expect("nothing differs");
        assert!(same.lines().is_empty());
        let after = settings(&[format!("127.0.0.1:{}", free_port())]);
        let why = AddressPlan::compare(&before, &after, &listeners).expect_err("its port is not known");
        assert!(why.contains("127.0.0.1:0") && why.contains("oribi ctl upgrade"), "{why}");
    }
}
