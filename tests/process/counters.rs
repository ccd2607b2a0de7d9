//! The counters of a server: they are exact, and they only grow, also when its processes end.

use crate::native;
use crate::server::{Folder, Server, descendants, send, wait_until};
use crate::status::{Counters, order};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

/// A server, its control socket and the folder of that socket.
pub struct Site {
    pub server: Server,
    pub control: PathBuf,
    _folder: Folder,
}

impl Site {
    pub fn start(arguments: &[&str]) -> Self {
        let folder = Folder::new();
        let control = folder.file("control.sock");
        let mut server = native(&[&["--control", control.to_str().expect("a plain path")], arguments].concat());
        server.address();
        Self { server, control, _folder: folder }
    }

    pub fn counters(&self) -> Counters {
        Counters::of(&self.control)
    }

    /// Waits until these counters have grown by the expected numbers since `before`. Checks that they do not grow by more.
    pub fn expect<const COUNT: usize>(&self, before: &Counters, expected: [(&str, u64); COUNT]) {
        let names = expected.map(|(name, _)| name);
        let numbers = expected.map(|(_, number)| number);
        let mut seen = before.clone();
        wait_until(&format!("{expected:?}"), || {
            let now = self.counters();
            now.must_not_shrink(&seen);
            seen = now;
            let grown = seen.since(before, names);
            assert!(grown.iter().zip(numbers).all(|(grown, number)| *grown <= number), "{names:?}: {grown:?} of {numbers:?}");
            grown == numbers
        });
    }

    pub fn client(&mut self) -> Client {
        let stream = TcpStream::connect(self.server.address()).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("it is ours");
        Client { stream, sent: 0, received: 0 }
    }

    fn order(&self, line: &str) {
        let answer = order(&self.control, line).expect("it answers");
        assert!(answer.contains("\"ok\":true"), "{line}: {answer}");
    }
}

/// A client that counts the bytes that it sends and receives.
pub struct Client {
    pub stream: TcpStream,
    sent: u64,
    received: u64,
}

impl Client {
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("it is connected");
        self.sent += bytes.len() as u64;
    }

    /// Waits for an answer that ends with `end`.
    pub fn expect(&mut self, status: &str, end: &str) {
        let mut answer = Vec::new();
        while !answer.ends_with(end.as_bytes()) {
            let mut bytes = [0; 4096];
            let size = self.stream.read(&mut bytes).expect("an answer");
            assert!(size > 0, "it has closed the connection behind {:?}", String::from_utf8_lossy(&answer));
            answer.extend_from_slice(&bytes[..size]);
        }
        self.received += answer.len() as u64;
        assert!(answer.starts_with(format!("HTTP/1.1 {status} ").as_bytes()), "{}", String::from_utf8_lossy(&answer));
    }

    pub fn get(&mut self) {
        self.send(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n");
        self.expect("200", "hello");
    }
}

pub const SHAPES: [&str; 2] = ["off", "on"];

#[test]
fn only_the_first_process_has_the_memory_with_the_totals() {
    let has_totals = |process: &u32| {
        let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).expect("the process is there");
        maps.contains("/memfd:oribi-totals")
    };
    for edge in SHAPES {
        let mut site = Site::start(&["--workers", "2", "--edge", edge]);
        site.client().get();
        assert!(has_totals(&site.server.pid()), "--edge {edge}");
        let others = descendants(site.server.pid());
        assert!(others.len() >= 2, "--edge {edge}: {others:?}");
        wait_until("all others have left it", || !others.iter().any(has_totals));
    }
}

