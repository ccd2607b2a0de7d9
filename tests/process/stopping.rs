//! Stopping: accepted clients get their answers, and stopping is quick when it must be.

use crate::client::{Load, Manner, Target, get};
use crate::server::{Server, runs, wait_until};
use crate::{native, tcp};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

fn stops_under_load(target: &Target, server: &mut Server, manner: Manner, signal: Signal) {
    let load = Load::start(target, 8, manner);
    load.wait_for_more(1000);
    server.signal(signal);
    assert_eq!(load.wait(), Vec::<String>::new(), "{manner:?} {signal:?}");
    assert_eq!(server.wait(), 0, "{}", server.log());
}

/// A request that never ends, and keeps the only worker of a server.
fn unfinished_request(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(b"POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\nhalf").expect("it is connected");
    get(&Target::Tcp(address)).expect("behind this answer, the other request has been read");
    stream
}

#[test]
fn no_request_on_a_kept_connection_is_lost() {
    for (signal, threads) in [(Signal::TERM, "1"), (Signal::INT, "1"), (Signal::QUIT, "1"), (Signal::TERM, "2")] {
        let mut server = native(&["--workers", "2", "--threads", threads]);
        let target = tcp(&mut server);
        stops_under_load(&target, &mut server, Manner::KeepAlive, signal);
    }
}

#[test]
fn no_connection_that_was_accepted_by_the_system_is_lost() {
    for workers in ["1", "3"] {
        let mut server = native(&["--workers", workers]);
        let target = tcp(&mut server);
        stops_under_load(&target, &mut server, Manner::ConnectionPerRequest, Signal::TERM);
    }
}

#[test]
fn the_same_on_a_unix_socket() {
    for manner in [Manner::KeepAlive, Manner::ConnectionPerRequest] {
        let folder = crate::server::Folder::new();
        let path = folder.file("socket");
        let mut server = crate::native_on(&format!("unix:{}", path.display()), &["--workers", "2"]);
        server.wait_for_log("listening on unix:");
        stops_under_load(&Target::Unix(path.clone()), &mut server, manner, Signal::TERM);
        assert!(!path.exists(), "its file is gone");
    }
}

#[test]
fn signals_to_all_processes_at_once_lose_nothing_either() {
    let mut server = native(&["--workers", "2"]);
    let target = tcp(&mut server);
    let load = Load::start(&target, 8, Manner::ConnectionPerRequest);
    load.wait_for_more(500);
    // As a service manager does that knows only a group of processes.
    for worker in server.workers() {
        crate::server::send(worker, Signal::TERM);
    }
    server.signal(Signal::TERM);
    assert_eq!(load.wait(), Vec::<String>::new());
    assert_eq!(server.wait(), 0, "{}", server.log());
}

#[test]
fn workers_ignore_what_a_terminal_sends_to_everybody() {
    let mut server = native(&["--workers", "2"]);
    let target = tcp(&mut server);
    let before = server.wait_for_workers(2);
    for worker in &before {
        for signal in [Signal::INT, Signal::HUP, Signal::PIPE, Signal::TTIN, Signal::TTOU, Signal::USR1, Signal::USR2] {
            crate::server::send(*worker, signal);
        }
    }
    for _ in 0..20 {
        get(&target).expect("it serves on");
    }
    assert_eq!(server.workers().len(), 2);
    assert!(before.iter().all(|worker| runs(*worker)));
}

#[test]
fn a_second_signal_ends_it_at_once() {
    for (first, second) in [(Signal::INT, Signal::INT), (Signal::TERM, Signal::TERM), (Signal::QUIT, Signal::INT)] {
        let mut server = native(&["--workers", "1"]);
        let address = server.address();
        let _stuck = unfinished_request(address);
        let worker = server.wait_for_workers(1)[0];
        server.signal(first);
        server.wait_for_log("stopping");
        assert!(runs(worker), "it waits for the request");
        // What comes within a quarter of a second is taken for an echo of the first.
        std::thread::sleep(Duration::from_millis(300));
        server.signal(second);
        assert_eq!(server.wait(), 1, "{}", server.log());
        assert!(server.log().contains("told to stop a second time"), "{}", server.log());
        assert!(!runs(worker));
    }
}

