//! Workers come and go, and no client notices.

use crate::client::{self, Manner, Target};
use crate::connection::Connection;
use crate::language::Language;
use crate::load::{Load, Plan, Question};
use crate::server::wait_until;
use crate::turn;
use rustix::process::Signal;
use std::collections::BTreeSet;

crate::in_every_language!(recycled_workers_close_no_connection, a_reload_closes_no_connection, a_stop_answers_what_was_asked);

const KEPT: usize = 32;

fn steadily() -> Plan {
    Plan { connections: KEPT, pace: None, requests: None, question: Question::fast }
}

fn recycled_workers_close_no_connection(language: Language) {
    let _turn = turn::beside_others();
    let site = language.start(&["--workers", "2", "--max-requests", "300"]);
    let load = Load::start(site.address, steadily());
    let mut seen = BTreeSet::new();
    wait_until("ten workers have answered", || {
        seen.append(&mut load.workers());
        seen.len() >= 10
    });
    load.stop().must_be_perfect("requests while workers are recycled");
}

fn a_reload_closes_no_connection(language: Language) {
    let _turn = turn::beside_others();
    let site = language.start(&["--workers", "2"]);
    let load = Load::start(site.address, steadily());
    load.wait_for_more(200);
    for _ in 0..2 {
        let before = load.workers();
        site.server.signal(Signal::HUP);
        wait_until("other workers answer", || {
            load.wait_for_more(50);
            load.workers().is_disjoint(&before)
        });
    }
    load.wait_for_more(200);
    load.stop().must_be_perfect("requests while the app is loaded anew");
}

fn a_stop_answers_what_was_asked(language: Language) {
    let _turn = turn::beside_others();
    let mut site = language.start(&["--workers", "2", "--edges", "2"]);
    let load = client::Load::start(&Target::Tcp(site.address), 16, Manner::KeepAlive);
    load.wait_for_more(200);
    let mut slow = Connection::open(site.address);
    slow.ask("/sleep?1&0.5");
    site.wait_inside(1);
    site.server.signal(Signal::TERM);
    let response = slow.answer().0;
    assert_eq!((response.status, &*response.content, response.ends()), (200, &b"sleep 1\n"[..], true));
    assert_eq!(load.wait(), [""; 0], "requests that were not answered");
    assert_eq!(site.server.wait(), 0, "it stops:\n{}", site.server.log());
}
