//! Metrics for Prometheus: from the first process, which needs no other for it, without a gap, and never less than before.

use crate::client::{Target, get};
use crate::native;
use crate::scrape::{MetricsAddress, Scrape};
use crate::server::{Folder, Server, descendants, send, wait_for, wait_until};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

const SHAPES: [&str; 2] = ["off", "on"];

/// A server with metrics at a port of its own.
fn measured(arguments: &[&str]) -> (Server, MetricsAddress) {
    let mut server = native(&[&["--metrics", "0"], arguments].concat());
    server.address();
    let place = MetricsAddress::said_in(&server.log());
    (server, place)
}

#[test]
fn metrics_are_told_while_every_other_process_is_stuck() {
    for edge in SHAPES {
        let (mut server, place) = measured(&["--edge", edge, "--workers", "2", "--request-warning", "60s"]);
        wait_until("all workers", || Scrape::of(&place).get("oribi_workers{state=\"ready\"}") == 2.0);
        assert!(get(&Target::Tcp(server.address())).expect("it serves").text.ends_with("hello"));
        wait_until("the count of it, and the end of its connection", || {
            let scrape = Scrape::of(&place);
            let closed = scrape.get("oribi_connections_closed_total") == 1.0 && scrape.get("oribi_connections") == 0.0;
            closed && scrape.get("oribi_responses_total{class=\"2xx\"}") == 1.0
        });
        let (workers, others) = (server.wait_for_workers(2), descendants(server.pid()));
        workers.iter().for_each(|worker| send(*worker, Signal::STOP));
        // A request without an answer.
        let mut waiting = TcpStream::connect(server.address()).expect("the system accepts it");
        waiting.write_all(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n").expect("it is open");
        if edge == "on" {
            wait_until("it waits", || Scrape::of(&place).get("oribi_queue_length") == 1.0);
            wait_until("for a while", || Scrape::of(&place).get("oribi_queue_oldest_wait_seconds") > 0.01);
        }
        others.iter().for_each(|process| send(*process, Signal::STOP));
        let scrape = Scrape::of(&place);
        assert_eq!(scrape.get("oribi_workers{state=\"ready\"}"), 2.0);
        assert_eq!(scrape.get("oribi_workers_wanted"), 2.0);
        assert_eq!(scrape.get("oribi_threads"), 2.0);
        assert_eq!(scrape.get("oribi_edges"), if edge == "on" { 1.0 } else { 0.0 });
        assert_eq!(scrape.get("oribi_requests_running"), 0.0);
        assert_eq!(scrape.get("oribi_connections"), if edge == "on" { 1.0 } else { 0.0 });
        for worker in ["1", "2"] {
            let memory = scrape.get(&format!("oribi_worker_memory_bytes{{worker=\"{worker}\"}}"));
            assert!((100e3..1e9).contains(&memory), "{memory}");
        }
        others.iter().for_each(|process| send(*process, Signal::CONT));
        let mut answer = [0; 12];
        waiting.read_exact(&mut answer).expect("it is answered after all");
        assert_eq!(&answer, b"HTTP/1.1 200");
        server.signal(Signal::TERM);
        assert_eq!(server.wait(), 0, "{}", server.log());
    }
}

#[test]
fn there_is_one_path_for_two_methods_in_two_formats() {
    let (_server, place) = measured(&["--workers", "1"]);
    let plain = place.request("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(plain.starts_with("HTTP/1.1 200 OK\r\n"), "{plain}");
    assert!(plain.contains("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{plain}");
    assert!(plain.contains("\n# TYPE oribi_responses_total counter\n"), "{plain}");
    let open =
        "GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n\r\n";
    let open = place.request(open);
    assert!(open.contains("\r\nContent-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"), "{open}");
    assert!(open.contains("\n# TYPE oribi_responses counter\n") && open.ends_with("\n# EOF\n"), "{open}");
    let head = place.request("HEAD /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n") && !head.contains("# TYPE"), "{head}");
    for (request, status) in [
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "404"),
        ("POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx", "405"),
        ("GET /metrics HTTP/1.1\r\n\r\n", "400"),
        ("no request at all\r\n\r\n", "400"),
    ] {
        let answer = place.request(request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request:?}: {answer}");
    }
    let long = place.request(&format!("GET /metrics HTTP/1.1\r\nHost: a\r\nA: {}\r\n\r\n", "x".repeat(100_000)));
    assert!(long.starts_with("HTTP/1.1 431 "), "{long}");
}

#[test]
fn counters_never_go_back_whatever_ends() {
    for edge in SHAPES {
        let (mut server, place) = measured(&["--edge", edge, "--workers", "2", "--max-requests", "20"]);
        let target = Target::Tcp(server.address());
        let mut seen = Scrape::of(&place);
        let mut look = |what: &str, reached: &dyn Fn(&Scrape) -> bool| {
            wait_until(what, || {
                let now = Scrape::of(&place);
                now.must_not_shrink(&seen);
                seen = now;
                reached(&seen)
            });
        };
        let ended = |reason: &str| format!("oribi_workers_ended_total{{reason=\"{reason}\"}}");
        for round in 1..=3 {
            let answered = f64::from(round) * 50.0;
            (0..50).for_each(|_| _ = wait_for("an answer", || get(&target).ok()));
            look("all answers", &|seen| seen.get("oribi_responses_total{class=\"2xx\"}") >= answered);
            look("all times", &|seen| {
                let counted =
                    ["queue_", "app_", "send_", ""].map(|part| seen.get(&format!("oribi_request_{part}seconds_count")));
                counted.iter().all(|count| *count >= answered)
            });
            look("workers that are recycled", &|seen| seen.get(&ended("requests")) >= f64::from(round));
            server.signal(Signal::HUP);
            look("a reload", &|seen| seen.get("oribi_generations_loaded_total") == f64::from(round) + 1.0);
            // No process that could be meant by the next steps is on its way out.
            look("the new workers", &|seen| {
                let others =
                    ["starting", "retiring", "finishing"].map(|state| seen.get(&format!("oribi_workers{{state=\"{state}\"}}")));
                seen.get("oribi_workers{state=\"ready\"}") == 2.0 && others == [0.0; 3]
            });
            let worker = wait_for("two workers", || Some(server.workers()).filter(|workers| workers.len() == 2))[0];
            send(worker, Signal::KILL);
            look("its end", &|seen| seen.get(&ended("failure")) >= f64::from(round));
            if edge == "on" {
                send(server.edges()[0], Signal::KILL);
                look("another edge", &|seen| seen.get("oribi_edges_started_total") == f64::from(round) + 1.0);
            }
            look("all workers", &|seen| seen.get("oribi_workers{state=\"ready\"}") == 2.0);
        }
        server.signal(Signal::TERM);
        assert_eq!(server.wait(), 0, "{}", server.log());
    }
}

#[test]
fn a_taken_address_ends_the_start_and_a_socket_goes_with_the_server() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let address = taken.local_addr().expect("it is bound").to_string();
    let mut server = native(&["--metrics", &address]);
    assert_eq!(server.wait(), 1, "{}", server.log());
    assert!(server.log().contains(&format!("--metrics: cannot listen on {address}")), "{}", server.log());
    let folder = Folder::new();
    let socket = folder.file("metrics.sock");
    let mut server = native(&["--metrics", &format!("{}?mode=600", socket.display())]);
    server.wait_for_log("listening on");
    assert_eq!(crate::server::mode(&socket), 0o600);
    assert!(Scrape::of(&MetricsAddress::Unix(socket.clone())).get("oribi_workers_wanted") >= 1.0);
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), 0, "{}", server.log());
    assert!(!socket.exists());
}

