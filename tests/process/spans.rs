//! Tests of `--trace-export`: the spans of sampled requests reach a collector, also after failures of the collector, of the
//! exporter and of the server.

mod collector;

use crate::server::{Folder, Server, descendants, send, title, wait_for, wait_until};
use collector::{Collector, Span};
use rustix::process::Signal;
use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Without edges, with edges, and with edges in a sandbox, which cannot open files or sockets.
const SHAPES: [&[&str]; 3] = [&["--edge", "off"], &["--edge", "on"], &["--edge", "on", "--edge-sandbox", "on"]];

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

fn server(collector: &str, more: &[&str]) -> Server {
    server_with(collector, more, &[])
}

fn server_with(collector: &str, more: &[&str], variables: &[(&str, &str)]) -> Server {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oribi"));
    command.args(["--native", "hello", "--listen", "127.0.0.1:0", "--workers", "1", "--traces", "--trace-export", collector]);
    if let Ok(model) = std::env::var("ORIBI_TEST_IO") {
        command.args(["--io", &model]);
    }
    Server::run(command.args(more).envs(variables.iter().copied()))
}

/// Sends requests on one connection, with these fields, and reads the answers.
fn ask_often(address: SocketAddr, target: &str, fields: &str, count: usize) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("it is ours");
    for number in 1..=count {
        let end = if number == count { "Connection: close\r\n" } else { "" };
        stream
            .write_all(format!("GET {target} HTTP/1.1\r\nHost: shop.example:81\r\n{fields}{end}\r\n").as_bytes())
            .expect("it reads");
    }
    let mut answers = String::new();
    stream.read_to_string(&mut answers).expect("it answers");
    assert_eq!(answers.matches("HTTP/1.1 200").count(), count, "{answers}");
}

fn ask(address: SocketAddr, target: &str, fields: &str) {
    ask_often(address, target, fields, 1);
}

fn caller(number: usize, flags: &str) -> String {
    format!("traceparent: 00-{TRACE}-{number:016x}-{flags}\r\n")
}

/// Returns the spans of the request whose caller has the span id `number`.
fn spans_of(collector: &Collector, number: usize) -> Vec<Span> {
    let all = collector.spans();
    let caller = format!("{number:016x}");
    let Some(root) = all.iter().find(|span| span.parent == caller) else { return Vec::new() };
    let below = all.iter().filter(|span| span.parent == root.id).cloned();
    [root.clone()].into_iter().chain(below).collect()
}

fn exporters(server: &Server) -> Vec<u32> {
    descendants(server.pid()).into_iter().filter(|process| title(*process).starts_with("oribi: exporter")).collect()
}

fn wait_for_exporter(server: &Server) -> u32 {
    wait_for("an exporter", || exporters(server).first().copied())
}

#[test]
fn a_sampled_request_is_four_spans_and_any_other_is_none() {
    for shape in SHAPES {
        let collector = Collector::start();
        let mut server = server(
            &collector.url(),
            &[shape, &["--trace-service", "shop", "--metrics", "0", "--metrics-route", "/a"]].concat(),
        );
        let address = server.address();
        ask(address, "/a/b?secret", &caller(1, "00"));
        ask(address, "/a/b?secret", &caller(2, "01"));
        ask(address, "/c", "");
        wait_until("two requests", || collector.spans().len() >= 8);
        let spans = spans_of(&collector, 2);
        let [root, queue, app, sent] = &spans[..] else { panic!("four spans: {spans:?}") };
        assert!(spans.iter().all(|span| span.trace == TRACE && !span.is_error), "{spans:?}");
        assert_eq!((&*root.name, root.kind), ("GET /a", 2));
        assert_eq!([&*queue.name, &app.name, &sent.name], ["queue", "app", "send"]);
        assert!([queue, app, sent].iter().all(|span| span.kind == 1));
        assert_eq!(spans.iter().map(|span| &span.id).collect::<HashSet<_>>().len(), 4);
        // Without gaps, one after the other.
        assert_eq!((queue.begin, queue.end, app.end, sent.end), (root.begin, app.begin, sent.begin, root.end), "{spans:?}");
        assert!(queue.begin <= queue.end && app.begin <= app.end && sent.begin <= sent.end, "{spans:?}");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later").as_nanos() as u64;
        assert!(root.begin.abs_diff(now) < 3600 * 1_000_000_000, "it counts from 1970: {}", root.begin);
        for (name, value) in [
            ("http.request.method", "GET"),
            ("url.path", "/a/b"),
            ("url.scheme", "http"),
            ("http.route", "/a"),
            ("http.response.status_code", "200"),
            ("server.address", "shop.example"),
            ("server.port", "81"),
            ("client.address", "127.0.0.1"),
            ("network.protocol.version", "1.1"),
        ] {
            assert_eq!(root.attributes.get(name).map(String::as_str), Some(value), "{name} {shape:?}");
        }
        let worker: u32 = app.attributes["process.pid"].parse().expect("a number");
        assert!(descendants(server.pid()).contains(&worker) && title(worker).starts_with("oribi: worker"), "{}", title(worker));
        assert!(spans_of(&collector, 1).is_empty(), "it is not sampled");
        let others: Vec<_> = collector.spans().into_iter().filter(|span| span.trace != TRACE).collect();
        assert!(others.len() == 4 && others[0].parent.is_empty() && others[0].name == "GET", "{others:?}");
        assert!(!others[0].attributes.contains_key("http.route"));
        assert!(!collector.services().is_empty() && collector.services().iter().all(|service| service == "shop"));
        assert!(!server.log().contains("spans:"), "{}", server.log());
    }
}

