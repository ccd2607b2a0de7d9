//! New workers serve only when their app has answered the boot request, and nothing changes if it cannot.

use crate::client::{self, Manner, Target};
use crate::connection::Connection;
use crate::language::Language;
use crate::load::{Load, Plan, Question};
use crate::server::wait_until;
use crate::turn;
use rustix::process::Signal;
use std::collections::BTreeSet;

crate::with_all_kinds_of_workers!(
    what_cannot_boot_changes_nothing,
    ten_reloads_in_a_row_close_nothing,
    workers_that_are_cut_off_after_a_reload_leave_the_listeners_alone,
);

mod lua_alone {
    #[test]
    fn reloads_that_overtake_one_another_leave_no_crowd() {
        super::reloads_that_overtake_one_another_leave_no_crowd(super::Language::Lua);
    }
}

/// Returns the number of failed reloads in the log, in the message of a master or of a supervisor.
fn failures(log: &str) -> usize {
    log.matches("the app could not be reloaded").count() + log.matches("the current workers stay").count()
}

/// Returns the ids of workers that could not serve, according to the log.
fn failed(log: &str) -> BTreeSet<u32> {
    let lines = log.lines().filter(|line| line.contains(" before it could serve"));
    lines.filter_map(|line| line.split_once("(pid ")?.1.split_once(')')?.0.parse().ok()).collect()
}

fn what_cannot_boot_changes_nothing(language: Language) {
    let _turn = turn::beside_others();
    let site = language.start(&["--workers", "2", "--boot-request", "/boot", "--boot-timeout", "2s"]);
    let plan = Plan { connections: 16, pace: None, requests: None, question: Question::fast };
    let load = Load::start(site.address, plan);
    load.wait_for_more(100);
    let present = load.workers();
    let ways = [
        ("die", "GET /boot, was answered with status 500"),
        ("503", "GET /boot, was answered with status 503"),
        ("hang", "was killed after 2 s (--boot-timeout) before it could serve"),
    ];
    for (number, (word, reason)) in ways.into_iter().enumerate() {
        site.set_boot(Some(word));
        site.server.signal(Signal::HUP);
        wait_until("the reload has failed", || failures(&site.server.log()) > number);
        assert!(site.server.log().contains(reason), "{word}: {}", site.server.log());
    }
    load.wait_for_more(100);
    let before = &present | &load.workers();
    let failed = failed(&site.server.log());
    assert!(failed.len() >= 3 && before.is_disjoint(&failed), "{before:?} have answered, {failed:?} could not");
    site.set_boot(None);
    site.server.signal(Signal::HUP);
    wait_until("other workers answer", || {
        load.wait_for_more(50);
        load.workers().is_disjoint(&before)
    });
    load.stop().must_be_perfect("requests while reloads fail");
}

fn workers_that_are_cut_off_after_a_reload_leave_the_listeners_alone(language: Language) {
    let _turn = turn::beside_others();
    for edge in ["on", "off"] {
        let site = language.start(&["--workers", "1", "--edge", edge, "--graceful-timeout", "200ms"]);
        let mut inside = Connection::open(site.address);
        inside.ask("/sleep?1&60");
        site.wait_inside(1);
        let before = site.workers();
        site.server.signal(Signal::HUP);
        wait_until("the old worker is ended", || site.workers().iter().all(|worker| !before.contains(worker)));
        for number in 0..10 {
            // A client that the kernel leaves alone would wait for a connection.
            Connection::open(site.address).get_fast(number);
        }
    }
}

/// Runs with clients on kept and on short connections.
fn ten_reloads_in_a_row_close_nothing(language: Language) {
    let _turn = turn::beside_others();
    let site = language.start(&["--workers", "2"]);
    let kept = Load::start(site.address, Plan { connections: 16, pace: None, requests: None, question: Question::fast });
    let short = client::Load::start(&Target::Tcp(site.address), 4, Manner::ConnectionPerRequest);
    kept.wait_for_more(100);
    let before = site.workers();
    for _ in 0..10 {
        site.server.signal(Signal::HUP);
        kept.wait_for_more(20);
        short.wait_for_more(5);
    }
    wait_until("two new workers are left", || {
        let now = site.workers();
        now.len() == 2 && now.iter().all(|worker| !before.contains(worker))
    });
    kept.stop().must_be_perfect("requests while the app is loaded anew");
    // A reload within the stop does no harm, and neither does a stop within a reload.
    let mut site = site;
    site.server.signal(Signal::HUP);
    site.server.signal(Signal::TERM);
    site.server.signal(Signal::HUP);
    assert_eq!(short.wait(), [""; 0], "requests on short connections");
    assert_eq!(site.server.wait(), 0, "{}", site.server.log());
}

/// Each reload begins while the workers of the one before are starting, or have just started. There is room for only a few
/// workers.
fn reloads_that_overtake_one_another_leave_no_crowd(language: Language) {
    let _turn = turn::beside_others();
    let site = language.start(&["--workers", "2", "--boot-request", "/boot", "--boot-timeout", "20s"]);
    let load = Load::start(site.address, Plan { connections: 8, pace: None, requests: None, question: Question::fast });
    load.wait_for_more(100);
    let before = site.workers();
    let begun = |site: &crate::language::Site| site.server.log().matches("replacing the workers").count();
    for number in 0..40 {
        // Some find workers that are starting, others such as serve.
        if number == 20 {
            site.set_boot(Some("slow"));
        }
        site.server.signal(Signal::HUP);
        wait_until("the reload begins", || begun(&site) > number);
    }
    wait_until("two new workers are left", || {
        let now = site.workers();
        now.len() == 2 && now.iter().all(|worker| !before.contains(worker)) && site.server.log().contains("have been replaced")
    });
    load.stop().must_be_perfect("requests while reloads overtake one another");
    let log = site.server.log();
    assert!(!log.contains("[error]") && !log.contains("before it could serve"), "{log}");
    let last = log.rfind("replacing the workers").expect("they were");
    assert!(log[last..].contains("all workers have been replaced"), "{log}");
}
