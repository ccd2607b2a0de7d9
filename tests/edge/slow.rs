//! Slow apps do not delay others: not the requests of others, not files, not probes.

use crate::connection::{Connection, request};
use crate::language::{FILES, Language, Site, content_of_file};
use crate::load::{Opened, Plan, Question, Report};
use crate::response::letters;
use crate::turn;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

crate::with_all_kinds_of_workers!(
    fast_requests_do_not_wait_for_slow_ones,
    fast_requests_do_not_wait_for_slow_ones_in_threads,
    clients_that_send_slowly_keep_no_worker,
    files_probes_and_slow_readers_do_not_wait_either,
    files_and_probes_are_answered_while_every_worker_is_busy,
);

/// The duration of slow requests in seconds, which other requests would have to wait for.
const SLOW: u64 = 2;

/// A request that waits for slow ones mostly takes longer than half of their time; one that does not may take that long on a machine that
/// does much else.
const FAST: Duration = Duration::from_millis(SLOW * 500);

const MANY: u64 = 1000;

/// A load of a thousand requests within a second, on connections that are already open.
fn thousand(question: fn(u64) -> Question) -> Plan {
    Plan { connections: 64, pace: Some(Duration::from_millis(1)), requests: Some(MANY), question }
}

/// Sends slow requests until `count` workers are answering one. Returns their connections.
fn occupy(site: &Site, count: u64) -> Vec<Connection> {
    (1..=count)
        .map(|number| {
            site.forget(number);
            let mut connection = Connection::open(site.address);
            connection.ask(&format!("/sleep?{number}&{SLOW}"));
            site.wait_inside(number);
            connection
        })
        .collect()
}

/// Waits for the answers to slow requests.
fn expect_slow(connections: Vec<Connection>) {
    for (mut connection, number) in connections.into_iter().zip(1_u64..) {
        let response = connection.answer().0;
        assert_eq!((response.status, &*response.content), (200, format!("sleep {number}\n").as_bytes()));
    }
}

/// Returns an error if a request may have waited for slow ones. Checks in any case that there were no faults.
fn is_fast(what: &str, report: &Report) -> Result<(), String> {
    report.must_be_perfect(what);
    println!("{what}: p50 {:.1?}, p99 {:.1?}, longest {:.1?}", report.percentile(50), report.percentile(99), report.longest());
    let longest = report.longest();
    if longest > FAST { Err(format!("longest {longest:.1?}")) } else { Ok(()) }
}

fn fast_requests_do_not_wait_for_slow_ones(language: Language) {
    beside_slow_ones(language, &["--workers", "3"]);
}

fn fast_requests_do_not_wait_for_slow_ones_in_threads(language: Language) {
    beside_slow_ones(language, &["--workers", "1", "--threads", "3"]);
}

/// Measures fast requests while slow ones take some of the three places in which requests are answered.
fn beside_slow_ones(language: Language, arguments: &[&str]) {
    let _turn = turn::alone();
    let site = language.start(arguments);
    turn::best_of_three(|| {
        let opened = Opened::new(site.address, 64);
        let slow = occupy(&site, 2);
        let report = opened.begin(thousand(Question::fast)).wait();
        expect_slow(slow);
        assert_eq!(report.answers(), MANY as usize);
        is_fast("fast requests beside slow ones", &report)
    });
}

fn clients_that_send_slowly_keep_no_worker(language: Language) {
    let _turn = turn::beside_others();
    let site = language.start(&["--workers", "1"]);
    let content = letters(1, 200_000);
    let bytes = request("POST", "/upload?1", &content);
    let mut slow: Vec<Connection> = [1, 10, 60, 150_000]
        .map(|at| {
            let mut connection = Connection::open(site.address);
            connection.send(&bytes[..at]);
            connection
        })
        .into();
    let mut quick = Connection::open(site.address);
    (0..20).for_each(|number| drop(quick.get_fast(number)));
    for (connection, at) in slow.iter_mut().zip([1, 10, 60, 150_000]) {
        assert!(connection.is_quiet());
        connection.send(&bytes[at..]);
        let response = connection.answer().0;
        assert!(response.status == 200 && response.content == content, "what was sent slowly: {}", response.status);
    }
}

fn mixed(number: u64) -> Question {
    match number % 3 {
        0 => Question::fast(number),
        1 => file(number),
        _ => probe(number),
    }
}

fn file(number: u64) -> Question {
    Question::new(format!("/files/small?{number}"), content_of_file(FILES[0].1))
}

fn probe(number: u64) -> Question {
    Question::new(format!("/healthz?{number}"), crate::load::ANYTHING)
}

/// Requests a response that is larger than a socket holds, and reads it slowly until `stop` is set. Then reads the rest, and
/// checks the response.
fn read_slowly(address: SocketAddr, number: u64, stop: &AtomicBool) {
    const LENGTH: usize = 4 << 20;
    let mut connection = Connection::open(address);
    connection.send(&request("GET", &format!("/big?{number}&{LENGTH}"), &[]));
    while !stop.load(Relaxed) {
        std::thread::sleep(Duration::from_millis(20));
        connection.receive(16 << 10).expect("the server sends");
    }
    let response = connection.answer().0;
    assert_eq!(response.status, 200);
    assert!(response.content == letters(number, LENGTH), "a slow reader does not have what it asked for");
}

fn files_probes_and_slow_readers_do_not_wait_either(language: Language) {
    let _turn = turn::alone();
    let site = language.start(&["--workers", "3"]);
    turn::best_of_three(|| {
        let opened = Opened::new(site.address, 64);
        let stop = AtomicBool::new(false);
        let report = std::thread::scope(|scope| {
            for number in 100..108 {
                let (stop, address) = (&stop, site.address);
                scope.spawn(move || read_slowly(address, number, stop));
            }
            let slow = occupy(&site, 2);
            let report = opened.begin(thousand(mixed)).wait();
            stop.store(true, Relaxed);
            expect_slow(slow);
            report
        });
        assert_eq!(report.answers(), MANY as usize);
        is_fast("requests, files and probes beside slow requests and slow readers", &report)
    });
}

fn files_and_probes_are_answered_while_every_worker_is_busy(language: Language) {
    let _turn = turn::alone();
    let site = language.start(&["--workers", "2"]);
    turn::best_of_three(|| {
        let (files, probes) = (Opened::new(site.address, 16), Opened::new(site.address, 4));
        let fast = Opened::new(site.address, 16);
        let slow = occupy(&site, 2);
        let fast = fast.begin(Plan { connections: 16, pace: None, requests: Some(16), question: Question::fast });
        let counted = |question| Plan { connections: 16, pace: Some(Duration::from_millis(2)), requests: Some(200), question };
        let (files, probes) = (files.begin(counted(file)).wait(), probes.begin(counted(probe)).wait());
        assert_eq!(fast.answered(), 0, "no worker was free");
        expect_slow(slow);
        fast.wait().must_be_perfect("requests that wait until a worker returns");
        is_fast("files while every worker is busy", &files)?;
        is_fast("probes while every worker is busy", &probes)
    });
}
