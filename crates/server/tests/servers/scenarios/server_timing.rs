//! Responses of each protocol report the times of their requests, if configured.

use super::frames::*;
use super::harness::*;
use super::proxies::settings;
use super::records;
use super::response::*;
use oribi_host::{Reply, Request};
use oribi_server::config::{Protocol, Settings};

/// No time passes in this world.
const SAID: &str = "queue;dur=0.000, app;dur=0.000";

fn answer(_request: &Request<'_>, reply: Reply<'_>) {
    reply.send(ok(), &[b"content"]).expect("the client is there");
}

#[test]
fn over_http_1() {
    let mut server = Server::new(settings(&["server-timing=on"]), answer);
    let client = server.connect();
    let response = read_only(&server.exchange(&client, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert_eq!((response.text(), response.field("Server-Timing")), ("content", Some(SAID)));
    // A refused request is not measured.
    let client = server.connect();
    let response = read_only(&server.exchange(&client, b"GET / HTTP/1.1\r\nHost : a\r\n\r\n"));
    assert_eq!((response.status, response.field("Server-Timing")), (400, None));
}

#[test]
fn over_http_2() {
    let mut server = Server::new(settings(&["server-timing=on"]), answer);
    let (client, mut frames) = (server.connect(), Frames::default());
    client.send(&[opening(&[]), frame(HEADERS, END_HEADERS | END_STREAM, 1, &head("GET", "/", &[]))].concat());
    server.run();
    frames.read(&client);
    let head = frames.all.iter().find(|frame| frame.id == 1 && frame.kind == HEADERS).expect("a response");
    let field = [&[13][..], b"server-timing", &[SAID.len() as u8], SAID.as_bytes()].concat();
    assert_eq!(head.content.windows(field.len()).filter(|window| *window == field).count(), 1, "{:?}", head.content);
}

#[test]
fn over_fastcgi() {
    let settings = Settings { protocol: Protocol::FastCgi, ..settings(&["server-timing=on"]) };
    let mut server = Server::new(settings, answer);
    let (client, mut reader) = (server.connect(), records::Reader::default());
    client.send(&records::request_with(1, &[("REQUEST_METHOD", "GET"), ("REQUEST_URI", "/x")], b""));
    server.run();
    let answer = reader.read(&client).take(1);
    let parts = answer.parts();
    let said: Vec<&String> = parts.0.iter().filter(|line| line.starts_with("Server-Timing: ")).collect();
    assert_eq!(said, [&format!("Server-Timing: {SAID}")]);
}
