//! The program against servers that the test controls, right or wrong.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const RIGHT: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde";
const STALL: Duration = Duration::from_millis(200);

/// A client as the server sees it.
struct Client {
    stream: BufReader<TcpStream>,
    /// The number of earlier requests on all connections.
    number: usize,
    /// The number of earlier requests on this connection.
    here: usize,
}

impl Client {
    /// The next request's head; `None` when there is none.
    fn request(&mut self) -> Option<String> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.stream.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        Some(head)
    }

    fn send(&mut self, bytes: &[u8]) {
        // One that has gone is the client's affair.
        let _ = self.stream.get_mut().write_all(bytes);
    }
}

/// Starts a server that calls `answer` with each request; it ends the connection if `answer` returns `false`.
fn serve(answer: impl Fn(&mut Client, &str) -> bool + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("it has one");
    let (answer, requests) = (Arc::new(answer), Arc::new(AtomicUsize::new(0)));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (answer, requests) = (answer.clone(), requests.clone());
            let stream = BufReader::new(stream.expect("a connection"));
            thread::spawn(move || {
                let mut client = Client { stream, number: 0, here: 0 };
                while let Some(head) = client.request() {
                    client.number = requests.fetch_add(1, SeqCst);
                    if !answer(&mut client, &head) {
                        break;
                    }
                    client.here += 1;
                }
            });
        }
    });
    address
}

/// The program's output, and its status.
struct Outcome {
    line: String,
    right: bool,
}

impl Outcome {
    fn number(&self, name: &str) -> f64 {
        let (_, rest) = self.line.split_once(&format!("\"{name}\":")).unwrap_or_else(|| panic!("{name} in {}", self.line));
        let end = rest.find([',', '}']).unwrap_or(rest.len());
        rest[..end].parse().unwrap_or_else(|_| panic!("{name} in {}", self.line))
    }

    /// Only this kind of error was counted.
    fn expect_only(&self, kind: &str) {
        for name in ["connect", "broken", "short", "status", "mismatch", "timeout"] {
            assert_eq!(self.number(name) > 0.0, name == kind, "{kind}: {}", self.line);
        }
        assert_eq!(self.right, kind.is_empty(), "{}", self.line);
    }

    fn expect_clean(&self) {
        self.expect_only("");
        assert!(self.number("responses") > 0.0, "{}", self.line);
        assert_eq!(self.number("responses"), self.number("requests"), "{}", self.line);
    }
}

fn program(address: &str, more: &[&str]) -> (Child, BufReader<ChildStdout>) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_oribi-load"))
        .args(["--address", address, "--body", "5"])
        .args(more)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let out = BufReader::new(child.stdout.take().expect("a pipe"));
    (child, out)
}

fn next_line(out: &mut impl BufRead) -> String {
    let mut line = String::new();
    out.read_line(&mut line).expect("text");
    line.trim_end().to_owned()
}

fn load_at(address: &str, more: &[&str]) -> Outcome {
    let (mut child, mut out) = program(address, more);
    assert_eq!(next_line(&mut out), "ready");
    child.stdin.take().expect("a pipe").write_all(b"go\n").expect("it reads");
    let line = next_line(&mut out);
    let right = child.wait().expect("it ends").success();
    Outcome { line, right }
}

fn load(address: SocketAddr, more: &[&str]) -> Outcome {
    load_at(&address.to_string(), more)
}

const BRIEF: [&str; 4] = ["--seconds", "0.2", "--connections", "2"];
const PATIENCE: [&str; 6] = ["--seconds", "0.2", "--connections", "2", "--timeout", "2"];

/// Starts a server that answers the first request of each connection, with which the load opens it. `answer` handles the
/// others.
fn serve_after_first(answer: impl Fn(&mut Client) -> bool + Send + Sync + 'static) -> SocketAddr {
    serve(move |client, _| {
        if client.here > 0 {
            return answer(client);
        }
        client.send(RIGHT);
        true
    })
}

#[test]
fn right_answers_are_counted() {
    let address = serve_after_first(|client| {
        client.send(RIGHT);
        true
    });
    let outcome = load(address, &["--seconds", "0.2", "--connections", "8", "--active", "3"]);
    outcome.expect_clean();
    assert_eq!(outcome.number("bytes"), outcome.number("responses") * RIGHT.len() as f64);
    assert_eq!((outcome.number("connections_open"), outcome.number("idle_lost")), (8.0, 0.0));
    assert!(outcome.number("p50_us") > 0.0 && outcome.number("p50_us") <= outcome.number("max_us"), "{}", outcome.line);
}

