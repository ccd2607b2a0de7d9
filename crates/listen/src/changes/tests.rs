//! Tests a server that follows another one with other addresses and options.

use super::*;
use oribi_config::{ListenAddress, Protocol, ProxyProtocol};
use oribi_test_support::{Deadline, waits_for};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

#[track_caller]
fn patience() -> Deadline {
    waits_for("connections of its own")
}

fn settings(addresses: &[&str]) -> Settings {
    let listen = addresses.iter().map(|address| ListenAddress::parse(address).expect("an address")).collect();
    Settings { listen, ..Settings::default() }
}

fn displays_of(listeners: &[Listener]) -> Vec<&str> {
    listeners.iter().map(|listener| listener.display.as_str()).collect()
}

/// Returns a listener at a port of loopback, as a server inherits it, and its address.
fn tcp() -> (Vec<Listener>, String) {
    let mut opened = crate::open(&settings(&["127.0.0.1:0"])).expect("a port is free");
    opened.iter_mut().for_each(Listener::lend);
    let address = opened[0].address().to_owned();
    (opened, address)
}

/// Makes a certificate and its key in one file.
fn certificate(folder: &TempDir, name: &str) -> PathBuf {
    let file = |ending: &str| folder.path().join(format!("{name}.{ending}"));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-nodes", "-days", "30", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]);
    openssl.args(["-subj", "/CN=test", "-addext"]).arg(format!("subjectAltName=DNS:{name}"));
    openssl.arg("-keyout").arg(file("key")).arg("-out").arg(file("crt"));
    let made = openssl.output().expect("openssl is installed");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let both = [file("crt"), file("key")].map(|part| std::fs::read(part).expect("it was just made")).concat();
    std::fs::write(file("pem"), both).expect("the folder is ours");
    file("pem")
}

#[test]
fn addresses_that_differ_are_opened_and_dropped() {
    let folder = tempfile::tempdir().expect("a directory is to be had");
    let unix = |name: &str| format!("unix:{}", folder.path().join(name).display());
    let (stays, goes, comes) = (unix("stays"), unix("goes"), unix("comes"));
    let mut before = crate::open(&settings(&[&stays, &goes])).expect("the folder is ours");
    let (tcp, port) = tcp();
    before.extend(tcp);
    let Followed { listeners, dropped, .. } =
        follow(&settings(&[&comes, &port, &stays]), before, None).expect("all can be opened");
    assert_eq!(displays_of(&listeners), [&comes, &format!("http://{port}"), &stays]);
    assert_eq!(listeners.iter().map(|listener| listener.lent).collect::<Vec<_>>(), [false, true, true]);
    assert_eq!(displays_of(&dropped), [&goes]);
}

#[test]
fn a_socket_stays_when_another_protocol_is_spoken_there() {
    let _deadline = patience();
    let folder = tempfile::tempdir().expect("a directory is to be had");
    let (file, other) = (certificate(&folder, "one.example"), certificate(&folder, "two.example"));
    let (mut listeners, port) = tcp();
    let waiting = TcpStream::connect(&port).expect("it listens");
    let secret = || Some(Secret::new().expect("there is randomness"));
    let encrypted = |file: &PathBuf| format!("https://{port}?cert={}", file.display());
    for (address, display, names) in [
        (encrypted(&file), format!("https://{port}"), vec!["one.example"]),
        (encrypted(&other), format!("https://{port}"), vec!["two.example"]),
        (format!("fcgi://{port}"), format!("fcgi://{port}"), vec![]),
        (format!("http://{port}"), format!("http://{port}"), vec![]),
    ] {
        let followed = follow(&settings(&[&address]), listeners, secret()).expect("the socket is there");
        assert!(followed.dropped.is_empty());
        listeners = followed.listeners;
        assert_eq!(displays_of(&listeners), [&display]);
        let expiries = crate::expiries(&listeners);
        assert_eq!(expiries.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), names, "{address}");
        assert_eq!(listeners[0].protocol == Protocol::FastCgi, display.starts_with("fcgi"));
        assert!(listeners[0].has_waiting(), "{address}: the queue is that of before");
    }
    drop(waiting);
}

