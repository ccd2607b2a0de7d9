//! Tests of metrics at a path of the app: clients in some networks get them, from the process that has their connections, and
//! metrics never delay other clients.

use crate::client::{Target, get, get_from};
use crate::scrape::Scrape;
use crate::server::{children, send, title, wait_for, wait_until};
use crate::wire::Wire;
use crate::{native, tcp};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

const SHAPES: [&str; 2] = ["off", "on"];
const PATH: &str = "/stats";
const HERE: &str = "/stats?allow=127.0.0.1";

/// The most clients of a lane that may wait for metrics at the same time.
const WAITING: usize = 16;

fn scrape(target: &Target) -> Option<Scrape> {
    get_from(target, PATH).ok().map(|response| Scrape::read(&response.text))
}

/// Connects a client that has requested the metrics.
fn ask(address: SocketAddr) -> Wire {
    let mut stream = Wire::connect(address).expect("it listens");
    stream.socket().set_read_timeout(Some(Duration::from_secs(30))).expect("it is ours");
    stream.write_all(format!("GET {PATH} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").as_bytes()).expect("it is open");
    stream
}

/// The whole response.
fn answer(stream: &mut Wire) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it is answered");
    answer
}

/// Whether a part of an answer has arrived.
fn is_answered(stream: &Wire) -> bool {
    let mut polled = [PollFd::new(stream.socket(), PollFlags::IN)];
    matches!(poll(&mut polled, Some(&Timespec::default())), Ok(1..))
}

/// Sends a request with this method and these fields, the last one on its connection. Returns the response.
fn request(address: SocketAddr, method: &str, fields: &str) -> String {
    let mut stream = Wire::connect(address).expect("it listens");
    stream.socket().set_read_timeout(Some(Duration::from_secs(30))).expect("it is ours");
    let head = format!("{method} {PATH} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{fields}\r\n");
    stream.write_all(head.as_bytes()).expect("it is open");
    answer(&mut stream)
}

