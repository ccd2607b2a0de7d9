//! The ways in which connections reach lanes, none of which loses a connection.

use crate::client::{Load, Manner, Target};
use crate::server::{Folder, Server, runs, send, wait_until};
use crate::{native, native_on, tcp};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";

/// The number of clients after which each of a few lanes has surely got some, even if chance decides.
const MANY: usize = 60;

/// The models of accepting (`--accept`), each with an I/O model (`--io`).
const MODELS: [(&str, &str); 4] = [("shared", "epoll"), ("shared", "io_uring"), ("own", "epoll"), ("own", "io_uring")];

/// The number of sockets that listen at `address`.
fn listening_at(address: SocketAddr) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").expect("it is always there");
    // The second field is the local address in hexadecimal digits, the fourth the state: 0A is LISTEN (proc(5)).
    let port = format!(":{:04X}", address.port());
    let listens = |line: &&str| {
        let mut fields = line.split_whitespace().skip(1);
        fields.next().is_some_and(|local| local.ends_with(&port)) && fields.nth(1) == Some("0A")
    };
    table.lines().filter(listens).count()
}

/// Clients that have sent a request each.
fn ask(address: SocketAddr, count: usize) -> Vec<TcpStream> {
    let ask = |_| {
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(std::time::Duration::from_secs(30))).expect("it is ours");
        stream.write_all(REQUEST).expect("it is connected");
        stream
    };
    (0..count).map(ask).collect()
}

/// The number of `clients` that get an answer.
fn answered(clients: Vec<TcpStream>) -> usize {
    let is_answered = |mut stream: TcpStream| {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).is_ok_and(|_| answer.ends_with("hello"))
    };
    clients.into_iter().filter_map(|stream| is_answered(stream).then_some(())).count()
}

#[test]
fn each_lane_has_a_socket_of_its_own_where_that_is_asked_for() {
    for (model, sockets) in [("shared", 1), ("own", 4)] {
        let mut server = native(&["--accept", model, "--workers", "2", "--threads", "2", "--edge", "off"]);
        let address = server.address();
        server.wait_for_workers(2);
        assert_eq!(listening_at(address), sockets, "{model}");
        assert_eq!(answered(ask(address, MANY)), MANY);
        assert_eq!(server.log().contains("has a socket for each of 4 lanes"), sockets > 1, "{}", server.log());
        server.signal(Signal::TERM);
        assert_eq!(server.wait(), 0, "{}", server.log());
        TcpListener::bind(address).expect("nobody listens any more");
    }
}

#[test]
fn nothing_is_lost_while_workers_come_and_go() {
    for (model, io) in MODELS {
        for (threads, manner) in [("1", Manner::ConnectionPerRequest), ("2", Manner::KeepAlive)] {
            let arguments = ["--accept", model, "--io", io, "--workers", "2", "--threads", threads, "--max-requests", "500"];
            let mut server = native(&arguments);
            let load = Load::start(&tcp(&mut server), 8, manner);
            load.wait_for_more(2000);
            server.signal(Signal::HUP);
            server.wait_for_log("all workers have been replaced");
            load.wait_for_more(1000);
            server.signal(Signal::TERM);
            assert_eq!(load.wait(), [""; 0], "{model}, {io}: {}", server.log());
            assert_eq!(server.wait(), 0, "{model}, {io}: {}", server.log());
        }
    }
}

#[test]
fn who_waits_for_a_worker_that_dies_is_answered_by_another() {
    for (model, io) in MODELS {
        let mut server = native(&["--accept", model, "--io", io, "--workers", "2", "--err-respawn-interval", "10ms"]);
        let address = server.address();
        let [stuck, other] = server.wait_for_workers(2)[..] else { panic!("two workers") };
        assert_eq!(answered(ask(address, MANY)), MANY);
        send(stuck, Signal::STOP);
        let clients = ask(address, MANY);
        send(stuck, Signal::KILL);
        // Connections that the worker has accepted end with it; those that wait for it do not.
        let answered = answered(clients);
        assert!(answered >= MANY - 1, "{model}, {io}: {answered} of {MANY}");
        wait_until("a new worker", || server.workers().len() == 2 && !runs(stuck));
        assert!(runs(other));
    }
}

