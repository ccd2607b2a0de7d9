//! Opens, names and removes listening sockets.

use super::handshakes;
use super::kept::{Kept, path_of};
use oribi_config::{ListenAddress, Offer, Protocol, ProxyProtocol, Settings, SocketAddress};
use oribi_host::Endpoint;
use oribi_tls::Server;
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The number of ports tried when the port that the kernel chose for one address is in use on another.
const PORT_CHOICES: usize = 16;

/// A listening address. Workers never unlink its sockets or shut them down.
#[derive(Debug)]
pub struct Listener {
    /// The number by which the first process and its edges name the listener.
    pub id: u32,
    /// The sockets, non-blocking and listening. Several are bound to the same address, so that each lane has its own
    /// (SO_REUSEPORT). Empty in an edge, whose engine has the sockets.
    pub(super) sockets: Vec<OwnedFd>,
    /// The name for users: `http://127.0.0.1:5000`, `unix:/run/app.sock`, `fcgi://127.0.0.1:9000`.
    pub display: String,
    /// The protocol of the clients.
    pub protocol: Protocol,
    /// Whether connections begin with a PROXY header.
    pub proxy_protocol: ProxyProtocol,
    /// SERVER_NAME of requests that arrive here.
    pub server_name: String,
    /// SERVER_PORT of requests that arrive here; `0` for a Unix socket.
    pub server_port: String,
    /// Whether it is a Unix socket.
    pub unix: bool,
    /// Whether the parent program opened the socket and keeps it open, perhaps for the next server. Then this server must not
    /// refuse clients that connect while it stops.
    pub lent: bool,
    /// Whether it is lent because this server, or the one before, has stored it in the service manager.
    pub stored: bool,
    /// The certificate settings of an encrypted listener; `None` without encryption.
    pub offer: Option<Offer>,
    /// The TLS configuration of an encrypted listener.
    pub tls: Option<Arc<Server>>,
    /// The account thumbprint in the answers to ACME challenges; `None` to treat challenges like all other requests.
    pub thumbprint: Option<Arc<str>>,
    /// The file of a Unix socket that this process or its parent created.
    pub(super) file: Option<SocketFile>,
}

/// A socket file, with the device and inode that distinguish it from a later file of another server.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

/// Whether one of these listeners is lent, so that another server may accept connections from it before or after this one.
pub fn is_any_lent(listeners: &[Listener]) -> bool {
    listeners.iter().any(|listener| listener.lent)
}

