//! Hijacked and broken sockets, with every I/O model.

use super::servers::Real;
use oribi_host::{Reply, Request};
use oribi_io::Model;
use oribi_message::ResponseHead;
use oribi_server::config::{IoModel, Settings};
use rustix::net::sockopt::set_socket_linger;
use std::fs::File;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

const UPGRADE: &str = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: chat\r\n\r\n";

fn settings(model: Model) -> Settings {
    Settings { io: IoModel::Chosen(model), ..Settings::default() }
}

/// For /chat: hijacks the socket, sends a 101 on it, and echoes the input until the client ends its side.
fn chat(request: &Request<'_>, reply: Reply<'_>) {
    if request.head.target() != b"/chat" {
        let _ = reply.send(ResponseHead { status: 200, fields: &[] }, &[b"hello"]);
        return;
    }
    let (outlet, exchange) = reply.detach();
    let mut socket = File::from(outlet.take_socket(exchange).expect("the socket can be taken"));
    std::thread::spawn(move || {
        socket.write_all(b"HTTP/1.1 101 Switching Protocols\r\n\r\n").expect("the client is there");
        let mut buffer = [0; 1000];
        loop {
            match socket.read(&mut buffer).expect("the client is there") {
                0 => return,
                count => socket.write_all(&buffer[..count]).expect("the client is there"),
            }
        }
    });
    outlet.abandon(exchange);
}

#[test]
fn an_app_that_takes_the_socket_gets_what_came_behind_the_request_first() {
    for model in Model::built_in() {
        let server = Real::new(&settings(model), chat);
        for (early, late) in [("", "late"), ("early", ""), ("early", ", late")] {
            let mut client = server.connect();
            client.write_all(format!("{UPGRADE}{early}").as_bytes()).expect("the server is there");
            let mut head = [0; 36];
            client.read_exact(&mut head).expect("the app is there");
            assert!(head.starts_with(b"HTTP/1.1 101"));
            client.write_all(late.as_bytes()).expect("the app is there");
            client.shutdown(Shutdown::Write).expect("it is ours");
            let mut rest = String::new();
            client.read_to_string(&mut rest).expect("an orderly end");
            assert_eq!(rest, format!("{early}{late}"), "{model:?}");
        }
        server.stop();
    }
}

#[test]
fn the_socket_is_the_apps_alone_while_the_server_goes_on_and_stops() {
    for model in Model::built_in() {
        let server = Real::new(&settings(model), chat);
        let mut chatting = server.connect();
        chatting.write_all(UPGRADE.as_bytes()).expect("the server is there");
        let mut head = [0; 36];
        chatting.read_exact(&mut head).expect("the app is there");
        let mut echoed = [0; 3];
        for _ in 0..3 {
            let mut other = server.connect();
            other.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("the server is there");
            let mut answer = String::new();
            other.read_to_string(&mut answer).expect("an orderly end");
            assert!(answer.ends_with("hello"), "{model:?}: {answer}");
            chatting.write_all(b"abc").expect("the app is there");
            chatting.read_exact(&mut echoed).expect("the app is there");
            assert_eq!(&echoed, b"abc", "{model:?}");
        }
        server.stop();
        chatting.write_all(b"xyz").expect("the app is there");
        chatting.read_exact(&mut echoed).expect("the app is there");
        assert_eq!(&echoed, b"xyz", "{model:?}");
    }
}

static HOLDS: AtomicBool = AtomicBool::new(false);
static IS_HELD: AtomicBool = AtomicBool::new(false);

/// Keeps the lane busy as long as [`HOLDS`] is set.
fn hold(_: &Request<'_>, reply: Reply<'_>) {
    IS_HELD.store(true, SeqCst);
    while HOLDS.load(SeqCst) {
        std::thread::yield_now();
    }
    IS_HELD.store(false, SeqCst);
    let _ = reply.send(ResponseHead { status: 200, fields: &[] }, &[b"held"]);
}

fn wait_until(what: &str, reached: impl Fn() -> bool) {
    let begun = Instant::now();
    while !reached() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_break_that_comes_together_with_bytes_of_a_request_is_noticed() {
    const BEGUN: [(&str, &str); 4] = [
        ("GET / HT", "TP/1.1"),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n", "content"),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\n", "content"),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", "5\r\nabc"),
    ];
    for model in Model::built_in() {
        let server = Real::new(&settings(model), hold);
        for (begun, more) in BEGUN {
            let mut client = server.connect();
            client.write_all(begun.as_bytes()).expect("the server is there");
            wait_until("nobody takes the connection", || server.connections() == 1);
            HOLDS.store(true, SeqCst);
            let mut other = server.connect();
            other.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("the server is there");
            wait_until("the app is not called", || IS_HELD.load(SeqCst));
            client.write_all(more.as_bytes()).expect("the server is there");
            set_socket_linger(&client, Some(Duration::ZERO)).expect("it is ours");
            drop(client);
            HOLDS.store(false, SeqCst);
            other.read_to_string(&mut String::new()).expect("an orderly end");
            drop(other);
            wait_until(&format!("{model:?} still has the client of {begun:?}"), || server.connections() == 0);
        }
        server.stop();
    }
}
