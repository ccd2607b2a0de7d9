//! The listeners of a server whose addresses differ from those of the server before it.

use super::listener::{Listener, displays};
use super::secure;
use oribi_config::{Settings, SocketAddress};

/// The listeners of the server before, divided by the addresses of this one.
#[derive(Debug)]
pub struct Followed {
    /// The listeners of this server: those of the server before, in their order, and then new ones.
    pub listeners: Vec<Listener>,
    /// The listeners at addresses that this server does not have.
    pub dropped: Vec<Listener>,
}

/// Keeps the listeners at addresses of `settings`, and opens those that are missing.
///
/// # Errors
/// An address has no listener so far, and cannot be opened.
pub fn follow(settings: &Settings, before: Vec<Listener>) -> Result<Followed, String> {
    let unknown = |address: &SocketAddress| matches!(address, SocketAddress::Tcp { port: 0, .. });
    if settings.sockets_of_address() > 1 || settings.listen.iter().any(|address| unknown(&address.socket)) {
        // The port that the kernel has chosen is not known here.
        return Ok(Followed { listeners: before, dropped: Vec::new() });
    }
    let wanted = settings.listen.iter().map(|address| displays(settings, address)).collect::<Result<Vec<_>, String>>()?;
    let is_there = |displays: &Vec<String>| before.iter().any(|listener| displays.contains(&listener.display));
    let missing = settings.listen.iter().zip(&wanted).filter(|(_, displays)| !is_there(displays));
    let listen: Vec<_> = missing.map(|(address, _)| address.clone()).collect();
    let opened = if listen.is_empty() { Vec::new() } else { secure::open(&Settings { listen, ..settings.clone() })? };
    let (mut listeners, dropped): (Vec<_>, Vec<_>) =
        before.into_iter().partition(|listener| wanted.iter().any(|displays| displays.contains(&listener.display)));
    listeners.extend(opened);
    Ok(Followed { listeners, dropped })
}

#[cfg(test)]
mod tests {
    use super::*;
    use oribi_config::ListenAddress;

    fn settings(addresses: &[&str]) -> Settings {
        let listen = addresses.iter().map(|address| ListenAddress::parse(address).expect("an address")).collect();
        Settings { listen, ..Settings::default() }
    }

    fn displays_of(listeners: &[Listener]) -> Vec<&str> {
        listeners.iter().map(|listener| listener.display.as_str()).collect()
    }

    #[test]
    fn addresses_that_differ_are_opened_and_dropped() {
        let folder = tempfile::tempdir().expect("a directory is to be had");
        let unix = |name: &str| format!("unix:{}", folder.path().join(name).display());
        let (stays, goes, comes) = (unix("stays"), unix("goes"), unix("comes"));
        let tcp = crate::open(&settings(&["127.0.0.1:0"])).expect("a port is free");
        let port = tcp[0].display.trim_start_matches("http://").to_owned();
        let mut before = crate::open(&settings(&[&stays, &goes])).expect("the folder is ours");
        before.extend(tcp);
        let Followed { listeners, dropped } = follow(&settings(&[&comes, &port, &stays]), before).expect("all can be opened");
        assert_eq!(displays_of(&listeners), [&stays, &format!("http://{port}"), &comes]);
        assert_eq!(displays_of(&dropped), [&goes]);
    }

    #[test]
    fn an_address_that_cannot_be_opened_is_an_error() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = taken.local_addr().expect("it is bound").to_string();
        let error = follow(&settings(&[&address]), Vec::new()).expect_err("it is in use");
        assert!(error.contains(&format!("cannot listen on {address}")), "{error}");
    }

    #[test]
    fn a_port_that_the_kernel_chooses_stays() {
        let before = crate::open(&settings(&["127.0.0.1:0"])).expect("a port is free");
        let Followed { listeners, dropped } = follow(&settings(&["127.0.0.1:0"]), before).expect("nothing is opened");
        assert_eq!((listeners.len(), dropped.len()), (1, 0));
    }
}
