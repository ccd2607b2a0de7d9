//! Adopts listeners that a parent program has opened for this server: start_server of Server::Starter, systemd, or a web
//! server or spawn-fcgi that launches FastCGI applications.
//!
//! The listeners are lent: the parent program keeps them open when this server ends, and another server may already be
//! accepting from them. So this server never shuts them down, never makes the kernel turn their clients away, and never removes
//! their socket files.
//!
//! systemd also passes on the listeners that an earlier run of this server has opened and stored in systemd, to keep them open
//! during a restart. This server uses such a listener only if it is for an address of the settings.

use super::notify;
use oribi_config::value::show_accept_model;
use oribi_config::{Protocol, Settings};
use oribi_io::process::environment;
use oribi_listen::{Kept, Listener, Vault};
use rustix::net::SocketType;
use rustix::net::sockopt::{socket_acceptconn, socket_type};
use std::os::fd::{AsFd, OwnedFd};

/// The variable with the addresses on which start_server listens, each with its descriptor:
/// `127.0.0.1:80=4;[::1]:80=5;8080=6;/run/app.sock=7`.
const SERVER_STARTER: &str = "SERVER_STARTER_PORT";

/// The variable with the number of descriptors that systemd passes on, from [`FIRST_OF_SYSTEMD`] on (sd_listen_fds(3)).
const LISTEN_FDS: &str = "LISTEN_FDS";
/// The variable with the id of the process to which systemd has passed the descriptors: children inherit the variables without
/// the descriptors.
const LISTEN_PID: &str = "LISTEN_PID";
/// The variable with the names of the descriptors, in the same order, separated by colons.
const LISTEN_FDNAMES: &str = "LISTEN_FDNAMES";
const FIRST_OF_SYSTEMD: i32 = 3;

/// Variables that are meant for this server, and not for programs that its apps start.
pub(super) const VARIABLES: [&str; 4] = [SERVER_STARTER, LISTEN_FDS, LISTEN_PID, LISTEN_FDNAMES];

/// Returns the listeners of the parent program. Without any, returns listeners for the addresses of `settings`: listeners that
/// systemd has stored, and new listeners for the rest.
///
/// # Errors
/// A listener cannot be adopted, opened or encrypted, or `--accept` needs several sockets for an address whose listener is
/// lent. The message says which, and why.
pub(super) fn adopt_or_open(settings: &Settings) -> Result<Vec<Listener>, String> {
    let variable = |name: &str| environment::variable(name).filter(|value| !value.trim().is_empty());
    let mut kept = Kept::default();
    let (mut listeners, lender) = if let Some(value) = variable(SERVER_STARTER) {
        (adopt_all(parse_server_starter(&value)?, SERVER_STARTER, settings.protocol)?, "Server::Starter")
    } else if let Some(value) = variable(LISTEN_FDS)
        && variable(LISTEN_PID).is_some_and(|process| process.trim() == std::process::id().to_string())
    {
        let names = variable(LISTEN_FDNAMES).unwrap_or_default();
        let (stored, lent): (Vec<_>, Vec<_>) =
            parse_systemd(&value, &names)?.into_iter().partition(|inherited| notify::is_name_in_store(&inherited.name));
        // Sockets that cannot be adopted are opened again.
        let stored =
            stored.into_iter().filter_map(|inherited| Some((inherited.name, oribi_io::process::adopt(inherited.number).ok()?)));
        kept = Kept::new(stored.collect());
        (adopt_all(lent, LISTEN_FDS, settings.protocol)?, "systemd")
    } else if let Some(listener) = standard_input()? {
        (vec![listener], "the program that started this server (FastCGI on descriptor 0)")
    } else {
        (Vec::new(), "")
    };
    let opened = if listeners.is_empty() { Some(oribi_listen::open_or_take(settings, &mut kept)?) } else { None };
    // This server no longer listens at these addresses, so clients there would never be answered.
    kept.close_others().for_each(|name| notify::remove_from_store(&name));
    if let Some(mut opened) = opened {
        opened.iter_mut().for_each(|listener| listener.stored = listener.lent);
        return Ok(opened);
    }
    if settings.sockets_of_address() > 1 {
        let model = show_accept_model(settings.accept);
        return Err(format!(
            "--accept {model} needs sockets that can be opened several times; those of {lender} are there once: leave --accept out"
        ));
    }
    let displays: Vec<&str> = listeners.iter().map(|listener| listener.display.as_str()).collect();
    log::info!("{} taken over from {lender}; --listen, --host and --port have no effect", displays.join(", "));
    give_options(&mut listeners, settings, None)?;
    Ok(listeners)
}