impl Listener {
    /// Returns SERVER_NAME and SERVER_PORT of requests that arrive here.
    #[inline]
    pub fn endpoint(&self) -> Endpoint<'_> {
        Endpoint { address: self.server_name.as_bytes(), port: self.server_port.as_bytes() }
    }

    /// Adopts a socket that another process opened. `host` is the host given for the socket, empty if unknown; `protocol` is
    /// the protocol of its clients, which the socket does not show.
    ///
    /// # Errors
    /// The descriptor is not a listening stream socket, or the operating system refused a call.
    pub fn adopted(socket: OwnedFd, host: &str, protocol: Protocol) -> Result<Self, String> {
        match sockopt::socket_acceptconn(&socket) {
            Ok(true) => {}
            Ok(false) => return Err("the descriptor is not a listening socket".to_owned()),
            Err(error) => return Err(words(error)),
        }
        if sockopt::socket_type(&socket).map_err(words)? != SocketType::STREAM {
            return Err("the descriptor is not a stream socket".to_owned());
        }
        // Non-blocking, because a lane that blocked in accept would answer no clients.
        rustix::io::ioctl_fionbio(&socket, true).map_err(words)?;
        let address = rustix::net::getsockname(&socket).map_err(words)?;
        let internet = SocketAddr::try_from(address.clone()).ok();
        if internet.is_some() {
            send_at_once(&socket).map_err(words)?;
        }
        let (display, server_name, server_port) = match internet {
            Some(bound) => {
                let host = if host.is_empty() { bound.ip().to_string() } else { host.to_owned() };
                (display_tcp((protocol, None), bound), server_name(&host, bound.ip()), bound.port().to_string())
            }
            None => (display_unix(protocol, &name_of_unix(address)), "localhost".to_owned(), "0".to_owned()),
        };
        Ok(Self {
            id: 0,
            sockets: vec![socket],
            display,
            protocol,
            proxy_protocol: ProxyProtocol::Off,
            server_name,
            server_port,
            unix: internet.is_none(),
            lent: false,
            stored: false,
            offer: None,
            tls: None,
            thumbprint: None,
            file: None,
        })
    }

    /// Sets whether connections begin with a PROXY header; those of web servers (FastCGI) never do.
    pub fn expect_greeting(&mut self, choice: ProxyProtocol) {
        self.proxy_protocol = if self.protocol == Protocol::Http { choice } else { ProxyProtocol::Off };
    }

    /// Makes this an encrypted listener with these certificate settings. [`super::secure()`] reads the certificates later.
    pub fn encrypt(&mut self, offer: Offer) {
        if let Some(rest) = self.display.strip_prefix("http://") {
            self.display = format!("https://{rest}");
        }
        self.offer = Some(offer);
    }

    /// Returns all sockets.
    pub fn sockets(&self) -> impl Iterator<Item = &OwnedFd> {
        self.sockets.iter()
    }

    /// Whether a connection waits to be accepted.
    pub fn has_waiting(&self) -> bool {
        let poll = |socket| rustix::event::PollFd::new(socket, rustix::event::PollFlags::IN);
        let mut polled: Vec<_> = self.sockets().map(poll).collect();
        matches!(rustix::event::poll(&mut polled, Some(&rustix::time::Timespec::default())), Ok(1..))
    }

    /// Turns new connections away from now on; connections that have arrived can still be accepted. Returns `false` if the
    /// kernel does not permit it: then connections arrive until the socket is closed. Does nothing for a Unix socket.
    pub fn turn_away(&self) -> bool {
        let turn_away =
            |socket| oribi_io::ignore_new_connections(socket).or_else(|_| oribi_io::refuse_new_connections(socket)).is_ok();
        // Clients find a Unix socket by its file, which is removed instead.
        self.unix || self.sockets().all(turn_away)
    }

    /// Removes the file of the socket, and closes the socket in all processes that share it. The process that opened the socket
    /// calls this at its end: a copy of the socket in a child that the app forked without exec must not keep the address in use
    /// for the next server. A lent listener stays open for the next server.
    pub fn end(&mut self) {
        self.remove_file();
        if !self.lent {
            self.close();
        }
    }

    /// Stops listening, in all processes that share the sockets: new connections are refused from now on, and connections that
    /// wait are reset. Does nothing for a Unix socket.
    pub fn close(&self) {
        if !self.unix {
            // The call fails if the socket no longer listens, which is harmless.
            for socket in self.sockets() {
                let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Read);
            }
        }
    }

    /// Makes `user` and `group` the owners of the file of a Unix socket that this process created.
    ///
    /// # Errors
    /// The operating system refused a call.
    pub fn give_to(&self, user: u32, group: u32) -> Result<(), String> {
        let Some(SocketFile { path, .. }) = &self.file else { return Ok(()) };
        let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
        let (user, group) = (rustix::fs::Uid::from_raw(user), rustix::fs::Gid::from_raw(group));
        rustix::fs::chownat(rustix::fs::CWD, path, Some(user), Some(group), flags)
            .map_err(|error| format!("cannot give {} to user {}: {}", path.display(), user.as_raw(), words(error)))
    }

    /// Makes this process responsible for the file of a Unix socket that another process has made, unless the listener is lent.
    pub fn own_file(&mut self) {
        if self.lent || !self.unix {
            return;
        }
        self.file = self.bound_to().and_then(path_of).and_then(|path| {
            let found = std::fs::symlink_metadata(&path).ok()?;
            Some(SocketFile { path, device: found.dev(), inode: found.ino() })
        });
    }

    /// Returns the address of the sockets. `None` for a description, which has none.
    pub(super) fn bound_to(&self) -> Option<SocketAddrAny> {
        self.sockets.first().and_then(|socket| rustix::net::getsockname(socket).ok())
    }

    /// Marks the socket as kept open by another process, for the next server.
    #[inline]
    pub fn lend(&mut self) {
        self.lent = true;
        self.file = None;
    }

    /// Removes the file of a Unix socket, if this process created it and it has not been replaced.
    pub fn remove_file(&mut self) {
        let Some(file) = self.file.take() else { return };
        let same = |found: &std::fs::Metadata| found.dev() == file.device && found.ino() == file.inode;
        if std::fs::symlink_metadata(&file.path).is_ok_and(|found| same(&found)) {
            // If it cannot be removed, the next start finds it stale and removes it.
            let _ = std::fs::remove_file(&file.path);
        }
    }
}

/// Whether a handshake with one of these listeners is in progress.
pub fn handshake_begun(listeners: &[Listener]) -> bool {
    let internet = listeners.iter().filter(|listener| !listener.unix);
    let ports: Vec<u16> = internet.filter_map(|listener| listener.server_port.parse().ok()).collect();
    handshakes::begun(&ports)
}

