//! The counters of a server with an app: the results of requests, exactly, and for longer than any process lives.

use crate::connection::{Connection, request};
use crate::language::{Language, Site};
use crate::server::{Folder, send, wait_for, wait_until};
use crate::status::{Counters, order};
use crate::turn;
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::time::Duration;

crate::in_every_language!(
    lost_and_repeated_requests_are_counted,
    requests_that_take_too_long_are_counted,
    the_time_in_the_queue_is_counted,
    counters_outlive_every_process_but_the_first
);

/// A server with a control socket.
fn controlled(language: Language, arguments: &[&str]) -> (Site, PathBuf, Folder) {
    let folder = Folder::new();
    let path = folder.file("control");
    let site = language.start(&[&["--control", path.to_str().expect("a plain path")], arguments].concat());
    (site, path, folder)
}

/// Waits until these counters have grown by the expected numbers. Checks that they do not grow by more.
fn expect<const COUNT: usize>(path: &Path, before: &Counters, expected: [(&str, u64); COUNT]) {
    let numbers = expected.map(|(_, number)| number);
    let mut seen = before.clone();
    wait_until(&format!("{expected:?}"), || {
        let now = Counters::of(path);
        now.must_not_shrink(&seen);
        seen = now;
        let grown = seen.since(before, expected.map(|(name, _)| name));
        assert!(grown.iter().zip(numbers).all(|(grown, number)| *grown <= number), "{grown:?} of {expected:?}");
        grown == numbers
    });
}

/// Returns the counters after the connection is gone by which the test saw that the server had started.
fn at_rest(path: &Path) -> Counters {
    wait_for("rest", || {
        let counters = Counters::of(path);
        (counters.get("connections_accepted") == counters.get("connections_closed")).then_some(counters)
    })
}

fn lost_and_repeated_requests_are_counted(language: Language) {
    let _turn = turn::beside_others();
    let (site, path, _folder) = controlled(language, &["--workers", "2", "--retry-lost"]);
    let before = at_rest(&path);
    let mut connection = Connection::open(site.address);
    connection.ask("/sleep?1&0.3");
    let first = site.wait_inside(1);
    site.forget(1);
    send(first, Signal::KILL);
    site.wait_inside(1);
    assert_eq!(connection.answer().0.status, 200);
    // A POST is not done twice.
    connection.send(&request("POST", "/sleep?2&30", b"content"));
    send(site.wait_inside(2), Signal::KILL);
    assert_eq!(connection.answer().0.status, 502);
    expect(
        &path,
        &before,
        [
            ("requests_retried", 1),
            ("requests_lost", 1),
            ("responses_5xx", 1),
            ("workers_failed", 2),
            ("workers_ended_failure", 2),
            ("requests_queued", 2),
            ("responses_2xx", 1),
        ],
    );
}

fn requests_that_take_too_long_are_counted(language: Language) {
    let _turn = turn::beside_others();
    for edge in ["on", "off"] {
        // The `sleep` of Perl's Time::HiRes continues for up to a second when it is interrupted.
        let limits = ["--workers", "2", "--request-timeout", "400ms", "--request-kill", "5s"];
        let (site, path, _folder) = controlled(language, &[&["--edge", edge][..], &limits].concat());
        let before = at_rest(&path);
        let mut connection = Connection::open(site.address);
        connection.ask("/sleep?1&20");
        assert_eq!(connection.answer().0.status, 504, "--edge {edge}");
        expect(&path, &before, [("request_timeouts", 1), ("responses_5xx", 1), ("workers_ended_stuck", 0)]);
        // Nothing but an end interrupts a function in C.
        let mut connection = Connection::open(site.address);
        connection.ask("/c?2");
        expect(&path, &before, [("request_timeouts", 2), ("workers_ended_stuck", 1), ("workers_ended_failure", 0)]);
    }
}

fn the_time_in_the_queue_is_counted(language: Language) {
    let _turn = turn::beside_others();
    let (site, path, _folder) = controlled(language, &["--workers", "1"]);
    let before = at_rest(&path);
    let mut slow = Connection::open(site.address);
    slow.ask("/read?1");
    site.wait_inside(1);
    let mut waiting: Vec<Connection> = (0..3).map(|_| Connection::open(site.address)).collect();
    for (connection, number) in waiting.iter_mut().zip(2..) {
        connection.ask(&format!("/mark?{number}"));
    }
    expect(&path, &before, [("requests_queued", 4)]);
    let waited = Duration::from_millis(300);
    std::thread::sleep(waited);
    site.release();
    for connection in waiting.iter_mut().chain([&mut slow]) {
        assert_eq!(connection.answer().0.status, 200);
    }
    let waits = |counters: &Counters| {
        let grown = |name: &str| counters.get(name) - before.get(name);
        (grown("queue_wait_seconds"), counters.get("queue_longest_wait_seconds"))
    };
    let least = waited.as_secs_f64();
    wait_until("the waits", || waits(&Counters::of(&path)).0 >= least * 3.0);
    let (all, longest) = waits(&Counters::of(&path));
    assert!(longest >= least && longest <= all / 3.0 + least && all < 60.0, "{all} and at most {longest}");
}

fn counters_outlive_every_process_but_the_first(language: Language) {
    let _turn = turn::beside_others();
    let (site, path, _folder) = controlled(language, &["--workers", "2"]);
    let before = at_rest(&path);
    let ask = |target: &str, count: usize| {
        let mut connection = Connection::open(site.address);
        (0..count).for_each(|_| _ = connection.get(target));
    };
    ask("/fast?7", 10);
    ask("/files/small", 5);
    ask("/files/no-such-file", 3);
    let counted = [
        ("responses_2xx", 15),
        ("responses_4xx", 3),
        ("responses_5xx", 0),
        ("connections_accepted", 3),
        ("connections_closed", 3),
    ];
    expect(&path, &before, counted);
    assert!(order(&path, "reload").expect("it answers").contains("\"ok\":true"));
    expect(&path, &before, counted);
    let first = site.server.pid();
    for process in site.processes().into_iter().filter(|process| *process != first) {
        send(process, Signal::KILL);
    }
    wait_until("another edge", || Counters::of(&path).get("edges_started") == before.get("edges_started") + 1.0);
    expect(&path, &before, counted);
    ask("/fast?8", 2);
    expect(&path, &before, [("responses_2xx", 17), ("connections_accepted", 4), ("connections_closed", 4)]);
}