#[test]
fn who_has_come_before_the_stop_is_answered_even_if_all_workers_are_behind() {
    for (model, io) in MODELS {
        let mut server = native(&["--accept", model, "--io", io, "--workers", "2", "--threads", "2"]);
        let address = server.address();
        let workers = server.wait_for_workers(2);
        workers.iter().for_each(|worker| send(*worker, Signal::STOP));
        let clients = ask(address, MANY);
        server.signal(Signal::TERM);
        server.wait_for_log("stopping");
        workers.iter().for_each(|worker| send(*worker, Signal::CONT));
        assert_eq!(answered(clients), MANY, "{model}, {io}: {}", server.log());
        assert_eq!(server.wait(), 0, "{model}, {io}: {}", server.log());
    }
}

#[test]
fn lanes_that_are_full_let_others_wait() {
    for (model, io) in MODELS {
        let mut server = native(&["--accept", model, "--io", io, "--workers", "2", "--max-connections", "2"]);
        let load = Load::start(&tcp(&mut server), 16, Manner::ConnectionPerRequest);
        load.wait_for_more(2000);
        assert_eq!(load.stop(), [""; 0], "{model}, {io}: {}", server.log());
    }
}

#[test]
fn unix_sockets_are_shared_in_any_case() {
    for (model, io) in MODELS {
        let folder = Folder::new();
        let path = folder.file("socket");
        let mut server =
            native_on(&path.display().to_string(), &["--accept", model, "--io", io, "--workers", "2", "--edge", "off"]);
        server.wait_for_log("listening on");
        server.wait_for_workers(2);
        let load = Load::start(&Target::Unix(path), 8, Manner::ConnectionPerRequest);
        load.wait_for_more(1000);
        server.signal(Signal::HUP);
        server.wait_for_log("all workers have been replaced");
        assert_eq!(load.stop(), [""; 0], "{model}, {io}: {}", server.log());
        let said = "has one socket, as there can be no more, for all of 2 lanes";
        assert_eq!(server.log().contains(said), model == "own", "{}", server.log());
    }
}

#[test]
fn listeners_for_fastcgi_are_no_different() {
    // FCGI_GET_VALUES with the name FCGI_MPXS_CONNS, and the answer: FastCGI 1.0, section 4.1.
    let question = b"\x01\x09\0\0\0\x11\0\0\x0f\0FCGI_MPXS_CONNS";
    for (model, io) in MODELS {
        let mut server = native_on("fcgi://127.0.0.1:0", &["--accept", model, "--io", io, "--workers", "2"]);
        let address = server.addresses()[0].strip_prefix("fcgi://").and_then(|address| address.parse().ok());
        let address: SocketAddr = address.expect("it listens on TCP");
        server.wait_for_workers(2);
        for _ in 0..MANY {
            let mut stream = TcpStream::connect(address).expect("it listens");
            stream.write_all(question).expect("it is connected");
            let mut answer = [0; 26];
            stream.read_exact(&mut answer).expect("it answers");
            assert!(answer.ends_with(b"FCGI_MPXS_CONNS1"), "{model}, {io}: {answer:?}");
        }
    }
}

#[test]
fn sockets_that_others_have_opened_cannot_be_opened_again() {
    let mut command = Command::new("start_server");
    command.args([
        "--port=127.0.0.1:0",
        "--",
        env!("CARGO_BIN_EXE_oribi"),
        "--native",
        "hello",
        "--accept",
        "own",
        "--edge",
        "off",
    ]);
    let mut server = Server::run(command.args(["--workers", "2"]));
    server.wait_for_log("--accept own needs sockets that can be opened several times; those of Server::Starter are there once");
    server.signal(Signal::TERM);
    server.wait();
}

#[test]
fn the_number_of_workers_stays_where_each_has_its_sockets() {
    let mut server = native(&["--accept", "own", "--workers", "2", "--edge", "off"]);
    server.wait_for_workers(2);
    server.wait_for_log("listening on");
    server.signal(Signal::TTIN);
    server.wait_for_log("the number of workers cannot change: the sockets are opened for 2 of them");
    assert_eq!(server.workers().len(), 2);
}