impl AsFd for Listener {
    /// The first socket. A description has none.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.sockets[0].as_fd()
    }
}

/// Opens listeners as [`super::open`] does, but reads no certificates. If `kept` has a socket for an address, takes that
/// socket.
///
/// # Errors
/// Those of [`super::open`], except for certificates.
pub(crate) fn open_or_take(settings: &Settings, kept: &mut Kept) -> Result<Vec<Listener>, String> {
    let mut listeners: Vec<Listener> = Vec::new();
    for address in &settings.listen {
        let protocol = address.protocol.unwrap_or(settings.protocol);
        let before = listeners.len();
        let opened = match &address.socket {
            SocketAddress::Tcp { host, port } => {
                let offer = settings.offer_of(address);
                let speech = (protocol, offer.as_ref());
                open_tcp(settings, speech, (host, *port), kept, &mut listeners)
            }
            SocketAddress::Unix { path, mode } => {
                let mode = mode.or(settings.socket_mode);
                match kept.take_unix(path) {
                    Some(socket) => taken(settings, (protocol, None), "", (socket, kept)),
                    None => open_unix(settings, protocol, path, mode),
                }
                .map(|listener| listeners.push(listener))
            }
        };
        if let Err(message) = opened {
            listeners.iter_mut().for_each(Listener::remove_file);
            return Err(message);
        }
        let choice = address.proxy_protocol.unwrap_or(settings.proxy_protocol);
        listeners[before..].iter_mut().for_each(|listener| listener.expect_greeting(choice));
    }
    if listeners.is_empty() {
        return Err("there is no address to listen on".to_owned());
    }
    Ok(listeners)
}

fn open_tcp(
    settings: &Settings,
    (protocol, offer): Speech<'_>,
    (host, port): (&str, u16),
    kept: &mut Kept,
    listeners: &mut Vec<Listener>,
) -> Result<(), String> {
    let addresses = addresses_of(host, port)?;
    for address in &addresses {
        if let Some(socket) = kept.take_tcp(*address) {
            listeners.push(taken(settings, (protocol, offer), host, (socket, kept))?);
        }
    }
    // With port 0 the kernel chooses for the first address; the others use the same port.
    let mut choices = if port == 0 { PORT_CHOICES } else { 1 };
    loop {
        choices -= 1;
        match open_together(settings, (protocol, offer), host, &addresses, (listeners, kept)) {
            Ok(opened) => {
                listeners.extend(opened);
                return Ok(());
            }
            Err((_, Errno::ADDRINUSE)) if choices > 0 => {}
            Err((address, error)) => return Err(refusal(host, address, error)),
        }
    }
}

/// Makes a listener of a socket that was kept.
fn taken(
    settings: &Settings,
    (protocol, offer): Speech<'_>,
    host: &str,
    (socket, kept): (OwnedFd, &Kept),
) -> Result<Listener, String> {
    let mut listener = Listener::adopted(socket, host, protocol)?;
    listener.lent = true;
    if let Some(offer) = offer {
        listener.encrypt(offer.clone());
    }
    if !kept.are_in_use() {
        log::info!("{} was kept open, and is taken over", listener.display);
    }
    if let Some(name) = &settings.server_name {
        listener.server_name.clone_from(name);
    }
    Ok(listener)
}