#[test]
fn none_of_new_traces_is_told_that_is_not_sampled() {
    let collector = Collector::start();
    let mut server = server(&collector.url(), &["--trace-sample", "0"]);
    let address = server.address();
    ask_often(address, "/", "", 20);
    ask(address, "/", &caller(1, "01"));
    wait_until("the sampled one", || collector.spans().len() >= 4);
    assert_eq!(collector.spans().len(), 4);
}

#[test]
fn what_is_left_at_a_stop_is_sent_before_the_end() {
    for shape in SHAPES {
        let collector = Collector::start();
        let mut server = server(&collector.url(), shape);
        let address = server.address();
        ask_often(address, "/", "", 150);
        server.signal(Signal::TERM);
        assert_eq!(server.wait(), 0, "{}", server.log());
        let spans = collector.spans();
        assert_eq!(spans.len(), 600, "{shape:?}\n{}", server.log());
        assert_eq!(spans.iter().map(|span| &span.id).collect::<HashSet<_>>().len(), 600, "each comes once");
    }
}

#[test]
fn another_exporter_follows_one_that_was_killed_and_requests_go_on() {
    for shape in SHAPES {
        let collector = Collector::start();
        let mut server = server(&collector.url(), shape);
        let address = server.address();
        let first = wait_for_exporter(&server);
        ask(address, "/", &caller(1, "01"));
        wait_until("the first request", || spans_of(&collector, 1).len() == 4);
        send(first, Signal::KILL);
        wait_until("its end is noticed", || server.log().contains("the process that exports spans (pid "));
        ask(address, "/", &caller(2, "01"));
        wait_until("what was told meanwhile", || spans_of(&collector, 2).len() == 4);
        let second = wait_for_exporter(&server);
        assert_ne!(first, second);
        ask(address, "/", &caller(3, "01"));
        wait_until("what is told to the next", || spans_of(&collector, 3).len() == 4);
    }
}

#[test]
fn an_exporter_ends_with_the_first_process() {
    let collector = Collector::start();
    let mut server = server(&collector.url(), &[]);
    let address = server.address();
    let exporter = wait_for_exporter(&server);
    ask(address, "/", &caller(1, "01"));
    server.signal(Signal::KILL);
    wait_until("its end", || !crate::server::runs(exporter));
}

#[test]
fn a_collector_that_is_busy_gets_them_later_and_once() {
    let collector = Collector::start();
    collector.refuse_once("503 Service Unavailable", "Retry-After: 0\r\n", "");
    collector.refuse_once("429 Too Many Requests", "", "slow down");
    let mut server = server(&collector.url(), &[]);
    let address = server.address();
    ask(address, "/", &caller(1, "01"));
    wait_until("it has come", || !collector.spans().is_empty());
    assert_eq!((collector.requests(), collector.spans().len(), spans_of(&collector, 1).len()), (3, 4, 4));
    assert!(server.log().contains("has answered 503; retrying with the spans that wait"), "{}", server.log());
}

#[test]
fn a_collector_that_was_away_gets_them_when_it_is_back() {
    let address = Collector::start().address;
    let mut server = server(&format!("http://{address}"), &["--edge", "on"]);
    let site = server.address();
    ask(site, "/", &caller(1, "01"));
    server.wait_for_log("nothing listens there (connection refused)");
    let collector = Collector::start_at(address);
    wait_until("it has come", || spans_of(&collector, 1).len() == 4);
    // Its connection also ends.
    drop(collector);
    let collector = Collector::start_at(address);
    ask(site, "/", &caller(2, "01"));
    wait_until("the next has come", || spans_of(&collector, 2).len() == 4);
}

