//! Connections and the limits of open files: the server raises the soft limit, reports the hard one, and works within it.

use crate::server::Server;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

const CONNECTIONS: usize = 300;

/// Starts `oribi --native` with one worker, in a shell that has set a limit before (`limit`).
fn limited(limit: &str, arguments: &[&str]) -> Server {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit {limit} && exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_oribi")]);
    Server::run(command.args(["--native", "hello", "--listen", "127.0.0.1:0", "--workers", "1"]).args(arguments))
}

/// Whether a connection gets an answer to another request.
fn is_answered(client: &mut TcpStream) -> bool {
    let mut answer = [0; 512];
    client.write_all(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n").is_ok()
        && client.read(&mut answer).is_ok_and(|count| answer[..count].starts_with(b"HTTP/1.1 200 OK"))
}

/// Opens connections and sends a request on each. Returns the number of connections on which a second request is answered when
/// all are open.
fn kept(address: SocketAddr) -> usize {
    let mut clients: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|number| {
            let mut client = TcpStream::connect(address).expect("somebody listens");
            assert!(is_answered(&mut client), "connection {number}");
            client
        })
        .collect();
    // The newest first: the oldest ones make room.
    clients.iter_mut().rev().filter_map(|client| is_answered(client).then_some(())).count()
}

#[test]
fn the_soft_limit_of_open_files_is_raised() {
    let mut server = limited("-Sn 100", &["--max-connections", "400"]);
    assert_eq!(kept(server.address()), CONNECTIONS, "{}", server.log());
    assert!(!server.log().contains("open files"), "{}", server.log());
}

#[test]
fn a_hard_limit_of_open_files_below_the_connections_is_told_and_lived_with() {
    let mut server = limited("-n 200", &["--max-connections", "1000"]);
    server.wait_for_log("a worker may have 1000 connections (--max-connections), but the hard limit of open files is 200");
    let worker = server.wait_for_workers(1);
    let kept = kept(server.address());
    // An edge has half of its free descriptors for files.
    let least = if std::env::var_os("ORIBI_EDGE").is_some() { 40 } else { 100 };
    assert!((least..200).contains(&kept), "{kept} connections were kept: {}", server.log());
    assert_eq!(server.workers(), worker, "{}", server.log());
}