/// Returns the addresses of `host`, in the system's order of preference.
pub(crate) fn addresses_of(host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    if matches!(host, "" | "*" | "::") {
        return Ok(vec![(Ipv6Addr::UNSPECIFIED, port).into(), (Ipv4Addr::UNSPECIFIED, port).into()]);
    }
    let mut addresses = Vec::new();
    let found = (host, port).to_socket_addrs().map_err(|error| format!("cannot listen on {host}: {error}"))?;
    for address in found {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() { Err(format!("cannot listen on {host}: the name has no address")) } else { Ok(addresses) }
}

/// Opens `addresses` on one port. Leaves out addresses of a family or an interface that this machine lacks, as long as another
/// address works. Also leaves out addresses of listeners in `before`. An error comes with its address.
fn open_together(
    settings: &Settings,
    (protocol, offer): Speech<'_>,
    host: &str,
    addresses: &[SocketAddr],
    (before, kept): (&[Listener], &mut Kept),
) -> Result<Vec<Listener>, (SocketAddr, Errno)> {
    let mut opened: Vec<Listener> = Vec::new();
    let mut covered = false;
    let mut absent = None;
    let mut chosen_port = None;
    for address in addresses {
        let mut address = *address;
        if let Some(port) = chosen_port {
            address.set_port(port);
        }
        let display = display_tcp((protocol, offer), address);
        if before.iter().any(|listener| listener.display == display) {
            covered = true;
            continue;
        }
        let shared = kept.share(address).map_err(|error| (address, error))?;
        match bind_tcp(address, settings, shared) {
            Ok((sockets, bound)) => {
                chosen_port = Some(bound.port());
                opened.push(Listener {
                    id: 0,
                    sockets,
                    display: display_tcp((protocol, offer), bound),
                    protocol,
                    proxy_protocol: ProxyProtocol::Off,
                    server_name: settings.server_name.clone().unwrap_or_else(|| server_name(host, bound.ip())),
                    server_port: bound.port().to_string(),
                    unix: false,
                    lent: false,
                    stored: false,
                    offer: offer.cloned(),
                    tls: None,
                    thumbprint: None,
                    file: None,
                });
            }
            Err(error @ (Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL)) => absent = absent.or(Some((address, error))),
            Err(error) => return Err((address, error)),
        }
    }
    match absent {
        Some(refused) if opened.is_empty() && !covered => Err(refused),
        _ => Ok(opened),
    }
}

/// Opens the sockets of one address, and returns them with the address that they are bound to. They do not listen yet if the
/// address is `shared` with a socket of this server ([`Kept::share`]).
fn bind_tcp(address: SocketAddr, settings: &Settings, shared: bool) -> Result<(Vec<OwnedFd>, SocketAddr), Errno> {
    let count = settings.sockets_of_address();
    // SO_REUSEPORT is set only after the address belongs to this server, so that two servers cannot share it unnoticed.
    let first = bind_one(address, settings.reuse_port || shared)?;
    let bound = rustix::net::getsockname(&first).and_then(SocketAddr::try_from)?;
    if count > 1 {
        sockopt::set_socket_reuseport(&first, true)?;
    }
    let others = (1..count).map(|_| bind_one(bound, true));
    let sockets = std::iter::once(Ok(first)).chain(others).collect::<Result<Vec<_>, _>>()?;
    // The sockets start to listen in the order of their numbers, by which the kernel selects them.
    for socket in sockets.iter().filter(|_| !shared) {
        rustix::net::listen(socket, queue_length(settings.backlog))?;
    }
    Ok((sockets, bound))
}

fn bind_one(address: SocketAddr, reuse_port: bool) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if reuse_port {
        sockopt::set_socket_reuseport(&socket, true)?;
    }
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    send_at_once(&socket)?;
    // TCP_DEFER_ACCEPT stays off: it would keep silent connections outside of the server's deadlines, and closing the
    // listener would drop them.
    rustix::net::bind(&socket, &address)?;
    Ok(socket)
}

/// Makes connections send small parts of responses without waiting for the acknowledgement of earlier parts (TCP_NODELAY).
/// Connections inherit the option, which saves a call for each connection. Only a connection that was established before the
/// option was set lacks it, even if the connection is accepted later.
fn send_at_once(socket: &OwnedFd) -> Result<(), Errno> {
    sockopt::set_tcp_nodelay(socket, true)
}

/// A protocol and, if it is spoken over TLS, the certificate settings.
type Speech<'a> = (Protocol, Option<&'a Offer>);

fn display_tcp((protocol, offer): Speech<'_>, address: SocketAddr) -> String {
    match protocol {
        Protocol::Http if offer.is_some() => format!("https://{address}"),
        Protocol::Http => format!("http://{address}"),
        Protocol::FastCgi => format!("fcgi://{address}"),
    }
}

/// Returns the names of the listeners that `address` leads to.
pub(crate) fn displays(settings: &Settings, address: &ListenAddress) -> Result<Vec<String>, String> {
    let protocol = address.protocol.unwrap_or(settings.protocol);
    match &address.socket {
        SocketAddress::Tcp { host, port } => {
            let offer = settings.offer_of(address);
            let display = |address| display_tcp((protocol, offer.as_ref()), address);
            Ok(addresses_of(host, *port)?.into_iter().map(display).collect())
        }
        SocketAddress::Unix { path, .. } => Ok(vec![display_unix(protocol, &path.display().to_string())]),
    }
}

fn display_unix(protocol: Protocol, name: &str) -> String {
    match protocol {
        Protocol::Http => format!("unix:{name}"),
        Protocol::FastCgi => format!("fcgi+unix:{name}"),
    }
}

