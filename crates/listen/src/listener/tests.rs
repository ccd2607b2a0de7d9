//! Tests opening listeners, and the messages of failures.

use super::*;
use oribi_config::ListenAddress;
use oribi_test_support::{Deadline, waits_for};

fn open(settings: &Settings) -> Result<Vec<Listener>, String> {
    open_or_take(settings, &mut Kept::default())
}

#[track_caller]
fn patience() -> Deadline {
    waits_for("connections of its own")
}

fn settings(listen: &[(&str, u16)]) -> Settings {
    let listen = listen.iter().map(|(host, port)| ListenAddress::tcp(host, *port));
    Settings { listen: listen.collect(), ..Settings::default() }
}

fn ports(listeners: &[Listener]) -> Vec<&str> {
    listeners.iter().map(|listener| listener.server_port.as_str()).collect()
}

#[test]
fn the_kernel_chooses_a_port_and_the_listener_tells_it() {
    let _deadline = patience();
    let listeners = open(&settings(&[("127.0.0.1", 0)])).expect("loopback is there");
    let [listener] = listeners.as_slice() else { panic!("one address, one listener") };
    assert_eq!(listener.server_name, "127.0.0.1");
    assert_ne!(listener.server_port, "0");
    assert_eq!(listener.display, format!("http://127.0.0.1:{}", listener.server_port));
    assert!(!listener.has_waiting());
    let _client = std::net::TcpStream::connect(("127.0.0.1", listener.server_port.parse().expect("a port")));
    assert!(listener.has_waiting());
}

#[test]
fn connections_send_at_once_even_those_that_come_before_there_is_a_worker() {
    let _deadline = patience();
    let opened = open(&settings(&[("127.0.0.1", 0)])).expect("loopback is there").remove(0);
    let lent = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    for listener in [opened, Listener::adopted(lent.into(), "", Protocol::Http).expect("it listens")] {
        let address = SocketAddr::try_from(rustix::net::getsockname(listener.as_fd()).expect("it is bound"));
        let _client = std::net::TcpStream::connect(address.expect("it is a TCP socket")).expect("it listens");
        let accepted = rustix::net::accept(listener.as_fd()).expect("a client waits");
        assert_eq!(sockopt::tcp_nodelay(&accepted), Ok(true), "{}", listener.display);
    }
}

#[test]
fn an_empty_host_means_all_interfaces_on_one_port_under_the_name_of_the_machine() {
    for host in ["", "*", "::"] {
        let listeners = open(&settings(&[(host, 0)])).expect("there is an interface");
        assert!(listeners.iter().any(|listener| listener.display.starts_with("http://0.0.0.0:")), "{listeners:?}");
        let ports = ports(&listeners);
        assert!(ports.iter().all(|port| *port == ports[0]), "{ports:?}");
        for listener in &listeners {
            assert_eq!(listener.server_name, server_name("", Ipv4Addr::UNSPECIFIED.into()));
            assert!(!listener.server_name.is_empty());
        }
    }
}

#[test]
fn the_name_that_was_set_wins() {
    let _deadline = patience();
    let settings = Settings { server_name: Some("www.example.org".to_owned()), ..settings(&[("localhost", 0)]) };
    for listener in open(&settings).expect("loopback is there") {
        assert_eq!(listener.server_name, "www.example.org");
    }
}

#[test]
fn a_name_that_is_an_address_of_ipv6_has_brackets() {
    for (host, expected) in [("::1", "[::1]"), ("localhost", "localhost")] {
        assert_eq!(server_name(host, Ipv6Addr::LOCALHOST.into()), expected);
    }
}

#[test]
fn an_address_meant_twice_is_opened_once() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let port = free.local_addr().expect("it is bound").port();
    drop(free);
    let listeners = open(&settings(&[("127.0.0.1", port), ("127.0.0.1", port)])).expect("the port is free");
    assert_eq!(ports(&listeners), [port.to_string()]);
}

#[test]
fn each_lane_may_have_a_socket_that_no_other_server_shares() {
    let _deadline = patience();
    use oribi_config::AcceptModel;
    let settings = Settings { accept: AcceptModel::Own, workers: 2.into(), threads: 3, ..settings(&[("127.0.0.1", 0)]) };
    let listeners = open(&settings).expect("loopback is there");
    assert_eq!(listeners[0].sockets().count(), 6);
    let port: u16 = listeners[0].server_port.parse().expect("a port");
    let clients: Vec<_> = (0..200).map(|_| std::net::TcpStream::connect(("127.0.0.1", port)).expect("it listens")).collect();
    assert!(listeners[0].has_waiting());
    let taken = |socket| std::iter::from_fn(move || rustix::net::accept(socket).ok()).count();
    let taken: Vec<usize> = listeners[0].sockets().map(taken).collect();
    assert!(taken.iter().all(|taken| *taken > 0), "{taken:?}");
    assert_eq!(taken.iter().sum::<usize>(), clients.len());
    let again = Settings { listen: vec![ListenAddress::tcp("127.0.0.1", port)], ..settings };
    let refused = open(&again).expect_err("the address is taken");
    assert!(refused.contains("address already in use"), "{refused}");
}

#[test]
fn a_refusal_says_what_might_help() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let port = taken.local_addr().expect("it is bound").port();
    let message = open(&settings(&[("127.0.0.1", port)])).expect_err("the port is taken");
    let expected = "address already in use; is another server running? choose another address or port";
    assert_eq!(message, format!("cannot listen on 127.0.0.1:{port}: {expected}"));

    // An address for documentation (RFC 5737), which no interface has.
    let message = open(&settings(&[("192.0.2.1", 5000)])).expect_err("it is not ours");
    assert!(message.starts_with("cannot listen on 192.0.2.1:5000: "), "{message}");
    assert!(message.ends_with("; no interface of this machine has it"), "{message}");

    let message = open(&settings(&[("no such host", 5000)])).expect_err("it has no address");
    assert!(message.starts_with("cannot listen on no such host: "), "{message}");
    assert_eq!(open(&settings(&[])).expect_err("nothing to do"), "there is no address to listen on");
}

#[test]
fn what_was_opened_before_a_refusal_leaves_nothing_behind() {
    let path = std::env::temp_dir().join(format!("oribi-listener-{}.sock", std::process::id()));
    let listen = vec![ListenAddress::unix(path.clone(), None), ListenAddress::tcp("192.0.2.1", 5000)];
    open(&Settings { listen, ..Settings::default() }).expect_err("the second one cannot be opened");
    assert!(!path.exists());
}

#[test]
fn a_path_that_is_too_long_is_called_so() {
    let path = PathBuf::from(format!("/tmp/{}", "x".repeat(200)));
    let settings = Settings { listen: vec![ListenAddress::unix(path, None)], ..Settings::default() };
    let message = open(&settings).expect_err("no socket has such a name");
    assert!(message.ends_with("the path of a socket must be shorter than 108 bytes"), "{message}");
}
