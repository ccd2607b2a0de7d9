//! Black-box tests of the last deadline of an app: if an app keeps its client waiting too long and cannot be interrupted, its
//! worker is killed. `roles` explains why these tests have no test harness.

use client::{Load, Manner, Target, get_from};
use oribi_host::{After, Host, Reply, Request, Runtime};
use oribi_message::ResponseHead;
use oribi_server::config::{EdgeChoice, ListenAddress, Settings, Timeouts, sandbox_choice, value};
use oribi_test_support::{client, roles, server};
use rustix::process::Signal;
use server::{Server, runs, wait_until};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

/// Long enough for an app to do something on a busy machine, short enough to wait for.
const TIMEOUT: Duration = Duration::from_secs(2);

fn main() {
    if roles::role().is_some() {
        std::process::exit(oribi_server::process::supervise(&settings(), &Sleepy));
    }
    roles::run(&[
        ("a_worker_whose_app_is_stuck_is_ended_and_replaced", a_worker_whose_app_is_stuck_is_ended_and_replaced),
        ("the_other_threads_of_its_worker_may_finish", the_other_threads_of_its_worker_may_finish),
        ("an_app_that_gets_on_may_take_longer", an_app_that_gets_on_may_take_longer),
        ("a_slow_client_is_not_the_fault_of_the_app", a_slow_client_is_not_the_fault_of_the_app),
        ("a_stuck_app_does_not_hold_up_the_end", a_stuck_app_does_not_hold_up_the_end),
        ("a_stuck_app_does_not_outlive_its_supervisor", a_stuck_app_does_not_outlive_its_supervisor),
        ("an_edge_has_stuck_workers_ended_and_answers_for_them", an_edge_has_stuck_workers_ended_and_answers_for_them),
        ("what_takes_too_long_at_the_end_is_cut_off_at_edges_too", what_takes_too_long_at_the_end_is_cut_off_at_edges_too),
    ]);
}

fn settings() -> Settings {
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(1);
    // Longer than a test waits for the end of a server, unless it is about that.
    let graceful = Duration::from_secs(if std::env::var_os("ORIBI_TEST_IMPATIENT").is_some() { 1 } else { 600 });
    let mut settings = Settings {
        listen: vec![ListenAddress::tcp("127.0.0.1", 0)],
        workers: number("ORIBI_TEST_WORKERS").into(),
        threads: number("ORIBI_TEST_THREADS"),
        // A replacement that waited for this would arrive too late for a test.
        respawn_interval: Duration::from_secs(600),
        edge: std::env::var("ORIBI_EDGE").map_or(EdgeChoice::Off, |choice| value::edge_choice(&choice).expect("it is one")),
        edge_sandbox: std::env::var("ORIBI_EDGE_SANDBOX")
            .map_or_else(|_| Default::default(), |choice| sandbox_choice(&choice).expect("fits")),
        request_kill: Some(TIMEOUT),
        timeouts: Timeouts { graceful, ..Settings::default().timeouts },
        ..Settings::default()
    };
    // A client that does not read holds up its app.
    settings.limits.output_spool_bytes = 0;
    oribi_server::log::prepare(&settings).expect("standard error is there");
    settings
}

struct Sleepy;

impl Runtime for Sleepy {
    fn open(&self, _own: bool) -> Result<Box<dyn Host>, String> {
        Ok(Box::new(Self))
    }
}

/// The number of pieces that `/pieces` sends within the time that an app may take for one piece. It sends twice as many in all.
const PIECES: u32 = 8;
const LARGE: usize = 32 << 20;

impl Host for Sleepy {
    fn answer(&mut self, request: &Request<'_>, reply: Reply<'_>) -> After {
        let head = ResponseHead { status: 200, fields: &[] };
        let target = str::from_utf8(request.head.target()).expect("tests are plain");
        match target {
            "/stuck" => {
                eprintln!("sleeps");
                std::thread::sleep(TIMEOUT * 100);
            }
            "/pieces" => {
                let mut body = reply.start(head).expect("the client waits");
                for _ in 0..PIECES {
                    std::thread::sleep(TIMEOUT * 2 / PIECES);
                    body.write(b"piece ").expect("the client waits");
                }
                body.finish().expect("the client waits");
                return After::default();
            }
            "/large" => {
                let mut body = reply.start(head).expect("the client waits");
                body.write(&vec![b'x'; LARGE]).expect("the client waits");
                body.finish().expect("the client waits");
                return After::default();
            }
            _ if target.starts_with("/until/") => {
                eprintln!("waits for a file");
                let file = Path::new(target.strip_prefix("/until").expect("it does"));
                wait_until("the file", || file.exists());
            }
            _ => {}
        }
        reply.send(head, &[b"hello"]).expect("the client waits");
        After::default()
    }
}

fn start(workers: &str, threads: &str) -> Server {
    roles::start("server", &[("ORIBI_TEST_WORKERS", workers), ("ORIBI_TEST_THREADS", threads)])
}

/// The same, but workers have their own connections, even if the environment demands edges for the tests.
fn start_without_edge(workers: &str, threads: &str) -> Server {
    let variables = [("ORIBI_TEST_WORKERS", workers), ("ORIBI_TEST_THREADS", threads), ("ORIBI_EDGE", "off")];
    roles::start("server", &variables)
}

/// A connection with a request for `path`.
fn ask(server: &mut Server, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).expect("it listens");
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").as_bytes()).expect("connected");
    stream
}