/// Returns the name of a Unix socket for users. A socket without a path is rare, but the parent program may have made one.
fn name_of_unix(address: SocketAddrAny) -> String {
    let address = SocketAddrUnix::try_from(address).ok();
    let path = address.as_ref().and_then(SocketAddrUnix::path_bytes).map(String::from_utf8_lossy);
    let name = address.as_ref().and_then(SocketAddrUnix::abstract_name).map(String::from_utf8_lossy);
    match (path, name) {
        (Some(path), _) => path.into_owned(),
        (None, Some(name)) => format!("@{name}"),
        (None, None) => String::new(),
    }
}

pub(crate) fn queue_length(backlog: u32) -> i32 {
    i32::try_from(backlog).unwrap_or(i32::MAX)
}

/// Returns SERVER_NAME for requests without Host: the host as the user wrote it, with brackets around an IPv6 address. For a
/// socket on all interfaces, this is the name of this machine.
fn server_name(host: &str, bound: IpAddr) -> String {
    if !bound.is_unspecified() {
        return if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    }
    let system = rustix::system::uname();
    match system.nodename().to_str() {
        Ok(name) if !name.is_empty() => name.to_owned(),
        _ => "localhost".to_owned(),
    }
}

fn refusal(host: &str, address: SocketAddr, error: Errno) -> String {
    let hint = match error {
        Errno::ADDRINUSE => "; is another server running? choose another address or port",
        Errno::ADDRNOTAVAIL => "; no interface of this machine has it",
        Errno::ACCESS if address.port() < 1024 => "; ports below 1024 need root or CAP_NET_BIND_SERVICE",
        _ => "",
    };
    let meaning =
        if host.parse::<IpAddr>().is_ok() || address.ip().is_unspecified() { String::new() } else { format!(" ({host})") };
    format!("cannot listen on {address}{meaning}: {}{hint}", words(error))
}

/// Returns the message of an error in lower case, without the number that `io::Error` adds.
pub(crate) fn words(error: Errno) -> String {
    let text = io::Error::from(error).to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

fn open_unix(settings: &Settings, protocol: Protocol, path: &Path, mode: Option<u32>) -> Result<Listener, String> {
    let refused = |why: &str| format!("cannot listen on {}: {why}", path.display());
    let address = SocketAddrUnix::new(path).map_err(|error| match error {
        Errno::NAMETOOLONG => refused("the path of a socket must be shorter than 108 bytes"),
        _ => refused(&words(error)),
    })?;
    make_room(path, &address).map_err(|why| refused(&why))?;
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
            .map_err(|error| refused(&words(error)))?;
    // The file must never have more permissions than requested, not even until a chmod.
    let umask_before = mode.map(|mode| rustix::process::umask(Mode::from_raw_mode(!mode & 0o777)));
    let bound = rustix::net::bind(&socket, &address);
    if let Some(umask) = umask_before {
        rustix::process::umask(umask);
    }
    bound.map_err(|error| refused(&words(error)))?;
    let file = std::fs::symlink_metadata(path)
        .map(|found| SocketFile { path: path.to_owned(), device: found.dev(), inode: found.ino() })
        .map_err(|error| refused(&error.to_string()))?;
    let mut listener = Listener {
        id: 0,
        sockets: vec![socket],
        display: display_unix(protocol, &path.display().to_string()),
        protocol,
        proxy_protocol: ProxyProtocol::Off,
        server_name: settings.server_name.clone().unwrap_or_else(|| "localhost".to_owned()),
        server_port: "0".to_owned(),
        unix: true,
        lent: false,
        stored: false,
        offer: None,
        tls: None,
        thumbprint: None,
        file: Some(file),
    };
    if let Err(error) = rustix::net::listen(listener.as_fd(), queue_length(settings.backlog)) {
        listener.remove_file();
        return Err(refused(&words(error)));
    }
    Ok(listener)
}

/// Removes the socket file that a crashed server has left at `path`; refuses to touch anything else.
fn make_room(path: &Path, address: &SocketAddrUnix) -> Result<(), String> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.to_string()),
        Ok(found) if !found.file_type().is_socket() => {
            return Err("something that is not a socket is there; remove it or choose another path".to_owned());
        }
        Ok(_) => {}
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let probe = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(words)?;
    match rustix::net::connect(&probe, address) {
        Err(Errno::CONNREFUSED) => std::fs::remove_file(path).map_err(|error| error.to_string()),
        Err(Errno::NOENT) => Ok(()),
        // EAGAIN: a server is listening, and its queue is full.
        Ok(()) | Err(Errno::AGAIN) => Err("another server is listening there".to_owned()),
        Err(error) => Err(words(error)),
    }
}

#[cfg(test)]
mod tests;
