//! Another program takes the place of a running one.

use crate::client::{Load, Manner, Target};
use crate::roles;
use crate::server::{Folder, Server, children, parent, runs, send, title, wait_for, wait_until};
use crate::service_manager::ServiceManager;
use crate::status::order;
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Upgrades the server, and waits until only the new server is left.
fn upgrade(first: &mut Server) -> u32 {
    let before = first.successor("master");
    first.signal(Signal::USR2);
    wait_for("only the new master is left", || {
        assert!(first.exit_status().is_none(), "it ended:\n{}", first.log());
        first
            .successor("master")
            .filter(|present| Some(*present) != before && title(first.pid()).starts_with("oribi: guardian"))
    })
}

pub fn upgrades_under_load_close_no_connection() {
    let mut first = roles::start("master of mold", &[("ORIBI_EDGE", "on")]);
    let address = first.address();
    let load = Load::start(&Target::Tcp(address), 16, Manner::KeepAlive);
    let short = Load::start(&Target::Tcp(address), 2, Manner::ConnectionPerRequest);
    let idle = TcpStream::connect(address).expect("it listens");
    let mut begun = TcpStream::connect(address).expect("it listens");
    begun.write_all(b"GET / HTTP/1.1\r\nHo").expect("it is connected");
    for _ in 0..3 {
        load.wait_for_more(200);
        short.wait_for_more(50);
        upgrade(&mut first);
    }
    load.wait_for_more(200);
    for (mut stream, rest) in [(idle, &b"GET / HTTP/1.1\r\nHost: test\r\n\r\n"[..]), (begun, b"st: test\r\n\r\n")] {
        stream.write_all(rest).expect("it is connected");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("it is ours");
        let mut answer = [0; 1024];
        let size = stream.read(&mut answer).expect("the connection was kept");
        assert!(answer[..size].starts_with(b"HTTP/1.1 200 ") && answer[..size].ends_with(b"hello"), "{answer:?}");
    }
    assert_eq!(load.connections(), 16, "connections that were opened for those that the server has closed:\n{}", first.log());
    for load in [load, short] {
        assert_eq!(load.stop(), Vec::<String>::new(), "{}", first.log());
    }
    first.signal(Signal::TERM);
    assert_eq!(first.wait(), 0, "{}", first.log());
    assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
}

/// A FastCGI record of request 1 (FastCGI 1.0, section 3.3).
fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(content.len()).expect("it is short").to_be_bytes();
    [&[1, kind, 0, 1, high, low, 0, 0], content].concat()
}

/// A request that keeps the connection: BEGIN_REQUEST, PARAMS, STDIN.
fn fastcgi_request() -> Vec<u8> {
    let pairs = [("REQUEST_METHOD", "GET"), ("REQUEST_URI", "/"), ("SCRIPT_NAME", "/"), ("SERVER_PROTOCOL", "HTTP/1.1")];
    let pair =
        |(name, value): &(&str, &str)| [&[name.len() as u8, value.len() as u8], name.as_bytes(), value.as_bytes()].concat();
    let params: Vec<u8> = pairs.iter().flat_map(pair).collect();
    [record(1, &[0, 1, 1, 0, 0, 0, 0, 0]), record(4, &params), record(4, b""), record(5, b"")].concat()
}

pub fn connections_of_web_servers_outlive_an_upgrade() {
    let mut first = roles::start("master of mold", &[("ORIBI_EDGE", "on"), ("ORIBI_TEST_FASTCGI", "1")]);
    let addresses = first.addresses();
    let mut stream = TcpStream::connect(addresses[0].strip_prefix("fcgi://").expect("it speaks FastCGI")).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("it is ours");
    for round in 0..3 {
        stream.write_all(&fastcgi_request()).expect("it is connected");
        let mut answer = Vec::new();
        // END_REQUEST, which has eight bytes, comes last.
        while answer.len() < 16 || answer[answer.len() - 15] != 3 {
            let mut bytes = [0; 4096];
            let size = stream.read(&mut bytes).expect("it answers");
            assert!(size > 0, "round {round}: the connection was closed behind {answer:?}");
            answer.extend_from_slice(&bytes[..size]);
        }
        assert!(String::from_utf8_lossy(&answer).contains("hello"), "{answer:?}");
        upgrade(&mut first);
    }
    first.signal(Signal::TERM);
    assert_eq!(first.wait(), 0, "{}", first.log());
}

