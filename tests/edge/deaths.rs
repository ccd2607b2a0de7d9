//! The consequences of killed processes. The death of a worker costs only the requests that it was answering, that of an edge
//! its connections but no app, and that of a master everything.

use crate::connection::{Connection, request};
use crate::language::{Language, Site};
use crate::load::{Load, Plan, Question};
use crate::server::{runs, send, wait_for, wait_until};
use crate::turn;
use rustix::process::Signal;
use std::net::TcpStream;

crate::in_every_language!(
    a_killed_worker_costs_the_request_inside_of_it,
    workers_killed_at_any_moment_cost_one_request_each,
    a_killed_worker_with_threads_costs_what_is_inside_of_it,
    an_app_that_crashes_costs_its_own_request,
    an_app_that_dies_or_exits_is_answered_for,
    a_lost_request_is_tried_again_once,
    a_killed_edge_is_replaced_and_apps_stay,
    a_killed_master_leaves_nothing_behind,
);

fn steadily(connections: usize) -> Plan {
    Plan { connections, pace: None, requests: None, question: Question::fast }
}

fn a_killed_worker_costs_the_request_inside_of_it(language: Language) {
    let _turn = turn::beside_others();
    let site = language.start(&["--workers", "3"]);
    let load = Load::start(site.address, steadily(16));
    for number in 1..=3 {
        let mut inside = Connection::open(site.address);
        inside.get_fast(number);
        inside.ask(&format!("/sleep?{number}&30"));
        let worker = site.wait_inside(number);
        send(worker, Signal::KILL);
        let response = inside.answer().0;
        assert_eq!(response.status, 502, "{response:?}");
        assert!(!response.ends(), "{response:?}");
        // The connection is as good as before.
        assert_ne!(inside.get_fast(number).worker(), worker);
        load.wait_for_more(50);
    }
    load.stop().must_be_perfect("the requests of others");
}

fn a_killed_worker_with_threads_costs_what_is_inside_of_it(language: Language) {
    let _turn = turn::beside_others();
    let site = language.start(&["--workers", "2", "--threads", "2"]);
    let load = Load::start(site.address, steadily(8));
    // Three are inside of four threads, so that one thread answers others.
    let mut inside: Vec<(u32, Connection)> = (1..=3)
        .map(|number| {
            let mut connection = Connection::open(site.address);
            connection.ask(&format!("/sleep?{number}&3"));
            (site.wait_inside(number), connection)
        })
        .collect();
    load.wait_for_more(50);
    let killed = inside[0].0;
    send(killed, Signal::KILL);
    let in_it = inside.iter().filter(|(worker, _)| *worker == killed).count();
    for (worker, connection) in &mut inside {
        assert_eq!(connection.answer().0.status, if *worker == killed { 502 } else { 200 });
    }
    load.wait_for_more(50);
    let report = load.stop();
    report.must_be_without_faults("the requests of others");
    // The other thread of that worker may have been inside of one of them.
    let lost = report.statuses.get(&502).copied().unwrap_or_default();
    assert!(in_it + lost <= 2, "{in_it} and {lost} requests were lost in two threads: {:?}", report.statuses);
}

fn nap(number: u64) -> Question {
    Question::nap(number, 0.005)
}

fn workers_killed_at_any_moment_cost_one_request_each(language: Language) {
    const KILLED: usize = 5;
    let _turn = turn::beside_others();
    let site = language.start(&["--workers", "3"]);
    let load = Load::start(site.address, Plan { question: nap, ..steadily(16) });
    for _ in 0..KILLED {
        load.workers();
        load.wait_for_more(40);
        let worker = wait_for("a worker that answers", || load.workers().into_iter().next_back());
        send(worker, Signal::KILL);
    }
    load.wait_for_more(40);
    let report = load.stop();
    report.must_be_without_faults("requests while workers are killed");
    let lost = report.statuses.get(&502).copied().unwrap_or_default();
    assert!(report.statuses.keys().all(|status| [200, 502].contains(status)), "{:?}", report.statuses);
    assert!((1..=KILLED).contains(&lost), "{lost} requests were lost in {KILLED} workers");
}