fn a_worker_whose_app_is_stuck_is_ended_and_replaced() {
    let mut server = start_without_edge("1", "1");
    let target = Target::Tcp(server.address());
    for round in 1..=2 {
        let worker = server.wait_for_workers(1)[0];
        let error = get_from(&target, "/stuck").err().expect("it is never answered");
        server.wait_for_log(&format!("(pid {worker}) is stopped: its app has done nothing for 2 s: GET /stuck"));
        wait_until("its end", || !runs(worker));
        get_from(&target, "/").unwrap_or_else(|_| panic!("round {round}: a new worker serves ({error})"));
    }
    let load = Load::start(&target, 4, Manner::KeepAlive);
    load.wait_for_more(500);
    assert_eq!(load.stop(), Vec::<String>::new());
    assert!(!server.log().contains("the next worker starts in"), "{}", server.log());
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), 0, "{}", server.log());
}

fn an_edge_has_stuck_workers_ended_and_answers_for_them() {
    let mut server = roles::start("server", &[("ORIBI_EDGE", "on"), ("ORIBI_TEST_WORKERS", "1")]);
    let target = Target::Tcp(server.address());
    for _ in 0..2 {
        let worker = server.wait_for_workers(1)[0];
        let answer = get_from(&target, "/stuck").expect("the edge answers");
        assert!(answer.text.starts_with("HTTP/1.1 50"), "{}", answer.text);
        server.wait_for_log(&format!("(pid {worker}) is stopped: its app does not react"));
        wait_until("its end", || !runs(worker));
        // It is replaced at once.
        get_from(&target, "/").expect("another worker answers");
    }
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), 0, "{}", server.log());
}

fn what_takes_too_long_at_the_end_is_cut_off_at_edges_too() {
    let variables = [("ORIBI_EDGE", "on"), ("ORIBI_TEST_WORKERS", "2"), ("ORIBI_TEST_IMPATIENT", "1")];
    let mut server = roles::start("server", &variables);
    let _stuck = ask(&mut server, "/stuck");
    server.wait_for_log("sleeps");
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), 1, "{}", server.log());
    assert!(server.log().contains("time to finish is over: killed the edges with 1 open connection"), "{}", server.log());
}

fn the_other_threads_of_its_worker_may_finish() {
    let folder = server::Folder::new();
    let file = folder.file("go");
    let mut server = start_without_edge("1", "2");
    server.address();
    let worker = server.wait_for_workers(1)[0];
    let mut stuck = ask(&mut server, "/stuck");
    // If both were called at the same time, both would be stuck.
    std::thread::sleep(TIMEOUT / 2);
    let mut other = ask(&mut server, &format!("/until{}", file.display()));
    server.wait_for_log("waits for a file");
    server.wait_for_log("is stopped: its app has done nothing for 2 s: GET /stuck");
    assert!(runs(worker), "the other thread has not finished");
    std::fs::write(&file, "").expect("the folder is writable");
    let mut answer = String::new();
    other.read_to_string(&mut answer).expect("it is answered");
    assert!(answer.ends_with("hello"), "{answer}");
    wait_until("its end", || !runs(worker));
    assert!(stuck.read_to_string(&mut answer).is_err() || answer.ends_with("hello"), "nothing came of the stuck one");
    get_from(&Target::Tcp(server.address()), "/").expect("a new worker serves");
}

fn an_app_that_gets_on_may_take_longer() {
    let mut server = start("1", "1");
    let mut answer = String::new();
    ask(&mut server, "/pieces").read_to_string(&mut answer).expect("it is answered");
    assert_eq!(answer.matches("piece ").count(), PIECES as usize, "{answer}");
    assert!(!server.log().contains("is stopped"), "{}", server.log());
}

fn a_slow_client_is_not_the_fault_of_the_app() {
    let mut server = start("1", "1");
    let mut slow = ask(&mut server, "/large");
    // Nothing is to happen meanwhile, which cannot be waited for.
    std::thread::sleep(TIMEOUT * 2);
    let mut answer = Vec::new();
    slow.read_to_end(&mut answer).expect("it is answered");
    assert!(answer.len() > LARGE, "{} bytes", answer.len());
    assert!(!server.log().contains("is stopped"), "{}", server.log());
}

/// With an edge, the client of the stuck app gets an answer, so nothing has failed, and the exit status is 0.
fn a_stuck_app_does_not_hold_up_the_end() {
    for (edge, status, told) in [("off", 1, ""), ("on", 0, "HTTP/1.1 502 ")] {
        let mut server = roles::start("server", &[("ORIBI_TEST_WORKERS", "1"), ("ORIBI_EDGE", edge)]);
        let mut stuck = ask(&mut server, "/stuck");
        server.wait_for_log("sleeps");
        server.signal(Signal::TERM);
        assert_eq!(server.wait(), status, "{}", server.log());
        assert!(server.log().contains("GET /stuck"), "{}", server.log());
        let mut answer = String::new();
        let _ = stuck.read_to_string(&mut answer);
        assert!(answer.starts_with(told) && answer.is_empty() == told.is_empty(), "{answer}");
    }
}

fn a_stuck_app_does_not_outlive_its_supervisor() {
    let variables = [("ORIBI_TEST_WORKERS", "1"), ("ORIBI_TEST_IMPATIENT", "1")];
    let mut server = roles::start("server", &variables);
    let _stuck = ask(&mut server, "/stuck");
    server.wait_for_log("sleeps");
    let worker = server.wait_for_workers(1)[0];
    server.signal(Signal::KILL);
    wait_until("the end of the worker", || !runs(worker));
}