pub fn orders_reach_the_server_before_and_after_an_upgrade() {
    let folder = Folder::new();
    let path = folder.file("control");
    let name = path.to_str().expect("it is ASCII");
    let mut first = roles::start("master of mold", &[("ORIBI_EDGE", "on"), ("ORIBI_TEST_CONTROL", name)]);
    first.address();
    let mut before = None;
    for _ in 0..2 {
        let answer = order(&path, "upgrade").expect("it listens");
        assert!(answer.contains("true"), "{answer}");
        // The answer arrives when the new server serves, and that has the socket then.
        let status = order(&path, "status").expect("it listens");
        assert!(status.contains("\"serving\""), "{status}");
        let present = wait_for("only the new master is left", || first.successor("master").filter(|pid| Some(*pid) != before));
        assert!(
            answer.contains(&format!("(pid {present})")) && status.contains(&format!("\"pid\":{present},")),
            "{answer}{status}"
        );
        before = Some(present);
    }
    first.signal(Signal::TERM);
    assert_eq!(first.wait(), 0, "{}", first.log());
    assert!(!path.exists(), "the last master has removed it");
}

pub fn upgrades_without_edges_lose_no_request() {
    let mut first = roles::start("master of mold", &[("ORIBI_EDGE", "off")]);
    let target = Target::Tcp(first.address());
    let load = [Load::start(&target, 4, Manner::KeepAlive), Load::start(&target, 2, Manner::ConnectionPerRequest)];
    for _ in 0..2 {
        load.iter().for_each(|load| load.wait_for_more(100));
        upgrade(&mut first);
    }
    load.iter().for_each(|load| load.wait_for_more(100));
    first.signal(Signal::TERM);
    // Every accepted client is answered completely.
    assert_eq!(first.wait(), 0, "{}", first.log());
    for load in load {
        assert_eq!(load.wait(), Vec::<String>::new(), "{}", first.log());
    }
}

pub fn a_program_that_cannot_serve_is_no_upgrade() {
    let folder = Folder::new();
    let file = folder.file("fails");
    let name = file.to_str().expect("it is ASCII");
    let mut first = roles::start("master of mold that fails later", &[("ORIBI_EDGE", "on"), ("ORIBI_TEST_FAILS", name)]);
    let load = Load::start(&Target::Tcp(first.address()), 4, Manner::KeepAlive);
    load.wait_for_more(100);
    std::fs::write(&file, "").expect("the folder is ours");
    first.signal(Signal::USR2);
    first.wait_for_log("so this one keeps serving");
    load.wait_for_more(100);
    assert!(title(first.pid()).starts_with("oribi: master"), "{}", title(first.pid()));
    std::fs::remove_file(&file).expect("it is there");
    upgrade(&mut first);
    load.wait_for_more(100);
    assert_eq!(load.connections(), 4, "{}", first.log());
    assert_eq!(load.stop(), Vec::<String>::new(), "{}", first.log());
    first.signal(Signal::TERM);
    assert_eq!(first.wait(), 0, "{}", first.log());
}

pub fn without_its_first_process_no_upgraded_server_stays() {
    let mut first = roles::start("master of mold", &[("ORIBI_EDGE", "on")]);
    let address = first.address();
    upgrade(&mut first);
    let last = upgrade(&mut first);
    let below = children(last);
    assert!(below.len() >= 2, "an edge and a mold");
    // It asks for the signal when the master before has ended, which the first process may see earlier.
    wait_until("it follows the first process", || first.log().matches("follows the first process").count() >= 2);
    first.signal(Signal::KILL);
    wait_until("its processes end", || !runs(last) && !below.iter().any(|process| runs(*process)));
    assert!(TcpStream::connect(address).is_err(), "the port is free");
}

pub fn a_service_manager_follows_an_upgrade() {
    let manager = ServiceManager::new();
    let path = manager.address();
    let name = path.to_str().expect("it is ASCII");
    let variables = [("ORIBI_EDGE", "on"), ("NOTIFY_SOCKET", name), ("WATCHDOG_USEC", "200000")];
    let mut first = roles::start("master of mold", &variables);
    let load = Load::start(&Target::Tcp(first.address()), 4, Manner::KeepAlive);
    assert_eq!(manager.hear("MAINPID").value("MAINPID"), Some(&*first.pid().to_string()));
    load.wait_for_more(50);
    first.signal(Signal::USR2);
    assert!(manager.hear("RELOADING").value("MONOTONIC_USEC").is_some());
    let next: u32 = manager.hear("MAINPID").value("MAINPID").and_then(|pid| pid.parse().ok()).expect("a number");
    assert_ne!(next, first.pid());
    // systemd waits only for the end of main processes that are its children.
    assert_eq!(parent(next), Some(std::process::id()));
    assert_eq!(first.wait(), 0, "{}", first.log());
    load.wait_for_more(50);
    manager.hear("WATCHDOG");
    assert_eq!(load.connections(), 4, "{}", first.log());
    assert_eq!(load.stop(), Vec::<String>::new(), "{}", first.log());
    send(next, Signal::TERM);
    assert!(manager.hear("STOPPING").value("STOPPING").is_some());
    wait_until("its end", || !runs(next));
}
