//! Requests that wait for a worker: their number, their time, and those that no longer need one.

use crate::connection::{Connection, request};
use crate::language::{Language, Site};
use crate::server::wait_until;
use crate::turn;

crate::with_all_kinds_of_workers!(
    a_full_queue_is_told_at_once,
    requests_that_wait_too_long_are_given_up,
    a_client_that_has_gone_is_taken_out_of_the_queue,
    clients_that_go_while_an_app_answers_harm_nobody,
);

/// A connection whose request keeps the only worker until it is released.
fn occupied(site: &Site) -> Connection {
    let mut connection = Connection::open(site.address);
    connection.ask("/read?1");
    site.wait_inside(1);
    connection
}

fn asking(site: &Site, target: &str) -> Connection {
    let mut connection = Connection::open(site.address);
    connection.get("/files/small");
    connection.ask(target);
    connection
}

fn expect_refusal(connection: &mut Connection) {
    let response = connection.answer().0;
    assert_eq!(response.status, 503, "{response:?}");
    assert!(!response.ends(), "{response:?}");
    let seconds = response.field("Retry-After").unwrap_or_else(|| panic!("it does not tell when to come again: {response:?}"));
    assert!(seconds.parse::<u32>().is_ok_and(|seconds| seconds > 0), "{response:?}");
}

fn a_full_queue_is_told_at_once(language: Language) {
    let _turn = turn::beside_others();
    let site = language.start(&["--workers", "1", "--queue-limit", "3"]);
    let mut slow = occupied(&site);
    // Three of six requests may wait.
    let mut waiting: Vec<Connection> = (2..8).map(|number| asking(&site, &format!("/mark?{number}"))).collect();
    wait_until("three are refused", || {
        waiting.iter_mut().map(|connection| usize::from(!connection.is_quiet())).sum::<usize>() == 3
    });
    assert!(slow.is_quiet(), "they were refused while the worker was busy");
    let (mut refused, mut kept): (Vec<_>, Vec<_>) = waiting.into_iter().partition(Connection::has_received);
    refused.iter_mut().for_each(expect_refusal);
    site.release();
    assert_eq!(slow.answer().0.status, 200);
    for connection in &mut kept {
        assert_eq!(connection.answer().0.status, 200);
    }
    for connection in refused.iter_mut().chain(&mut kept) {
        connection.get_fast(9);
    }
    assert_eq!((2..8).filter(|number| site.inside(*number).is_some()).count(), 3, "no app saw what was refused");
}

fn requests_that_wait_too_long_are_given_up(language: Language) {
    let _turn = turn::beside_others();
    let site = language.start(&["--workers", "1", "--queue-timeout", "300ms"]);
    let mut slow = occupied(&site);
    let mut waiting = asking(&site, "/mark?2");
    expect_refusal(&mut waiting);
    assert!(slow.is_quiet(), "it was given up while the worker was busy");
    site.release();
    assert_eq!(slow.answer().0.status, 200);
    waiting.get_fast(3);
    assert_eq!(site.inside(2), None, "no app saw what was given up");
}

fn a_client_that_has_gone_is_taken_out_of_the_queue(language: Language) {
    let _turn = turn::beside_others();
    let site = language.start(&["--workers", "1"]);
    let mut slow = occupied(&site);
    let mut goes = vec![asking(&site, "/mark?2"), Connection::open(site.address)];
    goes[1].send(&request("POST", "/mark?3", &[b'x'; 3_000_000]));
    let mut stays = asking(&site, "/mark?4");
    let mut probe = Connection::open(site.address);
    let mut queue_is = |length: usize| {
        let wanted = format!("\"queue\":{length},");
        wait_until(&wanted, || String::from_utf8_lossy(&probe.get("/healthz").content).contains(&wanted));
    };
    queue_is(3);
    goes.drain(..).for_each(Connection::reset);
    queue_is(1);
    assert!(slow.is_quiet(), "they were taken out while the worker was busy");
    site.release();
    assert_eq!(slow.answer().0.status, 200);
    assert_eq!(stays.answer().0.status, 200);
    assert_eq!(site.inside(2), None, "nobody waits for it any more");
    assert_eq!(site.inside(3), None, "nobody waits for it any more");
}

fn clients_that_go_while_an_app_answers_harm_nobody(language: Language) {
    let _turn = turn::beside_others();
    let site = language.start(&["--workers", "2"]);
    let mut stays = Connection::open(site.address);
    for number in 10..20 {
        for target in
            [format!("/sleep?{number}&0.02"), format!("/big?{number}&3000000"), format!("/stream?{number}&3000000&30")]
        {
            let mut goes = Connection::open(site.address);
            goes.ask(&target);
            if target.starts_with("/sleep") {
                site.wait_inside(number);
            } else {
                goes.receive(1000).expect("the app answers");
            }
            goes.reset();
        }
        stays.get_fast(number);
    }
    for number in 20..40 {
        stays.get_fast(number);
    }
}