#[test]
fn what_does_not_finish_in_time_is_cut_off_and_said() {
    let mut server = native(&["--workers", "1", "--graceful-timeout", "200ms"]);
    let address = server.address();
    let _stuck = unfinished_request(address);
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), 1);
    let log = server.log();
    let cut = log.split_once("time to finish is over: ended ").map(|(_, what)| what.lines().next().unwrap_or_default());
    assert!(matches!(cut, Some("1 worker with 1 open connection" | "the edges with 1 open connection")), "{log}");
}

#[test]
fn during_a_long_farewell_new_connections_are_refused_at_once() {
    let mut server = native(&["--workers", "1"]);
    let address = server.address();
    let _stuck = unfinished_request(address);
    server.signal(Signal::TERM);
    wait_until("a refusal", || {
        let outcome = TcpStream::connect_timeout(&address, Duration::from_millis(100));
        outcome.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    });
    assert!(server.exit_status().is_none(), "it waits for the request");
}

#[test]
fn without_its_supervisor_no_process_stays() {
    let mut server = native(&["--workers", "3"]);
    let target = tcp(&mut server);
    let workers = server.wait_for_workers(3);
    server.signal(Signal::KILL);
    wait_until("the end of the workers", || !workers.iter().any(|worker| runs(*worker)));
    assert!(get(&target).is_err(), "the port is free");
}

/// A client that ignores the server's part of the handshake until the test tells it to go on; then it sends its request. It
/// reports what it is about to do, and prints the first line of the answer. The filter is that of `ignore_new_connections`, for
/// SYN with ACK.
const LATE_CLIENT: &str = r#"
    use Socket qw(:DEFAULT SOCK_NONBLOCK); use Errno 'EINPROGRESS'; $| = 1;
    my $port = shift;
    socket my $socket, PF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0 or die "socket: $!";
    my $program = join '', map { pack 'SCCL', @$_ }
        [0x30, 0, 0, 13], [0x54, 0, 0, 0x12], [0x15, 0, 1, 0x12], [6, 0, 0, 0], [6, 0, 0, 0xffffffff];
    setsockopt $socket, SOL_SOCKET, 26, pack('S x6 P', 5, $program) or die "SO_ATTACH_FILTER: $!";
    connect $socket, sockaddr_in($port, INADDR_LOOPBACK) or $! == EINPROGRESS or die "connect: $!";
    print "begun\n";
    <STDIN>;
    setsockopt $socket, SOL_SOCKET, 27, 0 or die "SO_DETACH_FILTER: $!";
    vec(my $bits = '', fileno $socket, 1) = 1;
    select undef, my $writable = $bits, undef, 10 or die 'the handshake does not end';
    syswrite $socket, "GET / HTTP/1.1\r\nHost: test\r\n\r\n" or die "send: $!";
    select my $readable = $bits, undef, undef, 10;
    sysread $socket, my $answer, 4096 or die "receive: $!";
    print $answer =~ /(.*)\r/;
"#;

#[test]
fn a_handshake_that_had_begun_is_finished_and_its_client_is_answered() {
    let mut server = native(&["--workers", "2"]);
    let address = server.address();
    server.wait_for_workers(2);
    let mut client = Command::new("perl");
    client.args(["-e", LATE_CLIENT, &address.port().to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut client = client.spawn().expect("perl is there");
    let mut output = BufReader::new(client.stdout.take().expect("it is a pipe"));
    let mut line = String::new();
    output.read_line(&mut line).expect("it says something");
    assert_eq!(line, "begun\n");
    server.signal(Signal::TERM);
    server.wait_for_log("stopping");
    wait_until("those that accept have ended", || server.acceptors().is_empty());
    client.stdin.take().expect("it is a pipe").write_all(b"\n").expect("it reads");
    line.clear();
    output.read_line(&mut line).expect("it says something");
    assert_eq!(line, "HTTP/1.1 200 OK", "{}", server.log());
    client.wait().expect("it ends");
    assert_eq!(server.wait(), 0, "{}", server.log());
}
