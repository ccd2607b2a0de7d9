//! Listeners that another program has opened: start_server of Server::Starter, or systemd.

use crate::client::{Load, Manner, Target, get};
use crate::server::{Folder, Server, children, runs, wait_for, wait_until};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Command;

const ORIBI: &str = env!("CARGO_BIN_EXE_oribi");

/// start_server above `oribi --native`, on a TCP port and a Unix socket.
struct Starter {
    server: Server,
    address: SocketAddr,
    socket: PathBuf,
    _folder: Folder,
}

impl Starter {
    /// Starts start_server; `options` are options of start_server, and `arguments` those of `oribi`.
    fn start(options: &[&str], arguments: &[&str]) -> Self {
        let folder = Folder::new();
        let socket = folder.file("socket");
        let probe = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let address = probe.local_addr().expect("it is bound");
        drop(probe);
        let mut command = Command::new("start_server");
        command.arg(format!("--port={address}")).arg(format!("--path={}", socket.display())).args(options);
        // It must not bind the address that it gets here: another program has the port.
        command.args(["--", ORIBI, "--native", "hello", "--listen", &address.to_string()]).args(arguments);
        let mut server = Server::run(&mut command);
        server.wait_for_log("listening on unix:");
        Self { server, address, socket, _folder: folder }
    }

    fn targets(&self) -> [Target; 2] {
        [Target::Tcp(self.address), Target::Unix(self.socket.clone())]
    }

    /// Returns the id of the only server below start_server.
    fn oribi(&self) -> u32 {
        wait_for("one server", || match children(self.server.pid())[..] {
            [only] => Some(only),
            _ => None,
        })
    }

    /// Orders start_server to start a new generation, and waits until only that is left.
    fn renew(&self) {
        let before = self.oribi();
        self.server.signal(Signal::HUP);
        wait_until("the end of the old generation", || !runs(before));
        assert_ne!(self.oribi(), before);
    }
}

#[test]
fn all_sockets_of_start_server_are_taken_over_and_a_new_generation_loses_nothing() {
    let mut starter = Starter::start(&[], &["--workers", "2"]);
    let [tcp, unix] = starter.targets();
    let said = format!("http://{}, unix:{} taken over from Server::Starter", starter.address, starter.socket.display());
    assert!(starter.server.log().contains(&said), "{}", starter.server.log());
    let load = [
        Load::start(&tcp, 4, Manner::ConnectionPerRequest),
        Load::start(&tcp, 4, Manner::KeepAlive),
        Load::start(&unix, 4, Manner::ConnectionPerRequest),
        Load::start(&unix, 4, Manner::KeepAlive),
    ];
    for _ in 0..2 {
        load.iter().for_each(|load| load.wait_for_more(200));
        starter.renew();
    }
    load.iter().for_each(|load| load.wait_for_more(200));
    for load in load {
        assert_eq!(load.stop(), Vec::<String>::new());
    }
    let oribi = starter.oribi();
    starter.server.signal(Signal::TERM);
    assert_eq!(starter.server.wait(), 0, "{}", starter.server.log());
    assert!(!runs(oribi));
    assert!(!starter.server.log().contains("rror"), "{}", starter.server.log());
}

#[test]
fn the_slow_restart_of_start_server_loses_nothing() {
    let options = ["--signal-on-hup=USR1", "--signal-on-term=TERM"];
    let mut starter = Starter::start(&options, &["--workers", "3", "--spawn-interval", "200ms"]);
    let [tcp, unix] = starter.targets();
    let load = [Load::start(&tcp, 4, Manner::ConnectionPerRequest), Load::start(&unix, 4, Manner::KeepAlive)];
    load.iter().for_each(|load| load.wait_for_more(200));
    starter.renew();
    assert!(starter.server.log().contains("stopping slowly: 3 workers, one every 0.2 s"), "{}", starter.server.log());
    load.iter().for_each(|load| load.wait_for_more(200));
    for load in load {
        assert_eq!(load.stop(), Vec::<String>::new());
    }
    starter.server.signal(Signal::TERM);
    assert_eq!(starter.server.wait(), 0, "{}", starter.server.log());
}

#[test]
fn a_request_that_has_begun_is_finished_and_others_are_left_to_the_next_server() {
    let mut starter = Starter::start(&[], &["--workers", "1"]);
    let mut begun = TcpStream::connect(starter.address).expect("it listens");
    begun.write_all(b"POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\nhalf").expect("it is connected");
    get(&Target::Tcp(starter.address)).expect("behind this answer, the other request has been read");
    let before = starter.oribi();
    crate::server::send(before, Signal::TERM);
    starter.server.wait_for_log("stopping");
    // start_server sees to the next generation only when this one has ended. Clients that connect meanwhile wait for that.
    let waiting = Load::start(&Target::Tcp(starter.address), 2, Manner::ConnectionPerRequest);
    begun.write_all(b"theend").expect("it is connected");
    let mut answer = String::new();
    begun.read_to_string(&mut answer).expect("the answer is ASCII, and then the connection ends");
    assert!(answer.to_lowercase().contains("connection: close") && answer.ends_with("hello"), "{answer}");
    wait_until("its end", || !runs(before));
    waiting.wait_for_more(100);
    assert_eq!(waiting.stop(), Vec::<String>::new());
    starter.server.signal(Signal::TERM);
    assert_eq!(starter.server.wait(), 0, "{}", starter.server.log());
}

#[test]
fn sockets_of_systemd_are_taken_over_by_the_process_they_are_meant_for() {
    let folder = Folder::new();
    for (process, adopts) in [("$$", true), ("1", false)] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let address = listener.local_addr().expect("it is bound");
        let path = folder.file("own");
        // The way in of a socket that the other tests, which start programs at the same time, must not inherit.
        let script = format!("exec 3<&0 0</dev/null; LISTEN_PID={process} LISTEN_FDS=1 LISTEN_FDNAMES=web exec \"$@\"");
        let mut command = Command::new("bash");
        command.args(["-c", &script, "bash", ORIBI, "--native", "hello", "--workers", "1"]);
        command.arg("--listen").arg(&path);
        let mut server = Server::run_with_input(&mut command, OwnedFd::from(listener.try_clone().expect("a copy")).into());
        server.wait_for_log("listening on");
        let expected = if adopts { format!("http://{address}") } else { format!("unix:{}", path.display()) };
        assert_eq!(server.addresses(), [expected]);
        assert_eq!(server.log().contains("taken over from systemd"), adopts, "{}", server.log());
        if adopts {
            get(&Target::Tcp(address)).expect("it serves there");
        }
        server.signal(Signal::TERM);
        assert_eq!(server.wait(), 0, "{}", server.log());
        TcpStream::connect(address).expect("the socket has outlived the server and takes connections");
    }
}

#[test]
fn what_cannot_be_taken_over_is_named() {
    let mut command = Command::new(ORIBI);
    command.args(["--native", "hello"]).env("SERVER_STARTER_PORT", "127.0.0.1:5000=77");
    let mut server = Server::run(&mut command);
    assert_eq!(server.wait(), 1);
    let message = "cannot listen on 127.0.0.1:5000, descriptor 77 of SERVER_STARTER_PORT: ";
    assert!(server.log().contains(message), "{}", server.log());
}
