//! Counters outlive generations of the app and upgrades of the program.

use crate::client::{Load, Manner, Target, get};
use crate::roles;
use crate::scrape::{MetricsAddress, Scrape};
use crate::server::{Folder, Server, children, runs, send, title, wait_for, wait_until};
use crate::status::{Counters, order};
use rustix::process::Signal;
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

const SHAPES: [&str; 2] = ["on", "off"];

/// Reads the counters again, and checks that none has shrunk.
fn look(path: &Path, seen: &mut Counters) {
    let now = wait_for("an answer", || Counters::ask(path));
    now.must_not_shrink(seen);
    *seen = now;
}

/// Reads the counters until one of them has the value `value`. Checks that it does not exceed this value.
fn expect(path: &Path, seen: &mut Counters, name: &str, value: f64) {
    wait_until(&format!("{name} is {value}"), || {
        look(path, seen);
        assert!(seen.get(name) <= value, "{name} is {}", seen.get(name));
        seen.get(name) == value
    });
}

fn master(server: &Server, before: Option<u32>) -> u32 {
    wait_for("only the new master is left", || match children(server.pid())[..] {
        [only] if Some(only) != before && title(only).starts_with("oribi: master") => Some(only),
        _ => None,
    })
}

fn mold(server: &Server) -> u32 {
    let is_mold = |process: &u32| title(*process).starts_with("oribi: mold");
    wait_for("a mold", || children(server.pid()).into_iter().find(is_mold))
}

pub fn counters_outlive_reloads_and_molds() {
    for edge in SHAPES {
        let folder = Folder::new();
        let path = folder.file("control");
        let name = path.to_str().expect("it is ASCII");
        let fails = folder.file("fails");
        let failing = fails.to_str().expect("it is ASCII");
        let variables = [("ORIBI_EDGE", edge), ("ORIBI_TEST_CONTROL", name), ("ORIBI_TEST_FAILS", failing)];
        let mut server = roles::start("master of mold that fails later", &variables);
        let target = Target::Tcp(server.address());
        let mut seen = wait_for("an answer", || Counters::ask(&path));
        let answered = Cell::new(0.0);
        let ask = |count: usize, seen: &mut Counters| {
            (0..count).for_each(|_| assert!(get(&target).expect("it serves").text.ends_with("hello")));
            answered.set(answered.get() + count as f64);
            expect(&path, seen, "responses_2xx", answered.get());
            expect(&path, seen, "connections_accepted", answered.get());
            expect(&path, seen, "connections_closed", answered.get());
        };
        ask(10, &mut seen);
        for number in 2..=3 {
            assert!(order(&path, "reload").expect("it answers").contains("\"ok\":true"));
            expect(&path, &mut seen, "generations_loaded", f64::from(number));
            expect(&path, &mut seen, "workers_ended_reload", f64::from(number - 1) * 2.0);
            ask(10, &mut seen);
        }
        std::fs::write(&fails, "").expect("the folder is ours");
        assert!(order(&path, "reload").expect("it answers").contains("\"ok\":false"));
        expect(&path, &mut seen, "generations_failed", 1.0);
        ask(10, &mut seen);
        std::fs::remove_file(&fails).expect("it is there");
        // No process is left to report how its workers end. They finish their requests, and that counts.
        let mut begun = TcpStream::connect(server.address()).expect("it listens");
        begun.write_all(b"GET / HTTP/1.1\r\nHost: test\r\nConn").expect("it is open");
        expect(&path, &mut seen, "connections_accepted", answered.get() + 1.0);
        let process = mold(&server);
        send(process, Signal::KILL);
        wait_until("its end", || !runs(process));
        begun.write_all(b"ection: close\r\n\r\n").expect("it is open");
        let mut answer = String::new();
        begun.read_to_string(&mut answer).expect("it is answered");
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("hello"), "{answer}");
        expect(&path, &mut seen, "generations_loaded", 4.0);
        expect(&path, &mut seen, "workers_ended_failure", 2.0);
        answered.set(answered.get() + 1.0);
        expect(&path, &mut seen, "responses_2xx", answered.get());
        ask(10, &mut seen);
        assert_eq!((seen.get("workers_started"), seen.get("generations_failed"), seen.get("upgrades")), (8.0, 1.0, 0.0));
        server.signal(Signal::TERM);
        assert_eq!(server.wait(), 0, "{}", server.log());
    }
}