#[test]
fn pieces_make_whole_answers() {
    let address = serve_after_first(|client| {
        for piece in RIGHT.chunks(7) {
            client.send(piece);
            thread::sleep(Duration::from_millis(1));
        }
        true
    });
    load(address, &BRIEF).expect_clean();
}

#[test]
fn a_server_that_is_not_there() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("it has one");
    drop(listener);
    // Short connections are not opened beforehand.
    load_at(&address.to_string(), &["--pattern", "short", "--seconds", "0.1"]).expect_only("connect");
    load_at("unix:/nonexistent/socket", &["--pattern", "short", "--seconds", "0.1"]).expect_only("connect");
    let (mut child, mut out) = program(&address.to_string(), &[]);
    assert_eq!((next_line(&mut out), child.wait().expect("it ends").success()), (String::new(), false));
}

#[test]
fn connections_that_end_before_the_answer() {
    load(serve_after_first(|_| false), &BRIEF).expect_only("broken");
}

#[test]
fn answers_that_are_none() {
    let ssh = serve_after_first(|client| {
        client.send(b"SSH-2.0-OpenSSH_9.2p1 Debian\r\n\r\n");
        true
    });
    load(ssh, &BRIEF).expect_only("broken");
}

#[test]
fn bytes_behind_the_answer() {
    let more = serve_after_first(|client| {
        client.send(&[RIGHT, b"more"].concat());
        true
    });
    load(more, &BRIEF).expect_only("broken");
}

#[test]
fn bytes_that_nobody_asked_for() {
    let requests = Arc::new(AtomicUsize::new(0));
    // The first request is that of the idle connection, and the load has begun when there are some more.
    let chatty = serve(move |client, _| {
        client.send(RIGHT);
        requests.fetch_add(1, SeqCst);
        if client.number == 0 {
            let (requests, mut idle) = (requests.clone(), client.stream.get_ref().try_clone().expect("a descriptor"));
            thread::spawn(move || {
                while requests.load(SeqCst) < 4 {
                    thread::sleep(Duration::from_millis(1));
                }
                let _ = idle.write_all(b"hello?");
            });
        }
        client.number == 0
    });
    load(chatty, &["--pattern", "short", "--connections", "2", "--active", "1", "--seconds", "0.5"]).expect_only("broken");
}

#[test]
fn answers_that_end_early() {
    let in_head = serve_after_first(|client| {
        client.send(&RIGHT[..20]);
        false
    });
    load(in_head, &BRIEF).expect_only("short");
    let in_content = serve_after_first(|client| {
        client.send(&RIGHT[..RIGHT.len() - 1]);
        false
    });
    load(in_content, &BRIEF).expect_only("short");
}

