//! The dashboard: a page for people at the address for metrics, from the first process, which needs no other process for it.

use crate::client::{Target, get};
use crate::native;
use crate::scrape::{MetricsAddress, Scrape};
use crate::server::{Server, descendants, send, wait_for, wait_until};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A server with a dashboard at a port of its own.
fn watched(arguments: &[&str]) -> (Server, SocketAddr) {
    let mut server = native(&[&["--metrics", "0"], arguments].concat());
    server.address();
    let MetricsAddress::Tcp(address) = MetricsAddress::said_in(&server.log()) else { panic!("it is a port") };
    (server, address)
}

fn ask(address: SocketAddr, request: &str) -> String {
    MetricsAddress::Tcp(address).request(request)
}

/// An open page.
struct Watcher(BufReader<TcpStream>);

impl Watcher {
    fn try_open(address: SocketAddr) -> Option<Self> {
        let mut stream = TcpStream::connect(address).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
        stream.write_all(format!("GET /events HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes()).ok()?;
        let mut watcher = Self(BufReader::new(stream));
        let head: Vec<String> = watcher.lines().take_while(|line| !line.is_empty()).collect();
        head.contains(&"Content-Type: text/event-stream".to_owned()).then_some(watcher)
    }

    fn open(address: SocketAddr) -> Self {
        Self::try_open(address).expect("it answers")
    }

    fn lines(&mut self) -> impl Iterator<Item = String> {
        self.0.by_ref().lines().map_while(Result::ok)
    }

    /// The data of the next event with this name; `None` if the connection has ended.
    fn try_next(&mut self, name: &str) -> Option<String> {
        let named = format!("event: {name}");
        let mut lines = self.lines().skip_while(|line| *line != named).skip(1);
        lines.next()?.strip_prefix("data: ").map(str::to_owned)
    }

    fn next(&mut self, name: &str) -> String {
        self.try_next(name).expect("it goes on")
    }
}

/// Waits until the page of a new client contains all of `words`. A new client gets the current state at once.
fn wait_until_told(address: SocketAddr, words: &[&str]) -> String {
    wait_for("what is told", || {
        let told = Watcher::open(address).next("now");
        words.iter().all(|word| told.contains(word)).then_some(told)
    })
}

#[test]
fn there_is_a_page_only_if_it_is_wanted_and_for_those_who_may_see_it() {
    let (_server, address) = watched(&["--workers", "1"]);
    for path in ["/", "/events"] {
        assert!(ask(address, &format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).starts_with("HTTP/1.1 404 "), "{path}");
    }
    let (server, address) = watched(&["--workers", "1", "--dashboard", "on,Stats.Example.org"]);
    assert!(server.log().contains(&format!("the dashboard is at http://{address}/\n")), "{}", server.log());
    let page = ask(address, &format!("GET / HTTP/1.1\r\nHost: {address}\r\n\r\n"));
    let (head, text) = page.split_once("\r\n\r\n").expect("a head");
    assert!(
        head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("\r\nContent-Type: text/html; charset=utf-8\r\n"),
        "{head}"
    );
    let policy = head.split("Content-Security-Policy: ").nth(1).and_then(|rest| rest.lines().next()).expect("a policy");
    assert!(
        policy.starts_with("default-src 'none'; script-src 'nonce-") && policy.contains("; connect-src 'self';"),
        "{policy}"
    );
    let nonce = policy.split('\'').find_map(|part| part.strip_prefix("nonce-")).expect("a nonce");
    assert!(text.contains(&format!("<script nonce=\"{nonce}\">")) && text.trim_end().ends_with("</html>"), "{text}");
    let length = head.split("Content-Length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
    assert_eq!(length, Some(text.len()), "it is whole");
    let head = ask(address, "HEAD /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(head.contains("\r\nContent-Type: text/event-stream\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    for (request, status) in [
        ("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", "421"),
        ("GET /events HTTP/1.1\r\nHost: evil.example:9090\r\n\r\n", "421"),
        ("GET /events HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\r\n", "403"),
        ("GET / HTTP/1.1\r\nHost: stats.example.org\r\n\r\n", "200"),
        ("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", "405"),
        ("DELETE /events HTTP/1.1\r\nHost: localhost\r\n\r\n", "405"),
        ("GET /page.js HTTP/1.1\r\nHost: localhost\r\n\r\n", "404"),
        // Scrapers may know the server by any name.
        ("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", "200"),
    ] {
        let answer = ask(address, request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request:?}: {answer}");
    }
}

#[test]
fn events_tell_of_the_server_while_every_other_process_is_stuck() {
    let (mut server, address) = watched(&["--edge", "on", "--workers", "2", "--dashboard", "on"]);
    let target = Target::Tcp(server.address());
    (0..5).for_each(|_| assert!(get(&target).expect("it serves").text.ends_with("hello")));
    let told = wait_until_told(address, &["\"responses_2xx\":5,", "\"ready\":2,"]);
    assert!(told.contains("\"kind\":\"edge\"") && told.contains("\"memory\":"), "{told}");
    let mut watcher = Watcher::open(address);
    let history = watcher.next("history");
    assert!(
        history.starts_with("{\"fields\":[\"at\",\"span\",\"1xx\",\"2xx\",") && history.contains("\"fine\":["),
        "{history}"
    );
    watcher.next("now");
    let (workers, others) = (server.wait_for_workers(2), descendants(server.pid()));
    workers.iter().for_each(|worker| send(*worker, Signal::STOP));
    let mut waiting = TcpStream::connect(server.address()).expect("the system accepts it");
    waiting.write_all(b"GET /secret HTTP/1.1\r\nHost: test\r\n\r\n").expect("it is open");
    let told = wait_until_told(address, &["\"queue\":1,", "\"requests\":[{\"state\":\"queued\""]);
    assert!(!told.contains("/secret") && !told.contains("GET") && !told.contains("127.0.0.1"), "{told}");
    others.iter().for_each(|process| send(*process, Signal::STOP));
    // Only this server can have sent the second of these.
    (0..2).for_each(|_| assert!(watcher.next("now").contains("\"fine\":[")));
    assert!(Watcher::open(address).next("history").len() > history.len(), "it has been remembered");
    others.iter().for_each(|process| send(*process, Signal::CONT));
    let mut answer = [0; 12];
    waiting.read_exact(&mut answer).expect("it is answered after all");
    assert_eq!(&answer, b"HTTP/1.1 200");
    // The same page continues through a reload, and shows workers that were killed.
    server.signal(Signal::HUP);
    wait_until_told(address, &["\"generations_loaded\":2,", "\"workers_ended_reload\":2,"]);
    send(server.wait_for_workers(2)[0], Signal::KILL);
    wait_until_told(address, &["\"workers_ended_failure\":1,"]);
    while !watcher.next("now").contains("\"workers_ended_failure\":1,") {}
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), 0, "{}", server.log());
    assert!(watcher.try_next("never").is_none());
}

#[test]
fn requests_are_named_only_if_that_is_wanted() {
    let (mut server, address) = watched(&["--edge", "on", "--workers", "1", "--dashboard", "requests"]);
    let worker = server.wait_for_workers(1)[0];
    send(worker, Signal::STOP);
    let mut waiting = TcpStream::connect(server.address()).expect("the system accepts it");
    waiting.write_all(b"GET /named?hidden HTTP/1.1\r\nHost: test\r\n\r\n").expect("it is open");
    let told = wait_until_told(address, &["\"method\":\"GET\",\"target\":\"/named?...\",\"client\":\"127.0.0.1:"]);
    assert!(!told.contains("hidden"), "{told}");
    send(worker, Signal::CONT);
}

#[test]
fn those_who_watch_and_do_not_read_keep_nobody_out() {
    let (mut server, address) = watched(&["--workers", "1", "--dashboard", "on"]);
    let crowd: Vec<TcpStream> = (0..60)
        .map(|_| {
            let mut stream = TcpStream::connect(address).expect("it listens");
            stream.write_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it is open");
            stream
        })
        .collect();
    let place = MetricsAddress::Tcp(address);
    assert!(Scrape::of(&place).get("oribi_workers_wanted") == 1.0);
    // The last client gets everything, and there is room for few.
    let mut watcher = Watcher::open(address);
    watcher.next("history");
    watcher.next("now");
    wait_until("the oldest to be dropped", || {
        let gone = |stream: &&TcpStream| {
            stream.set_nonblocking(true).expect("it is ours");
            let mut bytes = [0; 65536];
            (0..100).any(|_| matches!((&**stream).read(&mut bytes), Ok(0)))
        };
        crowd.iter().take(40).filter(gone).count() == 40
    });
    watcher.next("now");
    assert!(get(&Target::Tcp(server.address())).expect("it serves").text.ends_with("hello"));
    server.signal(Signal::HUP);
    server.wait_for_log("all workers have been replaced");
}

#[test]
fn a_page_that_is_open_finds_the_next_program() {
    for edge in ["off", "on"] {
        let (mut server, address) = watched(&["--edge", edge, "--workers", "1", "--dashboard", "on"]);
        let mut watcher = Watcher::open(address);
        assert!(watcher.next("now").contains("\"upgrades\":0,"));
        // A point that only this program can have seen, which is one of its first.
        let point = wait_for("a point", || {
            let told = watcher.next("now");
            told.split("\"fine\":[").nth(1).map(|rest| rest.split(']').next().expect("it ends").to_owned())
        });
        server.signal(Signal::USR2);
        // The old program closes the connection when the new one serves; a browser comes back then.
        while watcher.try_next("now").is_some() {}
        let mut watcher = wait_for("the next program", || Watcher::try_open(address));
        let history = watcher.next("history");
        assert!(history.contains(&format!("[{point}]")), "{point} is not in {history}");
        let told = watcher.next("now");
        assert!(told.contains("\"upgrades\":1,") && told.contains("\"state\":\"serving\""), "{told}");
        server.signal(Signal::TERM);
        assert_eq!(server.wait(), 0, "{}", server.log());
    }
}
