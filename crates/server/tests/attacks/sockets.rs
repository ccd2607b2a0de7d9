//! Hosts that take the socket of their client, over every I/O model.

use crate::servers::Real;
use oribi_host::{Reply, Request};
use oribi_message::ResponseHead;
use oribi_server::config::{IoModel, Settings};
use std::fs::File;
use std::io::{Read, Write};
use std::net::Shutdown;

const MODELS: &[IoModel] = if cfg!(feature = "libevent") {
    &[IoModel::Epoll, IoModel::Uring, IoModel::Libevent]
} else {
    &[IoModel::Epoll, IoModel::Uring]
};

const UPGRADE: &str = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: chat\r\n\r\n";

fn settings(io: IoModel) -> Settings {
    Settings { io, ..Settings::default() }
}

/// Takes the socket, says so, and sends back what it reads until the client ends.
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
    for &io in MODELS {
        let server = Real::new(&settings(io), chat);
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
            assert_eq!(rest, format!("{early}{late}"), "{io:?}");
        }
        server.stop();
    }
}

#[test]
fn the_socket_is_the_apps_alone_while_the_server_goes_on_and_stops() {
    for &io in MODELS {
        let server = Real::new(&settings(io), chat);
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
            assert!(answer.ends_with("hello"), "{io:?}: {answer}");
            chatting.write_all(b"abc").expect("the app is there");
            chatting.read_exact(&mut echoed).expect("the app is there");
            assert_eq!(&echoed, b"abc", "{io:?}");
        }
        server.stop();
        chatting.write_all(b"xyz").expect("the app is there");
        chatting.read_exact(&mut echoed).expect("the app is there");
        assert_eq!(&echoed, b"xyz", "{io:?}");
    }
}