/// Gives listeners of the parent program the options of `settings`.
///
/// # Errors
/// A certificate is unusable; the message says which, and why.
fn give_options(listeners: &mut [Listener], settings: &Settings, vault: Option<Vault>) -> Result<(), String> {
    if let Some(offer) = settings.default_offer() {
        let plain = listeners.iter_mut().filter(|listener| !listener.unix && listener.protocol == Protocol::Http);
        plain.for_each(|listener| listener.encrypt(offer.clone()));
    }
    oribi_listen::secure(listeners, vault)?;
    for listener in listeners {
        listener.expect_greeting(settings.proxy_protocol);
        if let Some(server_name) = &settings.server_name {
            listener.server_name.clone_from(server_name);
        }
    }
    Ok(())
}

/// Returns the listeners that the parent program had lent to the previous server, with the options of `settings`. If the
/// environment does not say who has lent them, they keep their options: a web server has chosen the protocol, or an earlier
/// version has stored them in systemd, with options of their own. The secret of session tickets comes from the `vault` of the
/// previous server, and so do certificates that the configuration contained as text.
///
/// # Errors
/// A listener or a certificate is unusable; the message says which, and why.
pub(super) fn adopt_again(
    mut listeners: Vec<Listener>,
    settings: &Settings,
    vault: Option<Vault>,
) -> Result<Vec<Listener>, String> {
    let Some(hosts) = hosts_of_lender(environment::variable)? else {
        let offers = listeners.iter_mut().filter_map(|listener| listener.offer.as_mut());
        for (offer, material) in offers.zip(vault.iter().flat_map(|vault| &vault.materials)) {
            material.lend_texts(&mut offer.files);
        }
        oribi_listen::secure(&mut listeners, vault.map(|vault| Vault { materials: Vec::new(), ..vault }))?;
        return Ok(listeners);
    };
    // Sockets for datagrams were left out.
    let hosts = if hosts.len() == listeners.len() { hosts } else { vec![String::new(); listeners.len()] };
    let adopted = listeners.into_iter().zip(hosts).map(|(listener, host)| listener.adopted_again(&host, settings.protocol));
    let mut listeners = adopted.collect::<Result<Vec<_>, _>>()?;
    give_options(&mut listeners, settings, vault.map(|vault| Vault { materials: Vec::new(), ..vault }))?;
    Ok(listeners)
}