#[test]
fn clients_in_these_networks_get_metrics_and_others_what_the_app_has() {
    for edge in SHAPES {
        for (networks, lets_in) in [("192.0.2.0/24,127.0.0.0/8", true), ("192.0.2.0/24,::1", false)] {
            let mut server = native(&["--edge", edge, "--metrics-path", &format!("{PATH}?allow={networks}")]);
            let address = server.address();
            let plain = request(address, "GET", "");
            if !lets_in {
                assert!(plain.ends_with("hello"), "{plain}");
                continue;
            }
            assert!(Scrape::read(&plain).get("oribi_workers_wanted") >= 1.0);
            let head = plain.split("\r\n\r\n").next().expect("a head");
            assert!(head.contains("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{head}");
            assert!(head.contains("\r\nCache-Control: no-store\r\n"), "{head}");
            let open = request(address, "GET", "Accept: application/openmetrics-text;version=1.0.0\r\n");
            assert!(open.contains("Content-Type: application/openmetrics-text;") && open.ends_with("\n# EOF\n"), "{open}");
            let head = request(address, "HEAD", "");
            assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n") && !head.contains("# TYPE"), "{head}");
            assert!(head.contains("\r\nContent-Length: ") && !head.contains("\r\nContent-Length: 0\r\n"), "{head}");
            let other = request(address, "POST", "Content-Length: 0\r\n");
            assert!(other.ends_with("hello"), "another method is the app's: {other}");
            assert!(get(&Target::Tcp(address)).expect("it serves").text.ends_with("hello"), "another path is the app's");
        }
    }
}

#[test]
fn the_client_that_a_trusted_proxy_names_is_the_one_that_counts() {
    for (trusted, client, gets_them) in
        [("127.0.0.1", "192.0.2.7", true), ("127.0.0.1", "198.51.100.1", false), ("off", "192.0.2.7", false)]
    {
        let path = format!("{PATH}?allow=192.0.2.0/24");
        let mut server = native(&["--metrics-path", &path, "--trusted-proxies", trusted]);
        let answer = request(server.address(), "GET", &format!("X-Forwarded-For: {client}\r\n"));
        assert_eq!(answer.contains("oribi_workers_wanted"), gets_them, "{trusted} {client}: {answer}");
    }
}

#[test]
fn a_first_process_that_does_nothing_delays_nobody_else() {
    for edge in SHAPES {
        let mut server = native(&["--edge", edge, "--workers", "1", "--metrics-path", HERE]);
        let target = tcp(&mut server);
        let address = server.address();
        server.wait_for_workers(1);
        assert!(scrape(&target).is_some());
        send(server.pid(), Signal::STOP);
        // All of them have arrived when one after them is answered.
        let ask = || (ask(address), get(&target).expect("it serves")).0;
        let mut waiting: Vec<Wire> = (0..WAITING + 2).map(|_| ask()).collect();
        // The clients whose requests were read first are dropped, which need not be those that connected first.
        for _ in 0..2 {
            let place = wait_for("a client that is told to go", || waiting.iter().position(is_answered));
            let refused = answer(&mut waiting.remove(place));
            assert!(refused.starts_with("HTTP/1.1 503") && refused.ends_with("too many wait for them\n"), "{refused}");
        }
        assert!(get(&target).expect("it serves").text.ends_with("hello"));
        send(server.pid(), Signal::CONT);
        for stream in &mut waiting {
            assert!(Scrape::read(&answer(stream)).get("oribi_workers_wanted") == 1.0);
        }
        assert!(scrape(&target).is_some());
        server.signal(Signal::TERM);
        assert_eq!(server.wait(), 0, "{}", server.log());
    }
}

#[test]
fn who_waits_when_the_first_process_is_killed_is_told_so() {
    for edge in SHAPES {
        let mut server = native(&["--edge", edge, "--workers", "1", "--metrics-path", HERE]);
        let target = tcp(&mut server);
        server.wait_for_workers(1);
        assert!(scrape(&target).is_some());
        send(server.pid(), Signal::STOP);
        let mut waiting = ask(server.address());
        // The request has arrived when one after it is answered by the only loop.
        assert!(get(&target).is_ok());
        send(server.pid(), Signal::KILL);
        let answer = answer(&mut waiting);
        assert!(answer.starts_with("HTTP/1.1 503") && answer.ends_with("has ended\n"), "{answer}");
    }
}

#[test]
fn counters_never_go_back_whoever_answers() {
    for edge in SHAPES {
        let mut server = native(&["--edge", edge, "--workers", "2", "--max-requests", "20", "--metrics-path", HERE]);
        let target = tcp(&mut server);
        let mut seen = scrape(&target).expect("it answers");
        let mut look = |what: &str, reached: &dyn Fn(&Scrape) -> bool| {
            wait_until(what, || {
                // The process that has the connection may be killed meanwhile.
                let Some(now) = scrape(&target) else { return false };
                now.must_not_shrink(&seen);
                seen = now;
                reached(&seen)
            });
        };
        for round in 1..=3 {
            let answered = f64::from(round) * 30.0;
            (0..30).for_each(|_| _ = wait_for("an answer", || get(&target).ok()));
            look("all answers", &|seen| seen.get("oribi_responses_total{class=\"2xx\"}") >= answered);
            let loaded = now(&target, "oribi_generations_loaded_total");
            server.signal(Signal::HUP);
            look("a reload", &|seen| seen.get("oribi_generations_loaded_total") > loaded);
            if edge == "on" {
                let process = server.successor("supervisor").unwrap_or(server.pid());
                let is_edge = |process: &u32| title(*process).starts_with("oribi: edge");
                let edge = wait_for("an edge", || children(process).into_iter().find(is_edge));
                let failed = now(&target, "oribi_edges_failed_total");
                send(edge, Signal::KILL);
                look("its end", &|seen| seen.get("oribi_edges_failed_total") > failed);
            }
            let before = server.successor("supervisor");
            server.signal(Signal::USR2);
            look("an upgrade", &|seen| seen.get("oribi_upgrades_total") >= f64::from(round));
            wait_until("the end of the server before", || {
                server.successor("supervisor").is_some_and(|now| Some(now) != before)
            });
        }
        server.signal(Signal::TERM);
        assert_eq!(server.wait(), 0, "{}", server.log());
    }
}

/// Returns the current value of a series.
fn now(target: &Target, series: &str) -> f64 {
    wait_for("an answer", || scrape(target)).get(series)
}