#[test]
fn options_are_those_of_the_new_settings() {
    let (before, port) = tcp();
    let after =
        Settings { server_name: Some("www.example.org".to_owned()), ..settings(&[&format!("{port}?proxy_protocol=v2")]) };
    let Followed { listeners, .. } = follow(&after, before, None).expect("the socket is there");
    assert_ne!(listeners[0].proxy_protocol, ProxyProtocol::Off);
    assert_eq!(listeners[0].server_name, "www.example.org");
    let Followed { listeners, .. } = follow(&settings(&[&port]), listeners, None).expect("the socket is there");
    assert_eq!((listeners[0].proxy_protocol, listeners[0].server_name.as_str()), (ProxyProtocol::Off, "127.0.0.1"));
}

#[test]
fn all_sockets_of_an_address_stay() {
    use oribi_config::AcceptModel;
    let own = |addresses: &[&str]| Settings { accept: AcceptModel::Own, workers: 3.into(), ..settings(addresses) };
    let before = crate::open(&own(&["127.0.0.1:0"])).expect("a port is free");
    let port = before[0].address().to_owned();
    let Followed { listeners, .. } = follow(&own(&[&port]), before, None).expect("the sockets are there");
    assert_eq!(listeners[0].sockets().count(), 3);
}

#[test]
fn an_address_that_cannot_be_opened_is_an_error() {
    let folder = tempfile::tempdir().expect("a directory is to be had");
    let unix = folder.path().join("new");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = taken.local_addr().expect("it is bound").to_string();
    let error =
        follow(&settings(&[&format!("unix:{}", unix.display()), &address]), Vec::new(), None).expect_err("it is in use");
    assert!(error.contains(&format!("cannot listen on {address}")), "{error}");
    let (before, port) = tcp();
    let addresses = [format!("unix:{}", unix.display()), format!("https://{port}?cert={}", folder.path().join("no").display())];
    let error = follow(&settings(&addresses.each_ref().map(String::as_str)), before, None).expect_err("there is no such file");
    assert!(error.contains("cannot read the certificate"), "{error}");
    assert!(!unix.exists(), "nothing is left of it");
}

#[test]
fn a_port_that_the_kernel_has_chosen_stays() {
    let (mut before, port) = tcp();
    let (other, known) = tcp();
    before.extend(other);
    let after = settings(&["127.0.0.1:0?proxy_protocol=on", &port]);
    let Followed { listeners, dropped, .. } = follow(&after, before, None).expect("the sockets are there");
    assert_eq!(displays_of(&listeners), [format!("http://{known}"), format!("http://{port}")]);
    assert_ne!(listeners[0].proxy_protocol, ProxyProtocol::Off);
    assert!(dropped.is_empty());
    let Followed { listeners, dropped, .. } = follow(&settings(&[&port]), listeners, None).expect("the socket is there");
    assert_eq!(displays_of(&listeners), [format!("http://{port}")]);
    assert_eq!(displays_of(&dropped), [format!("http://{known}")]);
}

#[test]
fn a_unix_socket_is_found_by_its_file() {
    let folder = tempfile::tempdir().expect("a directory is to be had");
    let (real, link) = (folder.path().join("real"), folder.path().join("link"));
    std::fs::create_dir(&real).expect("the folder is ours");
    std::os::unix::fs::symlink(&real, &link).expect("the folder is ours");
    let unix = |folder: &PathBuf| format!("unix:{}", folder.join("socket").display());
    let before = crate::open(&settings(&[&unix(&real)])).expect("the folder is ours");
    let Followed { listeners, dropped, .. } = follow(&settings(&[&unix(&link)]), before, None).expect("the socket is there");
    assert!(listeners[0].lent && dropped.is_empty());
    std::fs::remove_file(real.join("socket")).expect("it is there");
    let Followed { listeners, dropped, .. } = follow(&settings(&[&unix(&real)]), listeners, None).expect("nobody is there");
    assert!(!listeners[0].lent && dropped.is_empty(), "clients find the new one only");
    assert!(real.join("socket").exists());
}

#[test]
fn the_service_manager_forgets_what_has_another_name_or_is_gone() {
    let mut before = Vec::new();
    let [one, two, three] = [tcp(), tcp(), tcp()].map(|(opened, address)| {
        before.extend(opened);
        address
    });
    before.iter_mut().for_each(|listener| listener.stored = true);
    let after = settings(&[&one, &format!("fcgi://{two}")]);
    let Followed { listeners, forgotten, .. } = follow(&after, before, None).expect("the sockets are there");
    assert_eq!(listeners.iter().map(|listener| listener.stored).collect::<Vec<_>>(), [true, false]);
    assert_eq!(forgotten, [format!("http://{two}"), format!("http://{three}")]);
}