fn an_app_that_crashes_costs_its_own_request(language: Language) {
    let _turn = turn::beside_others();
    let site = language.start(&["--workers", "2"]);
    let load = Load::start(site.address, steadily(8));
    let mut connection = Connection::open(site.address);
    assert_eq!(connection.get("/segv?1").status, 502);
    connection.get_fast(2);
    load.wait_for_more(50);
    load.stop().must_be_perfect("the requests of others");
}

fn an_app_that_dies_or_exits_is_answered_for(language: Language) {
    let _turn = turn::beside_others();
    let site = language.start(&["--workers", "2"]);
    let mut connection = Connection::open(site.address);
    // Perl and Ruby end the worker of an app that calls exit; its answer and its client's connection have nothing to do with it.
    for target in ["/die?1", "/exit?2", "/exit?3"] {
        let response = connection.get(target);
        assert_eq!(response.status, 500, "{target}: {response:?}");
        connection.get_fast(3);
    }
}

fn a_lost_request_is_tried_again_once(language: Language) {
    let _turn = turn::beside_others();
    let site = language.start(&["--workers", "2", "--retry-lost"]);
    let mut connection = Connection::open(site.address);

    connection.ask("/sleep?1&0.5");
    let first = site.wait_inside(1);
    site.forget(1);
    send(first, Signal::KILL);
    let second = site.wait_inside(1);
    let response = connection.answer().0;
    assert_eq!((response.status, &*response.content), (200, &b"sleep 1\n"[..]));
    assert_eq!(response.worker(), second);
    assert_ne!(first, second);

    // Once is enough: a request that kills every worker must not continue.
    connection.ask("/sleep?2&30");
    for _ in 0..2 {
        let worker = site.wait_inside(2);
        site.forget(2);
        send(worker, Signal::KILL);
    }
    assert_eq!(connection.answer().0.status, 502);

    // Requests that are not idempotent must not be repeated.
    connection.send(&request("POST", "/sleep?3&30", b"content"));
    send(site.wait_inside(3), Signal::KILL);
    site.forget(3);
    assert_eq!(connection.answer().0.status, 502);
    connection.get_fast(4);
    assert_eq!(site.inside(3), None, "a POST was tried again");
}

/// Returns the ids of the processes whose apps answer, when these are `count`.
fn workers(site: &Site, count: usize) -> Vec<u32> {
    let edges = site.edges();
    let named = |process: &u32| {
        let title = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&title).starts_with("oribi: worker")
    };
    // A new process has the title of its parent for a moment.
    wait_for(&format!("{count} processes that call themselves workers"), || {
        let found = site.processes().into_iter().filter(|process| named(process) && !edges.contains(process));
        Some(found.collect::<Vec<u32>>()).filter(|found| found.len() == count)
    })
}

fn a_killed_edge_is_replaced_and_apps_stay(language: Language) {
    let _turn = turn::beside_others();
    let site = language.start(&["--workers", "2"]);
    let mut before = workers(&site, 2);
    before.sort_unstable();
    for number in 1..=2 {
        let edges = site.edges();
        assert_eq!(edges.len(), 1, "one edge is what there is by default");
        let mut inside = Connection::open(site.address);
        inside.ask(&format!("/sleep?{number}&0.5"));
        site.wait_inside(number);
        site.forget(number);
        send(edges[0], Signal::KILL);
        inside.response(false).expect_err("a connection cannot outlive the process that holds it");
        let edge = wait_for("another edge", || site.edges().into_iter().find(|edge| *edge != edges[0]));
        assert!(runs(edge));
        // Clients that connect again are served, by the same apps.
        let load = Load::start(site.address, steadily(8));
        load.wait_for_more(200);
        wait_until("every worker answers", || {
            load.workers().len() == 2 || {
                load.wait_for_more(20);
                false
            }
        });
        load.stop().must_be_perfect("requests after an edge was replaced");
        let mut after = workers(&site, 2);
        after.sort_unstable();
        assert_eq!(before, after, "no app was started anew");
    }
}

fn a_killed_master_leaves_nothing_behind(language: Language) {
    let _turn = turn::beside_others();
    let site = language.start(&["--workers", "2"]);
    let processes = site.processes();
    assert!(processes.len() >= 3, "an edge and two workers: {processes:?}");
    send(site.server.pid(), Signal::KILL);
    wait_until("all processes end", || processes.iter().all(|process| !runs(*process)));
    TcpStream::connect(site.address).expect_err("nobody holds the port");
}