#[test]
fn requests_bytes_and_connections_are_counted_exactly_whatever_ends() {
    for edge in SHAPES {
        let mut site = Site::start(&["--edge", edge, "--workers", "2"]);
        let before = site.counters();
        let mut clients = [site.client(), site.client(), site.client()];
        for _ in 0..20 {
            clients.iter_mut().for_each(Client::get);
        }
        let content = vec![b'x'; 100_000];
        clients[0].send(format!("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n\r\n", content.len()).as_bytes());
        clients[0].send(&content);
        clients[0].expect("200", "hello");
        let mut wrong = site.client();
        wrong.send(b"no request at all\r\n\r\n");
        wrong.expect("400", "\n");
        let sum = |count: fn(&Client) -> u64| clients.iter().chain([&wrong]).map(count).sum::<u64>();
        let (sent, received) = (sum(|client| client.sent), sum(|client| client.received));
        drop((clients, wrong));
        let expected = [
            ("responses_2xx", 61),
            ("responses_4xx", 1),
            ("responses_5xx", 0),
            ("bytes_received", sent),
            ("bytes_sent", received),
            ("connections_accepted", 4),
            ("connections_closed", 4),
            ("requests_queued", if edge == "on" { 61 } else { 0 }),
        ];
        site.expect(&before, expected);
        // Some of the processes that have counted end in good order, and the others are killed.
        site.order("reload");
        site.expect(&before, expected);
        for process in site.server.workers().into_iter().chain(site.server.edges()) {
            send(process, Signal::KILL);
        }
        wait_until("new processes", || order(&site.control, "workers").is_some_and(|all| all.contains("ready")));
        site.expect(&before, expected);
        // A connection whose process is killed has also closed.
        let again = site.counters();
        let mut last = site.client();
        last.get();
        site.expect(&again, [("responses_2xx", 1), ("connections_accepted", 1), ("connections_closed", 0)]);
        for process in site.server.acceptors() {
            send(process, Signal::KILL);
        }
        site.expect(&again, [("responses_2xx", 1), ("connections_accepted", 1), ("connections_closed", 1)]);
    }
}