#[test]
fn statuses_of_failure() {
    let failing = serve_after_first(|client| {
        client.send(b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 4\r\n\r\noops");
        true
    });
    let outcome = load(failing, &BRIEF);
    outcome.expect_only("status");
    assert_eq!(outcome.number("responses"), 0.0);
    assert_eq!(outcome.number("status"), outcome.number("requests"), "{}", outcome.line);
}

#[test]
fn content_of_the_wrong_length() {
    for wrong in ["4\r\n\r\nabcd", "6\r\n\r\nabcdef", "0\r\n\r\n"] {
        let address = serve_after_first(move |client| {
            client.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {wrong}").as_bytes());
            true
        });
        load(address, &BRIEF).expect_only("mismatch");
    }
}

#[test]
fn wrong_bytes() {
    let address = serve_after_first(|client| {
        client.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcdf");
        true
    });
    load(address, &BRIEF).expect_only("mismatch");
}

#[test]
fn a_server_that_never_answers() {
    let address = serve_after_first(|_| true);
    let outcome = load(address, &PATIENCE);
    outcome.expect_only("timeout");
    assert_eq!(outcome.number("timeout"), outcome.number("requests"), "{}", outcome.line);
}

#[test]
fn a_short_connection_that_the_server_leaves_open() {
    let address = serve(|client, _| {
        client.send(RIGHT);
        true
    });
    load(address, &[&PATIENCE[..], &["--pattern", "short"]].concat()).expect_only("timeout");
}

#[test]
fn idle_connections_that_are_lost() {
    // Short connections are not opened beforehand, so the first four requests are those of the idle ones.
    let address = serve(|client, _| {
        client.send(RIGHT);
        client.number < 2
    });
    let outcome = load(address, &["--pattern", "short", "--connections", "5", "--active", "1", "--seconds", "0.2"]);
    outcome.expect_clean();
    assert_eq!((outcome.number("idle_lost"), outcome.number("connections_open")), (2.0, 2.0), "{}", outcome.line);
}

#[test]
fn a_close_that_was_announced_is_no_fault() {
    let address = serve_after_first(|client| {
        client.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nabcde");
        false
    });
    let outcome = load(address, &BRIEF);
    outcome.expect_clean();
    assert!(outcome.number("reopened") > 0.0, "{}", outcome.line);
}

#[test]
fn short_connections_are_ended_by_the_server() {
    let wrong = Arc::new(Mutex::new(String::new()));
    let seen = wrong.clone();
    let address = serve(move |client, head| {
        client.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nabcde");
        client.stream.get_mut().set_read_timeout(Some(Duration::from_millis(1))).expect("a time");
        let early = client.stream.read(&mut [0; 1]).map_err(|error| error.kind());
        if !head.contains("Connection: close\r\n") || !matches!(early, Err(ErrorKind::WouldBlock)) {
            *seen.lock().expect("whole") = format!("before the end: {early:?}, {head}");
        }
        client.stream.get_mut().set_read_timeout(None).expect("no time");
        let _ = client.stream.get_mut().shutdown(Shutdown::Write);
        let end = client.stream.read(&mut [0; 1]);
        if !matches!(end, Ok(0)) {
            *seen.lock().expect("whole") = format!("after the end: {end:?}");
        }
        false
    });
    load(address, &["--pattern", "short", "--seconds", "0.3", "--connections", "4"]).expect_clean();
    assert_eq!(*wrong.lock().expect("whole"), "");
}

#[test]
fn pipelined_requests_come_together() {
    let least = Arc::new(AtomicUsize::new(usize::MAX));
    let seen = least.clone();
    let address = serve(move |client, _| {
        client.send(RIGHT);
        if client.here == 1 {
            // The first of a batch: the others have arrived with it.
            seen.fetch_min(client.stream.buffer().iter().filter(|&&byte| byte == b'G').count(), SeqCst);
        }
        true
    });
    let outcome = load(address, &["--pattern", "pipelined", "--depth", "7", "--seconds", "0.2"]);
    outcome.expect_clean();
    assert_eq!(outcome.number("requests") % 7.0, 0.0);
    assert_eq!(least.load(SeqCst), 6);
}

#[test]
fn all_requests_of_a_broken_pipeline_are_lost() {
    let address = serve_after_first(|client| {
        if client.here % 7 == 3 {
            return false;
        }
        client.send(RIGHT);
        true
    });
    let outcome = load(address, &["--pattern", "pipelined", "--depth", "7", "--seconds", "0.2", "--connections", "2"]);
    outcome.expect_only("broken");
    assert_eq!(outcome.number("responses") + outcome.number("broken"), outcome.number("requests"), "{}", outcome.line);
}

#[test]
fn content_is_sent_whole() {
    let address = serve(|client, head| {
        assert!(head.starts_with("POST /there HTTP/1.1\r\n") && head.contains("Content-Length: 300000\r\n"), "{head}");
        let mut content = vec![0; 300_000];
        if client.stream.read_exact(&mut content).is_err() {
            return false;
        }
        let right = content.iter().enumerate().all(|(place, &byte)| byte == b'a' + (place % 26) as u8);
        client.send(if right { RIGHT } else { b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n" });
        true
    });
    load(address, &[&BRIEF[..], &["--content", "300000", "--path", "/there"]].concat()).expect_clean();
}

#[test]
fn sources_are_taken_in_turn() {
    let seen = Arc::new(Mutex::new(std::collections::BTreeSet::new()));
    let sources = seen.clone();
    let address = serve(move |client, _| {
        sources.lock().expect("whole").insert(client.stream.get_ref().peer_addr().expect("one").ip().to_string());
        client.send(RIGHT);
        true
    });
    load(address, &["--sources", "3", "--connections", "6", "--seconds", "0.1"]).expect_clean();
    assert_eq!(seen.lock().expect("whole").iter().collect::<Vec<_>>(), ["127.0.0.2", "127.0.0.3", "127.0.0.4"]);
}

/// Stalls once, when about a third of a second's requests are answered.
fn serve_with_a_stall() -> SocketAddr {
    let stalls = AtomicUsize::new(0);
    serve(move |client, _| {
        if client.number >= 300 && stalls.fetch_add(1, SeqCst) == 0 {
            thread::sleep(STALL);
        }
        client.send(RIGHT);
        true
    })
}

#[test]
fn an_open_loop_does_not_hide_a_stall() {
    let one = ["--connections", "1", "--seconds", "1"];
    // A fifth of the requests were due meanwhile, and they count from when they were due.
    let open = load(serve_with_a_stall(), &[&one[..], &["--rate", "1000"]].concat());
    open.expect_clean();
    assert_eq!(open.number("requests"), 1000.0);
    assert!(open.number("p99_us") >= 150_000.0, "{}", open.line);
    // The same stall delays one request of a closed loop: no quantile shows it, while there are more than a hundred.
    let closed = load(serve_with_a_stall(), &one);
    closed.expect_clean();
    assert!(closed.number("requests") > 300.0 && closed.number("max_us") >= 200_000.0, "{}", closed.line);
    assert!(closed.number("p99_us") < 150_000.0, "{}", closed.line);
}

#[test]
fn requests_that_wait_for_a_connection_count() {
    let address = serve(|client, _| {
        thread::sleep(Duration::from_millis(2));
        client.send(RIGHT);
        true
    });
    // Twice as many are due as one connection can take.
    let outcome = load(address, &["--rate", "1000", "--seconds", "0.5", "--connections", "1"]);
    outcome.expect_clean();
    assert_eq!(outcome.number("requests"), 500.0);
    assert!(outcome.number("max_us") >= 450_000.0, "{}", outcome.line);
}

#[test]
fn requests_that_never_get_a_connection_are_faults() {
    let address = serve(|client, _| {
        if client.number == 100 {
            thread::sleep(Duration::from_secs(60));
        }
        client.send(RIGHT);
        true
    });
    let slow = ["--rate", "1000", "--seconds", "0.5", "--connections", "1", "--timeout", "1"];
    let outcome = load(address, &slow);
    assert!(outcome.number("timeout") > 0.0 && !outcome.right, "{}", outcome.line);
    assert_eq!(outcome.number("requests"), 500.0);
    assert_eq!(outcome.number("responses") + outcome.number("timeout"), 500.0, "{}", outcome.line);
}

#[test]
fn slow_readers_take_no_more_than_they_should() {
    let content: Vec<u8> = (b'a'..=b'z').cycle().take(300_000).collect();
    let address = serve(move |client, _| {
        client.send(b"HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n");
        client.send(&content);
        true
    });
    let outcome = load(address, &["--body", "300000", "--reader", "20000", "--connections", "2", "--seconds", "2"]);
    outcome.expect_only("");
    // A portion more, for where the first one begins.
    let most = 2.0 * (20_000.0 * outcome.number("seconds") + 2000.0);
    assert!(outcome.number("bytes") > 0.0 && outcome.number("bytes") <= most, "{}", outcome.line);
    assert_eq!(outcome.number("connections_open"), 2.0);
}

#[test]
fn slow_readers_find_the_wrong_byte() {
    let address = serve(|client, _| {
        let last: &[u8] = if client.here > 0 { b"#" } else { b"e" };
        client.send(&[&RIGHT[..RIGHT.len() - 1], last].concat());
        true
    });
    load(address, &["--reader", "1000", "--connections", "2", "--seconds", "2"]).expect_only("mismatch");
}

#[test]
fn slow_senders_take_their_time() {
    let address = serve(|client, _| {
        client.send(RIGHT);
        true
    });
    let outcome = load(address, &["--sender", "100", "--connections", "2", "--seconds", "3"]);
    outcome.expect_only("");
    // 40 bytes and more in portions of 10, each a tenth of a second after the one before.
    assert!(outcome.number("responses") > 0.0 && outcome.number("p50_us") >= 400_000.0, "{}", outcome.line);
}

#[test]
fn it_waits_for_its_line_and_keeps_its_connections() {
    let (requests, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (seen, gone) = (requests.clone(), ended.clone());
    let address = serve(move |client, _| {
        seen.fetch_add(1, SeqCst);
        client.send(RIGHT);
        if client.here == 0 {
            let mut other = client.stream.get_ref().try_clone().expect("a descriptor");
            let gone = gone.clone();
            thread::spawn(move || {
                while other.peek(&mut [0; 1]).is_ok_and(|bytes| bytes > 0) {
                    thread::sleep(Duration::from_millis(1));
                }
                let _ = other.flush();
                gone.fetch_add(1, SeqCst);
            });
        }
        true
    });
    let (mut child, mut out) = program(&address.to_string(), &["--connections", "3", "--seconds", "0.1"]);
    assert_eq!(next_line(&mut out), "ready");
    thread::sleep(Duration::from_millis(50));
    assert_eq!(requests.load(SeqCst), 3, "one for each connection and none more");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(b"\n").expect("it reads");
    assert!(next_line(&mut out).starts_with("{\"responses\":"));
    thread::sleep(Duration::from_millis(50));
    assert_eq!(ended.load(SeqCst), 0, "they stay open");
    drop(input);
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn each_line_loads_the_same_connections_again() {
    let connections = Arc::new(AtomicUsize::new(0));
    let seen = connections.clone();
    let address = serve(move |client, _| {
        if client.here == 0 {
            seen.fetch_add(1, SeqCst);
        }
        client.send(RIGHT);
        true
    });
    let (mut child, mut out) = program(&address.to_string(), &["--connections", "3", "--seconds", "0.05"]);
    assert_eq!(next_line(&mut out), "ready");
    let mut input = child.stdin.take().expect("a pipe");
    let mut order = |line: &str| {
        input.write_all(line.as_bytes()).expect("it reads");
        Outcome { line: next_line(&mut out), right: true }
    };
    let (first, fixed, again) = (order("go\n"), order("0.2 100\n"), order("0.05\n"));
    assert_eq!((fixed.number("requests"), fixed.number("responses")), (20.0, 20.0), "{}", fixed.line);
    assert!(first.number("responses") > 0.0 && again.number("responses") > 0.0);
    assert_eq!(again.number("connections_open"), 3.0);
    drop(input);
    assert!(child.wait().expect("it ends").success());
    assert_eq!(connections.load(SeqCst), 3);
}

#[test]
fn a_line_that_makes_no_sense_is_refused() {
    let address = serve(|client, _| {
        client.send(RIGHT);
        true
    });
    for line in ["soon\n", "1 -5\n", "1 2 3\n"] {
        let (mut child, mut out) = program(&address.to_string(), &["--connections", "1"]);
        assert_eq!(next_line(&mut out), "ready");
        child.stdin.take().expect("a pipe").write_all(line.as_bytes()).expect("it reads");
        assert!(!child.wait().expect("it ends").success(), "{line}");
    }
}

#[test]
fn lines_that_come_together_are_loads_one_after_the_other() {
    let address = serve(|client, _| {
        client.send(RIGHT);
        true
    });
    let (mut child, mut out) = program(&address.to_string(), &["--seconds", "0.05"]);
    child.stdin.take().expect("a pipe").write_all(b"go\n0.05 100\n").expect("it reads");
    assert_eq!(next_line(&mut out), "ready");
    assert!(next_line(&mut out).contains("\"mismatch\":0"));
    assert!(next_line(&mut out).contains("\"requests\":5,"));
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn without_body_all_answers_must_be_like_the_first() {
    let same = serve(|client, _| {
        client.send(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nxyz");
        true
    });
    let outcome = |address: SocketAddr| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_oribi-load"))
            .args(["--address", &address.to_string(), "--seconds", "0.1", "--connections", "2"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        child.stdin.take().expect("a pipe").write_all(b"go\n").expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        let line = String::from_utf8_lossy(&output.stdout).lines().last().unwrap_or_default().to_owned();
        Outcome { line, right: output.status.success() }
    };
    outcome(same).expect_clean();
    let other = serve(|client, _| {
        let letter = if client.number > 20 { "b" } else { "a" };
        client.send(format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{letter}").as_bytes());
        true
    });
    outcome(other).expect_only("mismatch");
}
