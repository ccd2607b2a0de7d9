//! Stopping: accepted clients get their answers, and stopping is quick when it must be.

use crate::client::{Load, Manner, Target, get};
use crate::server::{Server, runs, send, wait_until};
use crate::wire::Wire;
use crate::{native, tcp};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

fn stops_under_load(target: &Target, server: &mut Server, manner: Manner, signal: Signal) {
    let load = Load::start(target, 8, manner);
    load.wait_for_more(1000);
    server.signal(signal);
    assert_eq!(load.wait(), Vec::<String>::new(), "{manner:?} {signal:?}");
    assert_eq!(server.wait(), 0, "{}", server.log());
}

/// Sends a request that never ends and that keeps the only worker of a server busy.
fn unfinished_request(address: SocketAddr) -> Wire {
    let mut stream = Wire::of_http1(address).expect("it listens");
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

/// Starts `oribi --native hello` without the capabilities of root; some kernels then permit no packet filter on a socket.
fn unprivileged(arguments: &[&str]) -> Server {
    let program = env!("CARGO_BIN_EXE_oribi");
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set=-all", "--inh-caps=-all", program]);
        command
    } else {
        Command::new(program)
    };
    Server::run(command.args(["--native", "hello", "--listen", "127.0.0.1:0"]).args(arguments))
}

#[test]
fn no_connection_is_lost_either_if_the_system_permits_no_filter() {
    for edge in ["off", "on"] {
        let mut server = unprivileged(&["--workers", "2", "--edge", edge]);
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
        send(worker, Signal::TERM);
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
            send(*worker, signal);
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
        // A signal within a quarter of a second counts as an echo of the first.
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
    let cut = log.split_once("time to finish is over: killed ").map(|(_, what)| what.lines().next().unwrap_or_default());
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

/// A client that ignores the server's part of the TCP handshake until the test lets it continue. Then it sends its request, and
/// prints the first line of the answer. Before that it prints a line when it has begun. Its packet filter is like that of
/// `ignore_new_connections`, but drops SYN with ACK.
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

/// Starts a client that has begun its handshake, and that continues when it reads a line.
fn late_client(address: SocketAddr) -> (Child, BufReader<ChildStdout>) {
    let mut client = Command::new("perl");
    client.args(["-e", LATE_CLIENT, &address.port().to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut client = client.spawn().expect("perl is there");
    let mut output = BufReader::new(client.stdout.take().expect("it is a pipe"));
    let mut line = String::new();
    output.read_line(&mut line).expect("it says something");
    assert_eq!(line, "begun\n");
    (client, output)
}

/// The process that accepts connections continues to run until this connection is complete, however long the handshake takes.
#[test]
fn a_handshake_that_had_begun_is_finished_and_its_client_is_answered_by_those_who_are_there() {
    let mut server = native(&["--workers", "2"]);
    let address = server.address();
    server.wait_for_workers(2);
    let _takes_long = unfinished_request(address);
    let (mut client, mut output) = late_client(address);
    let acceptors = server.acceptors();
    server.signal(Signal::TERM);
    server.wait_for_log("stopping");
    client.stdin.take().expect("it is a pipe").write_all(b"\n").expect("it reads");
    let mut line = String::new();
    output.read_line(&mut line).expect("it says something");
    assert_eq!(line, "HTTP/1.1 200 OK", "{}", server.log());
    assert!(server.acceptors().iter().all(|acceptor| acceptors.contains(acceptor)), "{}", server.log());
    assert!(server.exit_status().is_none(), "it waits for the request");
    client.wait().expect("it ends");
}

#[test]
fn a_handshake_that_never_ends_does_not_keep_a_server_for_long() {
    let mut server = native(&["--workers", "2"]);
    let address = server.address();
    server.wait_for_workers(2);
    let (mut client, _) = late_client(address);
    let begun = Instant::now();
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), 0, "{}", server.log());
    // Half of --graceful-timeout.
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    client.kill().expect("it waits");
    client.wait().expect("it ends");
}

#[test]
fn who_waits_when_all_that_accept_die_during_the_stop_is_answered_by_another_process() {
    let mut server = native(&["--workers", "2"]);
    let address = server.address();
    server.wait_for_workers(2);
    let acceptors = server.acceptors();
    acceptors.iter().for_each(|acceptor| send(*acceptor, Signal::STOP));
    let clients: Vec<TcpStream> = (0..8)
        .map(|_| {
            let mut stream = TcpStream::connect(address).expect("it listens");
            stream.write_all(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n").expect("it is connected");
            stream
        })
        .collect();
    server.signal(Signal::TERM);
    server.wait_for_log("stopping");
    acceptors.iter().for_each(|acceptor| send(*acceptor, Signal::KILL));
    for mut client in clients {
        let mut answer = [0; 15];
        client.read_exact(&mut answer).unwrap_or_else(|error| panic!("{error}: {}", server.log()));
        assert_eq!(&answer, b"HTTP/1.1 200 OK");
    }
    assert_eq!(server.wait(), 0, "{}", server.log());
}

/// A program inherits the signal mask of the process that starts it.
#[test]
fn signals_that_were_blocked_before_the_start_are_obeyed() {
    let script =
        "use POSIX; sigprocmask(SIG_BLOCK, POSIX::SigSet->new(SIGTERM, SIGHUP, SIGALRM, SIGQUIT)); exec { $ARGV[0] } @ARGV";
    for edge in ["off", "on"] {
        let mut command = Command::new("perl");
        command.args([
            "-e",
            script,
            env!("CARGO_BIN_EXE_oribi"),
            "--native",
            "hello",
            "--listen",
            "127.0.0.1:0",
            "--edge",
            edge,
        ]);
        // The exporter has a signal of its own for its end. The collector's address has no listener.
        command.args(["--traces", "--trace-export", "http://127.0.0.1:9"]);
        let mut server = Server::run(&mut command);
        server.address();
        server.signal(Signal::HUP);
        server.wait_for_log("all workers have been replaced");
        server.signal(Signal::TERM);
        assert_eq!(server.wait(), 0, "{}", server.log());
        assert!(!server.log().contains("does not end"), "{}", server.log());
    }
}