#[test]
fn what_waits_for_a_worker_is_counted_and_what_becomes_of_it() {
    let mut site = Site::start(&["--edge", "on", "--workers", "1", "--queue-limit", "2", "--queue-timeout", "500ms"]);
    let before = site.counters();
    let worker = site.server.wait_for_workers(1)[0];
    send(worker, Signal::STOP);
    let mut clients: Vec<Client> = (0..4).map(|_| site.client()).collect();
    for client in &mut clients {
        client.send(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n");
    }
    for client in &mut clients {
        client.expect("503", "\n");
    }
    send(worker, Signal::CONT);
    clients[0].get();
    site.expect(
        &before,
        [
            ("requests_queued", 3),
            ("queue_refused", 2),
            ("queue_timeouts", 2),
            ("responses_5xx", 4),
            ("responses_2xx", 1),
            ("requests_lost", 0),
        ],
    );
}

#[test]
fn clients_that_are_too_slow_are_counted() {
    for edge in SHAPES {
        let mut site =
            Site::start(&["--edge", edge, "--workers", "1", "--head-timeout", "200ms", "--content-timeout", "200ms"]);
        let before = site.counters();
        let mut clients = [site.client(), site.client(), site.client()];
        clients[0].send(b"GET / HT");
        clients[1].send(b"POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\n");
        clients[2].send(b"POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\nhello");
        for client in &mut clients {
            client.expect("408", "\n");
        }
        site.expect(&before, [("head_timeouts", 1), ("content_timeouts", 2), ("responses_4xx", 3), ("responses_2xx", 0)]);
    }
}

#[test]
fn connections_beyond_the_limit_are_counted() {
    for edge in SHAPES {
        let mut site = Site::start(&["--edge", edge, "--workers", "1", "--max-connections", "2"]);
        let before = site.counters();
        let mut clients = [site.client(), site.client(), site.client()];
        clients.iter_mut().for_each(Client::get);
        let crowded =
            [("connections_accepted", 3), ("connections_displaced", 1), ("connections_closed", 1), ("limit_descriptors", 0)];
        site.expect(&before, crowded);
        for client in &mut clients[1..] {
            client.send(b"GET / HT");
        }
        let _waits = site.client();
        wait_until("a pause", || {
            let [pauses, hits] = site.counters().since(&before, ["accepting_pauses", "limit_max_connections"]);
            // Each pause is one, and so is the connection that was closed.
            pauses > 0 && hits == pauses + 1
        });
        site.expect(&before, [("connections_accepted", 3), ("connections_displaced", 1), ("connections_closed", 1)]);
    }
}

/// The reasons for which workers end.
const CAUSES: [&str; 8] = ["requests", "lifetime", "memory", "failure", "stuck", "reload", "scale", "stop"];

/// Waits until the expected numbers of workers have ended for each reason, and `left` of the started workers have not ended.
fn expect_ends(site: &Site, expected: [(&str, u64); CAUSES.len()], left: f64) {
    let nothing = Counters(site.counters().0.into_iter().map(|(name, _)| (name, 0.0)).collect());
    let names: Vec<String> = expected.iter().map(|(cause, _)| format!("workers_ended_{cause}")).collect();
    let mut all = expected;
    all.iter_mut().zip(&names).for_each(|((cause, _), name)| *cause = name);
    site.expect(&nothing, all);
    wait_until("all that was started is there or has ended", || {
        let counters = site.counters();
        let ended: f64 = names.iter().map(|name| counters.get(name)).sum();
        counters.get("workers_started") == ended + left
    });
}

fn ends(changed: &[(&str, u64)]) -> [(&'static str, u64); CAUSES.len()] {
    CAUSES.map(|cause| (cause, changed.iter().find(|(known, _)| *known == cause).map_or(0, |(_, number)| *number)))
}

#[test]
fn workers_that_end_are_counted_by_the_cause() {
    for edge in SHAPES {
        let site = Site::start(&["--edge", edge, "--workers", "2"]);
        site.server.wait_for_workers(2);
        expect_ends(&site, ends(&[]), 2.0);
        site.order("reload");
        expect_ends(&site, ends(&[("reload", 2)]), 2.0);
        let counters = site.counters();
        assert_eq!((counters.get("generations_loaded"), counters.get("generations_failed")), (2.0, 0.0));
        if std::env::var("ORIBI_TEST_ACCEPT").is_err() {
            site.order("scale 3");
            site.server.wait_for_workers(3);
            site.order("scale 2");
            expect_ends(&site, ends(&[("reload", 2), ("scale", 1)]), 2.0);
        } else {
            continue;
        }
        send(site.server.wait_for_workers(2)[0], Signal::KILL);
        expect_ends(&site, ends(&[("reload", 2), ("scale", 1), ("failure", 1)]), 2.0);
        assert_eq!(site.counters().get("workers_failed"), 1.0);
        if edge == "on" {
            send(site.server.edges()[0], Signal::KILL);
            wait_until("another edge", || site.counters().get("edges_started") == 2.0);
            assert_eq!(site.counters().get("edges_failed"), 1.0);
        }
    }
}

#[test]
fn workers_that_are_recycled_are_counted_by_the_cause() {
    for edge in SHAPES {
        let mut site = Site::start(&["--edge", edge, "--workers", "1", "--max-requests", "5"]);
        for round in 1..=3 {
            // A worker that is due serves until the next one does.
            let mut client = site.client();
            (0..5).for_each(|_| client.get());
            drop(client);
            expect_ends(&site, ends(&[("requests", round)]), 1.0);
        }
        wait_until("all responses", || site.counters().get("responses_2xx") == 15.0);
        let site = Site::start(&["--edge", edge, "--workers", "1", "--max-lifetime", "300ms"]);
        wait_until("workers that are too old", || site.counters().get("workers_ended_lifetime") >= 2.0);
        let counters = site.counters();
        for other in CAUSES.iter().filter(|other| **other != "lifetime") {
            assert_eq!(counters.get(&format!("workers_ended_{other}")), 0.0, "{other}");
        }
    }
}
