//! The number of workers is changed while a server serves, and the command waits until they are there, or have gone.

use crate::connection::Connection;
use crate::language::Language;
use crate::load::{Load, Plan, Question};
use crate::steered::Steered;
use crate::turn;
use std::process::Child;

crate::with_all_kinds_of_workers!(
    more_and_fewer_workers_close_no_connection_and_are_waited_for,
    fewer_workers_finish_what_they_have_while_somebody_waits,
    workers_that_cannot_start_are_told_of,
    who_waits_for_a_number_that_is_changed_again_is_told,
    a_number_that_was_set_outlives_reloads_and_upgrades,
);

fn a_number_that_was_set_outlives_reloads_and_upgrades(language: Language) {
    let _turn = turn::beside_others();
    let server = Steered::start(language, &["--workers", "2"]);
    assert_eq!(server.well(&["scale", "4"]), "workers: 4 (before: 2)\n");
    for order in ["reload", "upgrade", "reload", "upgrade"] {
        server.well(&[order]);
        crate::server::wait_until(order, || server.states_of_workers() == ["ready"; 4]);
    }
    // Each server reports that it has taken over.
    crate::server::wait_until("four workers are announced", || server.site.server.log().matches("(workers: 4, ").count() == 2);
    server.site.server.signal(rustix::process::Signal::TTOU);
    crate::server::wait_until("one fewer", || server.states_of_workers() == ["ready"; 3]);
    server.well(&["upgrade"]);
    assert_eq!(server.states_of_workers(), ["ready"; 3]);
    // That is the configured number again.
    server.well(&["scale", "2"]);
    server.well(&["upgrade"]);
    assert_eq!(server.states_of_workers(), ["ready"; 2]);
}

fn more_and_fewer_workers_close_no_connection_and_are_waited_for(language: Language) {
    let _turn = turn::beside_others();
    let server = Steered::start(language, &["--workers", "2"]);
    let load = Load::start(server.site.address, Plan { connections: 16, pace: None, requests: None, question: Question::fast });
    load.wait_for_more(100);
    let mut before = 2;
    for wanted in [30, 3, 1, 20, 2] {
        assert_eq!(server.well(&["scale", &wanted.to_string()]), format!("workers: {wanted} (before: {before})\n"));
        // All of them, and no other, when the answer arrives.
        assert_eq!(server.states_of_workers(), vec!["ready"; wanted]);
        load.wait_for_more(100);
        before = wanted;
    }
    load.stop().must_be_perfect("requests while the number of workers changes");
    let refused = server.ctl(&["scale", "65"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("at most 64 workers"), "{refused:?}");
}

fn fewer_workers_finish_what_they_have_while_somebody_waits(language: Language) {
    let _turn = turn::beside_others();
    let server = Steered::start(language, &["--workers", "3"]);
    let mut slow: Vec<Connection> = Vec::new();
    for number in 1..4 {
        let mut connection = Connection::open(server.site.address);
        connection.ask(&format!("/read?{number}"));
        server.site.wait_inside(number);
        slow.push(connection);
    }
    assert_eq!(server.well(&["scale", "2", "--no-wait"]), "workers: 2 (before: 3)\n");
    let mut waits = server.begin(&["scale", "1"]);
    crate::server::wait_until("they are told", || {
        server.states_of_workers().iter().filter(|state| *state == "finishing").count() == 2
    });
    assert!(waits.try_wait().expect("it is ours").is_none(), "it waits for those that are busy");
    // One after the other: an app may read more than one line.
    for answered in 1..4 {
        server.site.release();
        crate::server::wait_until("an answer", || {
            slow.iter_mut().filter_map(|connection| (!connection.is_quiet()).then_some(())).count() == answered
        });
    }
    for connection in &mut slow {
        assert_eq!(connection.answer().0.status, 200);
    }
    assert_eq!(outcome(waits), (Some(0), "workers: 1 (before: 2)\n".to_owned()));
    assert_eq!(server.states_of_workers(), ["ready"]);
}

/// The exit status of a client that waits, and its output.
fn outcome(client: Child) -> (Option<i32>, String) {
    let output = client.wait_with_output().expect("it is ours");
    (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

fn workers_that_cannot_start_are_told_of(language: Language) {
    let _turn = turn::beside_others();
    let server = Steered::start(language, &["--workers", "1", "--boot-request", "/boot"]);
    server.site.set_boot(Some("503"));
    let (status, said) = outcome(server.begin(&["scale", "2"]));
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("/boot") && said.contains("503") && said.contains("keeps trying to start 2"), "{said}");
    Connection::open(server.site.address).get_fast(1);
    server.site.set_boot(None);
    // One that has started before may still fail.
    crate::server::wait_until("the server has gone on trying", || server.states_of_workers() == ["ready"; 2]);
    assert_eq!(server.well(&["scale", "2"]), "workers: 2 (before: 2)\n");
    assert_eq!(server.states_of_workers(), ["ready"; 2]);
}

fn who_waits_for_a_number_that_is_changed_again_is_told(language: Language) {
    let _turn = turn::beside_others();
    let server = Steered::start(language, &["--workers", "1", "--boot-request", "/boot", "--graceful-timeout", "1s"]);
    server.site.set_boot(Some("hang"));
    let waits = server.begin(&["scale", "3"]);
    crate::server::wait_until("two are starting", || {
        server.states_of_workers().iter().filter(|state| *state == "starting").count() == 2
    });
    assert_eq!(server.well(&["scale", "4", "--no-wait"]), "workers: 4 (before: 3)\n");
    let (status, said) = outcome(waits);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("changed again meanwhile, to 4"), "{said}");
    let stopped = server.begin(&["scale", "4"]);
    server.ctl(&["stop"]);
    let (status, said) = outcome(stopped);
    assert!(status == Some(1) && said.contains("the server"), "{said}");
}