#[test]
fn the_log_says_what_a_collector_has_refused() {
    let collector = Collector::start();
    collector.refuse_once("400 Bad Request", "", "no such tenant");
    let mut first = server(&collector.url(), &[]);
    let address = first.address();
    ask(address, "/", &caller(1, "01"));
    first.wait_for_log("spans: 4 were refused; ");
    first.wait_for_log("/v1/traces has answered 400 (no such tenant)");
    ask(address, "/", &caller(2, "01"));
    wait_until("it goes on", || spans_of(&collector, 2).len() == 4);
    // Two were refused, it says in its answer.
    collector.refuse_once("200 OK", "", "\n\x0a\x08\x02\x12\x06 odd\n ");
    let mut second = server(&collector.url(), &[]);
    ask(second.address(), "/", &caller(3, "01"));
    second.wait_for_log("spans: 2 were refused; the collector's message: odd");
}

#[test]
fn nobody_waits_at_a_stop_for_a_collector_that_is_not_there() {
    let address = Collector::start().address;
    let mut server = server(&format!("http://{address}"), &[]);
    ask(server.address(), "/", "");
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), 0);
    assert!(server.log().contains("4 were lost because they could not be delivered"), "{}", server.log());
}

#[test]
fn workers_that_follow_others_tell_of_their_requests_too() {
    for shape in SHAPES {
        let collector = Collector::start();
        let mut server = server(&collector.url(), shape);
        let address = server.address();
        let worker_of = |number: usize| {
            ask(address, "/", &caller(number, "01"));
            wait_until("it has come", || spans_of(&collector, number).len() == 4);
            spans_of(&collector, number)[2].attributes["process.pid"].clone()
        };
        let exporter = wait_for_exporter(&server);
        let first = worker_of(1);
        server.signal(Signal::HUP);
        let mut number = 1;
        wait_until("another worker", || {
            number += 1;
            worker_of(number) != first
        });
        assert_eq!(exporters(&server), [exporter], "it has stayed");
    }
}

#[test]
fn an_upgraded_server_has_an_exporter_of_its_own() {
    for shape in SHAPES {
        let collector = Collector::start();
        let mut server = server(&collector.url(), shape);
        let address = server.address();
        let first = wait_for_exporter(&server);
        ask(address, "/", &caller(1, "01"));
        server.signal(Signal::USR2);
        let is_alone = |exporters: &[u32]| matches!(exporters, [only] if *only != first);
        wait_until("only the new exporter is there", || is_alone(&exporters(&server)));
        assert_eq!(spans_of(&collector, 1).len(), 4, "the old one has sent what it had");
        ask(address, "/", &caller(2, "01"));
        wait_until("the new one sends", || spans_of(&collector, 2).len() == 4);
    }
}

#[test]
fn the_environment_names_the_collector_and_what_it_wants_to_be_told() {
    let collector = Collector::start();
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &*collector.url()),
        ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=very%20secret"),
        ("OTEL_SERVICE_NAME", "till"),
    ];
    let mut server = server_with("auto", &["--edge", "on"], &variables);
    ask(server.address(), "/", "");
    wait_until("it has come", || collector.spans().len() == 4);
    assert!(collector.fields().contains(&"api-key: very secret".to_owned()), "{:?}", collector.fields());
    assert!(collector.fields().contains(&"post /v1/traces http/1.1".to_owned()), "{:?}", collector.fields());
    assert_eq!(collector.services(), ["till"]);
}

#[test]
fn logs_are_opened_again_by_the_exporter_too() {
    let address = Collector::start().address;
    let folder = Folder::new();
    let log = folder.file("errors");
    let mut server = server(&format!("http://{address}"), &["--error-log", log.to_str().expect("plain")]);
    let text = |name: &str| std::fs::read_to_string(folder.file(name)).unwrap_or_default();
    let site = wait_for("it listens", || {
        let text = text("errors");
        let (_, rest) = text.split_once("listening on http://")?;
        rest.split(' ').next()?.parse::<SocketAddr>().ok()
    });
    let _ = wait_for_exporter(&server);
    std::fs::rename(&log, folder.file("old")).expect("it is ours");
    server.signal(Signal::USR1);
    wait_until("the log is new", || log.exists());
    ask(site, "/", "");
    wait_until("it complains in the new log", || text("errors").contains("nothing listens there"));
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), 0);
}
