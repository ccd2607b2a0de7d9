//! The new server has other options of an address, or another protocol there.

use super::Site;
use crate::client::{Target, get};
use crate::server::{Folder, runs, send, wait_until};
use crate::service_manager::ServiceManager;
use crate::wire;
use rustix::process::Signal;
use std::fs;
use std::net::TcpListener;

/// Returns a program that runs the real one with another argument in place of the one with this pattern.
fn with_argument(pattern: &str, argument: &str) -> String {
    let replace = format!("case $word in {pattern}) word='{argument}'; esac; set -- \"$@\" \"$word\"");
    format!("#!/bin/sh\nfor word; do shift; {replace}; done\nexec REAL \"$@\"\n")
}

/// Returns the numbers of the sockets that listen at this port.
fn listening_at(port: u16) -> Vec<String> {
    let table = fs::read_to_string("/proc/net/tcp").expect("it is there");
    let listens = |fields: &Vec<&str>| fields[1].ends_with(&format!(":{port:04X}")) && fields[3] == "0A";
    let lines = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines.filter(listens).map(|fields| fields[9].to_owned()).collect()
}

#[test]
fn an_address_with_another_protocol_keeps_its_socket() {
    let free = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let address = free.local_addr().expect("it is bound");
    drop(free);
    let plain = format!("http://{address}");
    let encrypted = format!("https://{address}?cert={}", wire::certificate().display());
    for edge in ["on", "off"] {
        for (before, after) in [(&plain, &encrypted), (&encrypted, &plain)] {
            let mut site = Site::start(&["--edge", edge, "--listen", before]);
            let target = Target::Tcp(site.address());
            let sockets = listening_at(address.port());
            assert_eq!(sockets.len(), 1);
            site.put(&with_argument("http*", after));
            site.upgrade();
            wire::note(after.split('?').next().unwrap_or_default());
            assert!(get(&target).expect("it serves").text.ends_with("hello"), "{after}: {}", site.server.log());
            assert_eq!(listening_at(address.port()), sockets, "{after}: no client was refused");
            site.stop();
        }
    }
}

#[test]
fn a_service_manager_keeps_the_listeners_that_the_new_server_has() {
    let manager = ServiceManager::new();
    let (folder, path) = (Folder::new(), manager.address());
    let (socket, notify) = (folder.file("app.sock"), path.to_str().expect("it is ASCII"));
    let name = format!("unix:{}", socket.display());
    let variables = [("NOTIFY_SOCKET", notify), ("FDSTORE", "16")];
    let mut site = Site::start_with(&["--edge", "on", "--listen", &name], &variables);
    let stored = |name: &str| format!("oribi-{}", name.replace(':', "_"));
    assert_eq!(manager.hear("FDSTORE").value("FDNAME"), Some(stored(&name).as_str()));
    manager.hear("READY");
    site.put(&with_argument("unix:*", &format!("fcgi+{name}")));
    site.server.signal(Signal::USR2);
    let next: u32 = manager.hear("MAINPID").value("MAINPID").and_then(|pid| pid.parse().ok()).expect("a number");
    assert_eq!(site.server.wait(), 0, "{}", site.server.log());
    assert_eq!(manager.hear("FDSTOREREMOVE").value("FDNAME"), Some(stored(&name).as_str()));
    let message = manager.hear("FDSTORE");
    assert_eq!(message.value("FDNAME"), Some(stored(&format!("fcgi+{name}")).as_str()));
    assert!(message.descriptor.is_some());
    send(next, Signal::TERM);
    wait_until("its end", || !runs(next));
    assert!(socket.exists(), "the next start finds its clients there");
}
