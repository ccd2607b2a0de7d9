//! The messages of a server to a service manager such as systemd.

use crate::client::{Load, Manner, Target, get};
use crate::native;
use crate::server::{Server, children, send, title, wait_for, wait_until};
use crate::service_manager::ServiceManager;
use rustix::process::Signal;
use rustix::time::{ClockId, clock_gettime};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::time::Duration;

const ORIBI: &str = env!("CARGO_BIN_EXE_oribi");

fn monotonic() -> u128 {
    Duration::try_from(clock_gettime(ClockId::Monotonic)).expect("it counts up").as_micros()
}

#[test]
fn a_service_manager_is_told_each_change() {
    let manager = ServiceManager::new();
    let mut command = Command::new(ORIBI);
    command.args(["--native", "hello", "--listen", "127.0.0.1:0", "--workers", "2"]);
    command.env("NOTIFY_SOCKET", manager.address()).env("WATCHDOG_USEC", "100000").env_remove("WATCHDOG_PID");
    let mut server = Server::run(&mut command);
    let pid = server.pid().to_string();
    assert_eq!(manager.hear("STATUS").lines, ["STATUS=loading the app"]);
    assert_eq!(manager.hear("READY").lines, ["READY=1".to_owned(), format!("MAINPID={pid}"), "STATUS=serving".to_owned()]);
    for _ in 0..3 {
        assert_eq!(manager.hear("WATCHDOG").lines, ["WATCHDOG=1"]);
    }
    let before = monotonic();
    server.signal(Signal::HUP);
    let reloading = manager.hear("RELOADING");
    let time: u128 = reloading.value("MONOTONIC_USEC").and_then(|time| time.parse().ok()).expect("it says when");
    assert!((before..=monotonic()).contains(&time), "{before} {reloading:?}");
    assert_eq!(manager.hear("READY").value("STATUS"), Some("serving"));
    server.signal(Signal::TERM);
    assert_eq!(manager.hear("STOPPING").value("STOPPING"), Some("1"));
    assert_eq!(server.wait(), 0, "{}", server.log());
}

#[test]
fn an_edge_whose_loop_does_not_turn_is_no_sign_of_life() {
    let manager = ServiceManager::new();
    let mut command = Command::new(ORIBI);
    command.args(["--native", "hello", "--listen", "127.0.0.1:0", "--workers", "1", "--edge", "on"]);
    command.env("NOTIFY_SOCKET", manager.address()).env("WATCHDOG_USEC", "200000").env_remove("WATCHDOG_PID");
    let mut server = Server::run(&mut command);
    manager.hear("READY");
    // An idle edge is also alive.
    for _ in 0..5 {
        assert_eq!(manager.hear("WATCHDOG").lines, ["WATCHDOG=1"]);
    }
    let is_edge = |process: &u32| title(*process).starts_with("oribi: edge");
    let edge = wait_for("the edge", || children(server.pid()).into_iter().find(is_edge));
    assert!(!server.log().contains("hangs"), "{}", server.log());
    send(edge, Signal::STOP);
    server.wait_for_log("hangs");
    manager.forget("WATCHDOG");
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(manager.forget("WATCHDOG"), 0, "nobody says that the server is alive");
    send(edge, Signal::CONT);
    server.wait_for_log("turns again");
    manager.hear("WATCHDOG");
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), 0, "{}", server.log());
}

/// Starts the server as systemd does, with the descriptors that systemd has kept for it.
fn start(manager: &ServiceManager, address: SocketAddr, kept: Option<(OwnedFd, &str)>) -> Server {
    let mut command = Command::new("bash");
    let script = match &kept {
        // The way in of a socket that the other tests, which start programs at the same time, must not inherit.
        Some((_, name)) => {
            format!("exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES='{name}' exec \"$@\"")
        }
        None => "exec \"$@\"".to_owned(),
    };
    let address = address.to_string();
    command.args(["-c", &script, "bash", ORIBI, "--native", "hello", "--accept", "shared", "--listen", &address]);
    command.env("NOTIFY_SOCKET", manager.address()).env("FDSTORE", "8");
    match kept {
        Some((descriptor, _)) => Server::run_with_input(&mut command, descriptor.into()),
        None => Server::run(&mut command),
    }
}

#[test]
fn what_the_service_manager_keeps_refuses_nobody_while_the_server_is_restarted() {
    let manager = ServiceManager::new();
    let probe = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let address = probe.local_addr().expect("it is bound");
    drop(probe);
    let mut server = start(&manager, address, None);
    let stored = manager.hear("FDSTORE");
    let name = stored.value("FDNAME").expect("it has a name").to_owned();
    let descriptor = stored.descriptor.expect("a descriptor comes with it");
    manager.hear("READY");
    let load = Load::start(&Target::Tcp(address), 4, Manner::ConnectionPerRequest);
    for _ in 0..3 {
        load.wait_for_more(100);
        server.signal(Signal::TERM);
        assert_eq!(server.wait(), 0, "{}", server.log());
        server = start(&manager, address, Some((descriptor.try_clone().expect("a copy"), &name)));
        manager.hear("READY");
        assert!(server.log().contains("was kept open, and is taken over"), "{}", server.log());
    }
    load.wait_for_more(100);
    assert_eq!(load.stop(), Vec::<String>::new());
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), 0, "{}", server.log());

    // The settings name another address by now.
    let mut server = start(&manager, "127.0.0.1:0".parse().expect("an address"), Some((descriptor, &name)));
    assert_eq!(manager.hear("FDSTOREREMOVE").value("FDNAME"), Some(&*name));
    assert_ne!(server.address(), address);
    wait_until("nobody listens any more", || get(&Target::Tcp(address)).is_err());
}

#[test]
fn without_room_nothing_is_given_to_the_service_manager() {
    let manager = ServiceManager::new();
    let mut command = Command::new(ORIBI);
    command.args(["--native", "hello", "--listen", "127.0.0.1:0"]).env("NOTIFY_SOCKET", manager.address());
    let mut server = Server::run(command.env_remove("FDSTORE"));
    let first = manager.hear("READY");
    assert!(first.descriptor.is_none());
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), 0);
    assert!(!server.log().contains("service manager"), "{}", server.log());
    assert!(native(&[]).address().port() != 0, "a server without a service manager serves, too");
}