/// Returns the hosts of the sockets that start_server or systemd has opened. `None` if neither has.
fn hosts_of_lender(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Vec<String>>, String> {
    let variable = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
    let inherited = if let Some(value) = variable(SERVER_STARTER) {
        parse_server_starter(&value)?
    } else if let Some(value) = variable(LISTEN_FDS) {
        let inherited = parse_systemd(&value, &variable(LISTEN_FDNAMES).unwrap_or_default())?;
        inherited.into_iter().filter(|inherited| !notify::is_name_in_store(&inherited.name)).collect()
    } else {
        Vec::new()
    };
    let hosts: Vec<_> = inherited.into_iter().map(|inherited| inherited.host).collect();
    Ok(Some(hosts).filter(|hosts| !hosts.is_empty()))
}

/// Returns the socket that a FastCGI application gets in place of its standard input (FastCGI 1.0, section 2.2,
/// FCGI_LISTENSOCK_FILENO), if there is one.
fn standard_input() -> Result<Option<Listener>, String> {
    let input = std::io::stdin();
    if !matches!(socket_acceptconn(&input), Ok(true)) {
        return Ok(None);
    }
    let failed = |why: String| format!("cannot listen on descriptor 0: {why}");
    let socket = input.as_fd().try_clone_to_owned().map_err(|error| failed(error.to_string()))?;
    // An app that reads its standard input must not get the listener.
    let nothing = std::fs::File::open("/dev/null").map_err(|error| failed(error.to_string()))?;
    rustix::stdio::dup2_stdin(nothing).map_err(|error| failed(error.to_string()))?;
    let mut listener = Listener::adopted(socket, "", Protocol::FastCgi).map_err(failed)?;
    listener.lent = true;
    Ok(Some(listener))
}

/// A descriptor that the environment names.
#[derive(Debug, PartialEq, Eq)]
struct InheritedDescriptor {
    number: i32,
    /// The address or path at which the socket listens, or its name in a systemd unit.
    name: String,
    /// The host in the address that was configured. Empty if unknown.
    host: String,
}

fn adopt_all(inherited: Vec<InheritedDescriptor>, variable: &str, protocol: Protocol) -> Result<Vec<Listener>, String> {
    let mut listeners = Vec::new();
    for InheritedDescriptor { number, name, host } in inherited {
        let failed = |why: String| {
            format!(
                "cannot listen on {name}, descriptor {number} of {variable}: {why} (unset {variable} if it is not for this server)"
            )
        };
        let socket = oribi_io::process::adopt(number).map_err(|error| failed(error.to_string()))?;
        if is_datagram(&socket) {
            log::warn!("{name} (descriptor {number} of {variable}) is for datagrams and is left alone");
            continue;
        }
        let mut listener = Listener::adopted(socket, &host, protocol).map_err(failed)?;
        listener.lent = true;
        listeners.push(listener);
    }
    Ok(listeners)
}

fn is_datagram(socket: &OwnedFd) -> bool {
    socket_type(socket) == Ok(SocketType::DGRAM)
}

/// Parses a value of SERVER_STARTER_PORT.
fn parse_server_starter(value: &str) -> Result<Vec<InheritedDescriptor>, String> {
    let one = |entry: &str| {
        // A path may contain `=`; the descriptor follows the last one.
        let (name, number) = entry.rsplit_once('=')?;
        let number = number.trim().parse().ok().filter(|number| *number >= 0)?;
        Some(InheritedDescriptor { number, name: name.to_owned(), host: host_of(name).to_owned() })
    };
    let entries = value.split(';').filter(|entry| !entry.trim().is_empty());
    entries.map(|entry| one(entry).ok_or_else(|| format!("{SERVER_STARTER}: cannot understand {entry:?}"))).collect()
}

/// Returns the host in `host:port` or `[v6]:port`; empty for a port or a path.
fn host_of(name: &str) -> &str {
    if name.contains('/') {
        return "";
    }
    let host = name.rsplit_once(':').map_or("", |(host, _)| host);
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// Parses the values of LISTEN_FDS and LISTEN_FDNAMES.
fn parse_systemd(count: &str, names: &str) -> Result<Vec<InheritedDescriptor>, String> {
    // More than a thousand sockets are a mistake, and checking each descriptor takes time.
    let count = count.trim().parse().ok().filter(|count| (0..=1024).contains(count));
    let count: i32 = count.ok_or_else(|| format!("{LISTEN_FDS}: expected a whole number"))?;
    let mut names = names.split(':');
    let mut inherited = |number| {
        let name = names.next().filter(|name| !name.is_empty()).unwrap_or("a socket").to_owned();
        InheritedDescriptor { number, name, host: String::new() }
    };
    Ok((FIRST_OF_SYSTEMD..FIRST_OF_SYSTEMD + count).map(&mut inherited).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inherited(number: i32, name: &str, host: &str) -> InheritedDescriptor {
        InheritedDescriptor { number, name: name.to_owned(), host: host.to_owned() }
    }

    #[test]
    fn server_starter_names_ports_hosts_and_paths() {
        let value = "127.0.0.1:80=4;[::1]:80=5;8080=6;/run/a=b:c.sock=7;www.example.org:80=8;";
        let expected = vec![
            inherited(4, "127.0.0.1:80", "127.0.0.1"),
            inherited(5, "[::1]:80", "::1"),
            inherited(6, "8080", ""),
            inherited(7, "/run/a=b:c.sock", ""),
            inherited(8, "www.example.org:80", "www.example.org"),
        ];
        assert_eq!(parse_server_starter(value), Ok(expected));
        assert_eq!(parse_server_starter(";"), Ok(Vec::new()));
        for value in ["80", "80=", "80=x", "80=-1", "80=4;x"] {
            assert!(parse_server_starter(value).is_err(), "{value:?}");
        }
    }

    #[test]
    fn systemd_counts_from_three_and_may_give_names() {
        let expected = vec![inherited(3, "web", ""), inherited(4, "a socket", ""), inherited(5, "a socket", "")];
        assert_eq!(parse_systemd("3", "web:"), Ok(expected));
        assert_eq!(parse_systemd("0", ""), Ok(Vec::new()));
        for count in ["", "-1", "x", "5000"] {
            assert!(parse_systemd(count, "").is_err(), "{count:?}");
        }
    }

    #[test]
    fn the_lender_of_the_previous_server_is_known_by_the_environment() {
        let lender = |variables: &[(&str, &str)]| {
            let value = |wanted: &str| variables.iter().find(|(name, _)| *name == wanted).map(|(_, value)| (*value).to_owned());
            hosts_of_lender(value).expect("the variables can be understood")
        };
        assert_eq!(lender(&[]), None);
        assert_eq!(lender(&[(SERVER_STARTER, "a.b:80=4;/run/a.sock=5")]), Some(vec!["a.b".to_owned(), String::new()]));
        let names = |names| lender(&[(LISTEN_FDS, "2"), (LISTEN_FDNAMES, names)]);
        assert_eq!(names("oribi-http_//a:oribi-unix_b"), None, "they are stored ones");
        assert_eq!(names("oribi-http_//a:web"), Some(vec![String::new()]));
    }

    #[test]
    fn lent_listeners_have_the_options_of_each_server() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let mut before = Listener::adopted(socket.into(), "a.example", Protocol::Http).expect("it listens");
        before.lend();
        let named = Settings { protocol: Protocol::FastCgi, server_name: Some("b.example".to_owned()), ..Settings::default() };
        let mut listeners = vec![before];
        for (settings, scheme, name) in [(named, "fcgi://", "b.example"), (Settings::default(), "http://", "a.example")] {
            let adopted = listeners.into_iter().map(|known| known.adopted_again("a.example", settings.protocol));
            listeners = adopted.collect::<Result<_, _>>().expect("they listen");
            give_options(&mut listeners, &settings, None).expect("there are no certificates");
            assert!(listeners[0].display.starts_with(scheme) && listeners[0].lent, "{listeners:?}");
            assert_eq!(listeners[0].server_name, name);
        }
    }

    #[test]
    fn a_descriptor_that_is_not_there_is_named() {
        let message =
            adopt_all(vec![inherited(1 << 20, "8080", "")], SERVER_STARTER, Protocol::Http).expect_err("it is not open");
        assert!(message.starts_with("cannot listen on 8080, descriptor 1048576 of SERVER_STARTER_PORT: "), "{message}");
        assert!(message.ends_with("(unset SERVER_STARTER_PORT if it is not for this server)"), "{message}");
    }
}
