//! The server's addresses, its leftovers, and its errors when it cannot listen.

use crate::client::{Target, get};
use crate::server::{Folder, Server, mode, wait_until};
use crate::{native, native_on};
use rustix::process::Signal;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;

fn fails(mut server: Server, message: &str) {
    assert_eq!(server.wait(), 1, "{}", server.log());
    assert!(server.log().contains(message), "{message:?} is not in {}", server.log());
}

fn on_socket(path: &Path) -> Server {
    native_on(&format!("unix:{}", path.display()), &["--workers", "1"])
}

#[test]
fn a_port_in_use_is_named_with_a_way_out() {
    let other = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let address = other.local_addr().expect("it is bound");
    let message = format!(
        "cannot listen on {address}: address already in use; is another server running? choose another address or port"
    );
    fails(native_on(&address.to_string(), &[]), &message);
}

#[test]
fn a_name_means_all_its_addresses_on_one_port() {
    let mut server = native_on("localhost:0", &["--workers", "1"]);
    let addresses = server.addresses();
    let ports = addresses.iter().map(|address| address.rsplit(':').next().unwrap_or_default()).collect::<Vec<_>>();
    assert!(ports.windows(2).all(|pair| pair[0] == pair[1]), "{addresses:?}");
    for address in &addresses {
        let address = address.strip_prefix("http://").expect("it is TCP").parse().expect("it is an address");
        get(&Target::Tcp(address)).expect("it serves there");
    }
}

#[test]
fn a_unix_socket_has_the_mode_asked_for_and_goes_with_its_server() {
    let folder = Folder::new();
    let path = folder.file("socket");
    let mut server = native_on(&format!("{}?mode=620", path.display()), &["--workers", "1"]);
    server.wait_for_log("listening on unix:");
    assert_eq!(mode(&path), 0o620);
    get(&Target::Unix(path.clone())).expect("it serves");
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), 0);
    assert!(!path.exists());
}

#[test]
fn the_mode_for_all_unix_sockets_gives_way_to_that_of_an_address() {
    let folder = Folder::new();
    let (one, other) = (folder.file("one"), folder.file("other"));
    let other_address = format!("{}?mode=620", other.display());
    let mut server = native_on(&one.display().to_string(), &["--listen", &other_address, "--socket-mode", "0666"]);
    server.wait_for_log(&format!("listening on unix:{}", other.display()));
    assert_eq!((mode(&one), mode(&other)), (0o666, 0o620));
}

#[test]
fn two_servers_share_a_port_if_both_say_so() {
    let mut first = native(&["--workers", "1", "--reuse-port"]);
    let address = first.address();
    let mut second = native_on(&address.to_string(), &["--workers", "1", "--reuse-port"]);
    assert_eq!(second.address(), address);
    first.signal(Signal::TERM);
    assert_eq!(first.wait(), 0);
    get(&Target::Tcp(address)).expect("the other one serves");
}

#[test]
fn a_stale_unix_socket_is_replaced() {
    let folder = Folder::new();
    let path = folder.file("socket");
    drop(UnixListener::bind(&path).expect("the folder is writable"));
    assert!(path.exists(), "left behind");
    let mut server = on_socket(&path);
    server.wait_for_log("listening on unix:");
    get(&Target::Unix(path)).expect("it serves");
}

#[test]
fn a_unix_socket_in_use_and_other_files_are_left_alone() {
    let folder = Folder::new();
    let path = folder.file("socket");
    let other = UnixListener::bind(&path).expect("the folder is writable");
    fails(on_socket(&path), "another server is listening there");
    drop(other);

    let path = folder.file("file");
    std::fs::write(&path, "precious").expect("the folder is writable");
    fails(on_socket(&path), "something that is not a socket is there");
    assert_eq!(std::fs::read_to_string(&path).expect("it is still there"), "precious");
}

#[test]
fn a_unix_socket_of_a_later_server_is_not_removed() {
    let folder = Folder::new();
    let path = folder.file("socket");
    let mut server = on_socket(&path);
    server.wait_for_log("listening on unix:");
    std::fs::remove_file(&path).expect("it is there");
    let _later = UnixListener::bind(&path).expect("the folder is writable");
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), 0);
    assert!(path.exists());
}

#[test]
fn the_pid_file_names_the_server_while_it_runs() {
    let folder = Folder::new();
    let path = folder.file("pid");
    let mut server = native(&["--workers", "1", "--pid-file", path.to_str().expect("it is plain")]);
    server.address();
    assert_eq!(std::fs::read_to_string(&path).expect("it is written"), format!("{}\n", server.pid()));
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), 0);
    wait_until("its removal", || !path.exists());

    fails(native(&["--pid-file", "/nowhere/at/all.pid"]), "cannot write the pid file /nowhere/at/all.pid");
}
