//! Connections of another server, over real sockets.

use super::*;
use crate::Exchange;
use oribi_config::{ListenAddress, ProxyProtocol, Settings};
use oribi_io::Epoll;
use oribi_listen::{Listener, open};
use oribi_source::Next;
use oribi_test_support::waits_for;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

const HEADER: &[u8] = b"PROXY TCP4 192.0.2.7 192.0.2.8 4711 80\r\n";
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// An engine at an address with this rule for PROXY headers, and its listeners.
fn engine(proxy_protocol: &str) -> (Engine<'static, Epoll>, &'static [Listener]) {
    let settings = Settings {
        listen: vec![ListenAddress::tcp("127.0.0.1", 0)],
        proxy_protocol: ProxyProtocol::parse(proxy_protocol).expect("a rule"),
        ..Settings::default()
    };
    let settings: &'static Settings = Box::leak(Box::new(settings));
    let listeners: &'static [Listener] = Vec::leak(open(settings).expect("a port is free"));
    let pipe = Box::leak(Box::new(io::pipe().expect("a pipe")));
    let engine = Engine::new(Epoll::new().expect("epoll works"), settings, listeners, pipe.0.as_fd(), None);
    (engine.expect("nothing refuses"), listeners)
}

/// Hands the engine a connection whose PROXY header has not arrived whole. Returns the client's end.
fn hand_over(engine: &mut Engine<'_, Epoll>, listener: &str, unread: &[u8]) -> UnixStream {
    let (client, here) = UnixStream::pair().expect("sockets");
    let record = Record {
        protocol: Protocol::Http,
        listener: listener.to_owned(),
        greeted: false,
        requests: 0,
        left: 60_000,
        address: b"192.0.2.1".to_vec(),
        port: b"1".to_vec(),
        unread: unread.to_vec(),
    };
    here.set_nonblocking(true).expect("a socket");
    assert!(engine.take_over(record, here.into()));
    client
}

fn next_exchange(engine: &mut Engine<'_, Epoll>) -> Exchange {
    let _deadline = waits_for("a request");
    loop {
        if let Next::Exchange(exchange) = engine.next_exchange_now().expect("epoll works") {
            return exchange;
        }
    }
}

#[test]
fn a_connection_brings_its_proxy_header_to_a_server_that_wants_none() {
    for rule in ["off", "v2", "on"] {
        let (mut engine, listeners) = engine(rule);
        // A listener of version 2 refuses that header, as it does for new connections.
        let elsewhere = "http://192.0.2.99:80".to_owned();
        let places = if rule == "v2" { Vec::new() } else { vec![listeners[0].display.clone(), elsewhere] };
        for (place, size) in places.iter().flat_map(|place| [0, 9, HEADER.len()].map(|size| (place, size))) {
            let mut client = hand_over(&mut engine, place, &HEADER[..size]);
            client.write_all(&[&HEADER[size..], REQUEST].concat()).expect("there is room");
            let exchange = next_exchange(&mut engine);
            assert_eq!(exchange.request(listeners).remote_address(), b"192.0.2.7", "{rule} {place} {size}");
            engine.give_back(exchange);
        }
        let mut client = hand_over(&mut engine, &listeners[0].display, b"");
        client.write_all(REQUEST).expect("there is room");
        client.set_nonblocking(true).expect("a socket");
        let _deadline = waits_for("the end of a connection without a header");
        while client.read(&mut [0]).is_err() {
            assert!(matches!(engine.next_exchange_now(), Ok(Next::Nothing(_))), "it is no request");
        }
    }
}