pub fn counters_outlive_upgrades() {
    for edge in SHAPES {
        let folder = Folder::new();
        let path = folder.file("control");
        let name = path.to_str().expect("it is ASCII");
        let mut server = roles::start("master of mold", &[("ORIBI_EDGE", edge), ("ORIBI_TEST_CONTROL", name)]);
        let target = Target::Tcp(server.address());
        let mut seen = wait_for("an answer", || Counters::ask(&path));
        let load = [Load::start(&target, 8, Manner::KeepAlive), Load::start(&target, 2, Manner::ConnectionPerRequest)];
        let mut before = None;
        for number in 1..=3 {
            load.iter().for_each(|load| load.wait_for_more(100));
            look(&path, &mut seen);
            server.signal(Signal::USR2);
            expect(&path, &mut seen, "upgrades", f64::from(number));
            before = Some(master(&server, before));
        }
        load.iter().for_each(|load| load.wait_for_more(100));
        let (answered, connections) = load.into_iter().fold((0, 0), |(answered, connections), load| {
            let shared = load.counts();
            assert_eq!(load.stop(), Vec::<String>::new(), "{}", server.log());
            (answered + shared.answered(), connections + shared.connections())
        });
        expect(&path, &mut seen, "responses_2xx", answered as f64);
        expect(&path, &mut seen, "connections_accepted", connections as f64);
        expect(&path, &mut seen, "connections_closed", connections as f64);
        assert_eq!(seen.get("connections_handed_over"), seen.get("connections_taken_over"));
        assert_eq!(seen.get("connections_handed_over") > 0.0, edge == "on", "kept connections change hands between edges");
        assert_eq!((seen.get("workers_started"), seen.get("upgrades_failed")), (8.0, 0.0));
        assert!(!server.log().contains("counters begin at zero"), "{}", server.log());
        server.signal(Signal::TERM);
        assert_eq!(server.wait(), 0, "{}", server.log());
    }
}

pub fn metrics_are_told_without_a_gap() {
    for edge in SHAPES {
        let folder = Folder::new();
        let path = folder.file("metrics");
        let name = path.to_str().expect("it is ASCII");
        let mut server = roles::start("master of mold", &[("ORIBI_EDGE", edge), ("ORIBI_TEST_METRICS", name)]);
        let target = Target::Tcp(server.address());
        let place = MetricsAddress::Unix(path.clone());
        let mut seen = Scrape::of(&place);
        // The socket is there all the time, and a process answers at it.
        let mut expect = |series: &str, value: f64| {
            wait_until(&format!("{series} is {value}"), || {
                let now = Scrape::of(&place);
                now.must_not_shrink(&seen);
                seen = now;
                seen.get(series) == value
            });
        };
        for number in 1..=3 {
            let number = f64::from(number);
            (0..10).for_each(|_| assert!(get(&target).expect("it serves").text.ends_with("hello")));
            expect("oribi_responses_total{class=\"2xx\"}", number * 10.0);
            server.signal(Signal::HUP);
            expect("oribi_generation", 2.0);
            expect("oribi_generations_loaded_total", number * 2.0);
            expect("oribi_workers{state=\"ready\"}", 2.0);
            server.signal(Signal::USR2);
            expect("oribi_upgrades_total", number);
            expect("oribi_generation", 1.0);
            wait_until("only the new master is left", || children(server.pid()).len() == 1);
        }
        server.signal(Signal::TERM);
        assert_eq!(server.wait(), 0, "{}", server.log());
        assert!(!path.exists(), "the socket goes with the server");
    }
}

pub fn counters_that_cannot_be_read_begin_anew_and_the_log_says_so() {
    let folder = Folder::new();
    let path = folder.file("control");
    let name = path.to_str().expect("it is ASCII");
    let variables = [("ORIBI_EDGE", "on"), ("ORIBI_TEST_CONTROL", name), ("ORIBI_TEST_STRANGE_TOTALS", "1")];
    let mut server = roles::start("master of mold", &variables);
    let target = Target::Tcp(server.address());
    assert!(get(&target).expect("it serves").text.ends_with("hello"));
    wait_until("the count of it", || Counters::of(&path).get("responses_2xx") == 1.0);
    server.signal(Signal::USR2);
    server.wait_for_log("all counters begin at zero");
    master(&server, None);
    let mut seen = wait_for("an answer", || Counters::ask(&path));
    assert_eq!((seen.get("responses_2xx"), seen.get("upgrades")), (0.0, 1.0));
    assert!(get(&target).expect("it serves").text.ends_with("hello"));
    expect(&path, &mut seen, "responses_2xx", 1.0);
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), 0, "{}", server.log());
}
