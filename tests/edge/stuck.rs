//! Tests of apps that do not return. At the deadline the client gets a 504, in whatever the app is stuck, and no other client
//! notices.

use crate::connection::Connection;
use crate::language::Language;
use crate::load::{Load, Plan, Question};
use crate::turn;
use std::time::Duration;

crate::in_every_language!(
    stuck_requests_are_answered_in_time,
    a_warning_tells_where_an_app_is,
    many_stuck_apps_block_nobody_for_long
);

const TIMEOUT: Duration = Duration::from_millis(700);

/// The time from the deadline until the worker would be killed: the 504 needs no kill.
const LATE: Duration = Duration::from_millis(500);

/// The ways in which an app can be stuck: in a loop of its language, in a sleep, in a read that blocks, in a regular
/// expression, and in a function in C.
const KINDS: [&str; 5] = ["stuck", "sleep", "read", "regex", "c"];

/// Returns the target of a request that makes the app stuck in this way.
fn target(kind: &str, number: u64) -> String {
    if kind == "sleep" { format!("/sleep?{number}&20") } else { format!("/{kind}?{number}") }
}

fn steadily() -> Plan {
    Plan { connections: 16, pace: Some(Duration::from_millis(2)), requests: None, question: Question::fast }
}

fn stuck_requests_are_answered_in_time(language: Language) {
    let _turn = turn::alone();
    let site = language.start(&["--workers", "3", "--request-timeout", "700ms", "--request-kill", "1200ms"]);
    let load = Load::start(site.address, steadily());
    for kind in KINDS {
        turn::best_of_three(|| {
            let mut connection = Connection::open(site.address);
            connection.get_fast(1);
            site.forget(2);
            connection.ask(&target(kind, 2));
            let (response, time) = connection.answer();
            assert_eq!(response.status, 504, "{kind}: {response:?}");
            assert!(!response.ends(), "{kind}: {response:?}");
            assert!(site.inside(2).is_some(), "{kind}: the app had begun");
            println!("{kind}: 504 after {time:.1?}");
            // Later output of the app reaches no client.
            connection.get_fast(3);
            assert!(time >= TIMEOUT, "{kind}: too early, after {time:?}");
            if time > TIMEOUT + LATE { Err(format!("{kind}: 504 after {time:.1?}")) } else { Ok(()) }
        });
    }
    load.stop().must_be_perfect("the requests of others");
}

/// If every worker is stuck, the server must kill workers, or interrupt their apps, before it can answer other requests.
fn many_stuck_apps_block_nobody_for_long(language: Language) {
    let _turn = turn::beside_others();
    let site = language.start(&["--workers", "2", "--request-timeout", "300ms", "--request-kill", "600ms"]);
    for kind in KINDS {
        let mut connections: Vec<Connection> = (0..2).map(|_| Connection::open(site.address)).collect();
        for (connection, number) in connections.iter_mut().zip(1..) {
            site.forget(number);
            connection.ask(&target(kind, number));
        }
        let mut waits = Connection::open(site.address);
        waits.ask("/mark?3");
        for connection in &mut connections {
            assert_eq!(connection.answer().0.status, 504, "{kind}");
        }
        // It waited in the queue and had not begun when its time was over, so that its time was not over.
        let response = waits.answer().0;
        assert_eq!((response.status, &*response.content), (200, &b"mark 3\n"[..]), "{kind}");
        for connection in &mut connections {
            connection.get_fast(4);
        }
    }
}

fn a_warning_tells_where_an_app_is(language: Language) {
    let _turn = turn::beside_others();
    let mut site = language.start(&["--workers", "2", "--request-warning", "200ms", "--request-timeout", "800ms"]);
    let mut connection = Connection::open(site.address);
    connection.ask("/stuck?1");
    let place = match language {
        Language::Perl | Language::Ruby => "loop_for_ever",
        Language::Lua => "app.lua:",
    };
    site.server.wait_for_log(place);
    assert!(site.server.log().contains("/stuck"), "the log tells which request it is:\n{}", site.server.log());
    assert_eq!(connection.answer().0.status, 504);
    connection.get_fast(2);

    // A warning is not an interruption: what ends in time is answered as if there had been none.
    for target in ["/sleep?3&0.4", "/nap?4&0.4"] {
        let response = connection.get(target);
        assert_eq!(response.status, 200, "{target}: {response:?}");
    }
}