#[test]
fn a_server_that_follows_another_has_the_address_as_soon_as_it_is_free() {
    let free = |probe: TcpListener| probe.local_addr().expect("it is bound");
    let probe = || TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let (address, metrics): (SocketAddr, SocketAddr) = (free(probe()), free(probe()));
    let mut command = Command::new("start_server");
    command.args(["--port", &address.to_string(), "--", env!("CARGO_BIN_EXE_oribi"), "--native", "hello"]);
    command.args(["--metrics", &metrics.to_string()]);
    let mut server = Server::run(&mut command);
    server.wait_for_log("listening on");
    let place = MetricsAddress::Tcp(metrics);
    let began = || Scrape::ask(&place).map(|scrape| scrape.get("oribi_start_time_seconds"));
    let first = began().expect("it answers");
    server.signal(Signal::HUP);
    server.wait_for_log("retrying twice a second");
    wait_until("the metrics of the next server", || began().is_some_and(|began| began > first));
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), 0, "{}", server.log());
}

#[test]
fn those_who_only_hold_connections_keep_nobody_out() {
    let (mut server, place) = measured(&["--workers", "1"]);
    let MetricsAddress::Tcp(address) = place else { panic!("it is a port") };
    let crowd: Vec<TcpStream> =
        (0..200).filter_map(|_| TcpStream::connect_timeout(&address, Duration::from_secs(30)).ok()).collect();
    assert!(crowd.len() > 100, "{}", crowd.len());
    assert!(Scrape::of(&place).get("oribi_workers_wanted") == 1.0);
    assert!(get(&Target::Tcp(server.address())).expect("it serves").text.ends_with("hello"));
    // The server does its work meanwhile.
    server.signal(Signal::HUP);
    server.wait_for_log("all workers have been replaced");
    drop(crowd);
}

#[test]
fn metrics_and_the_dashboard_are_only_for_those_in_the_networks_that_are_let_in() {
    for (networks, status) in [("192.0.2.0/24,::1", "403 Forbidden"), ("192.0.2.0/24,127.0.0.0/8", "200 OK")] {
        let place = format!("127.0.0.1:0?allow={networks}");
        let mut server = native(&["--workers", "1", "--dashboard", "on", "--metrics", &place]);
        server.address();
        let place = MetricsAddress::said_in(&server.log());
        for target in ["/metrics", "/"] {
            let answer = place.request(&format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{networks}: {answer}");
        }
        let told = server.log().matches("refused metrics to 127.0.0.1").count();
        assert_eq!(told, usize::from(status != "200 OK"), "the log is told once: {}", server.log());
    }
}
