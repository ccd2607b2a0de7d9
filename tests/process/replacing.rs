//! Starting workers, and replacing those that end.

use crate::client::{Load, Manner, Target, get};
use crate::server::{runs, send, wait_for, wait_until};
use crate::wire::Wire;
use crate::{native, tcp};
use rustix::process::Signal;
use std::io::Write;

#[test]
fn as_many_workers_as_asked_for_share_the_work() {
    let mut server = native(&["--workers", "3"]);
    let target = tcp(&mut server);
    assert_eq!(server.wait_for_workers(3).len(), 3);
    assert!(get(&target).expect("it serves").text.ends_with("\r\n\r\nhello"));
}

#[test]
fn a_worker_that_was_killed_is_replaced() {
    let mut server = native(&["--workers", "2", "--err-respawn-interval", "10ms"]);
    let target = tcp(&mut server);
    let before = server.wait_for_workers(2);
    send(before[0], Signal::KILL);
    let after = wait_for("a new worker", || Some(server.workers()).filter(|now| now.len() == 2 && !now.contains(&before[0])));
    assert!(after.contains(&before[1]), "the other one stays");
    server.wait_for_log("was killed by signal 9");
    get(&target).expect("it serves on");
}

#[test]
fn a_worker_told_to_go_answers_what_it_has_and_is_replaced() {
    let mut server = native(&["--workers", "2"]);
    let target = tcp(&mut server);
    let before = server.wait_for_workers(2);
    let load = Load::start(&target, 8, Manner::KeepAlive);
    load.wait_for_more(500);
    for worker in &before {
        send(*worker, Signal::TERM);
    }
    wait_until("other workers", || server.workers().len() == 2 && !before.iter().any(|worker| runs(*worker)));
    load.wait_for_more(500);
    assert_eq!(load.stop(), Vec::<String>::new());
}

#[test]
fn workers_that_have_answered_enough_are_replaced_without_a_gap() {
    for manner in [Manner::KeepAlive, Manner::ConnectionPerRequest] {
        let mut server = native(&["--workers", "2", "--max-requests", "200", "--min-requests", "100"]);
        let target = tcp(&mut server);
        let before = server.wait_for_workers(2);
        let load = Load::start(&target, 8, manner);
        wait_until("other workers", || !before.iter().any(|worker| runs(*worker)));
        load.wait_for_more(3000);
        assert_eq!(load.stop(), Vec::<String>::new(), "{manner:?}");
        server.wait_for_workers(2);
        assert!(!server.log().contains("rror"), "{}", server.log());
    }
}

#[test]
fn with_threads_the_contexts_are_replaced_and_not_the_process() {
    let mut server = native(&["--workers", "1", "--threads", "2", "--max-requests", "50"]);
    let target = tcp(&mut server);
    let before = server.wait_for_workers(1);
    let load = Load::start(&target, 4, Manner::KeepAlive);
    load.wait_for_more(2000);
    assert_eq!(load.stop(), Vec::<String>::new());
    assert_eq!(server.workers(), before);
}

#[test]
fn hup_replaces_the_workers_one_after_the_other_without_a_gap() {
    for (workers, manner) in [(1, Manner::ConnectionPerRequest), (3, Manner::KeepAlive)] {
        let mut server = native(&["--workers", &workers.to_string(), "--reload-mode", "rolling"]);
        let target = tcp(&mut server);
        let before = server.wait_for_workers(workers);
        let load = Load::start(&target, 8, manner);
        load.wait_for_more(500);
        server.signal(Signal::HUP);
        server.wait_for_log("replacing the workers");
        server.wait_for_log("all workers have been replaced");
        wait_until("the end of the old workers", || !before.iter().any(|worker| runs(*worker)));
        load.wait_for_more(500);
        assert_eq!(load.stop(), Vec::<String>::new(), "{manner:?}");
        let after = server.wait_for_workers(workers);
        // While a worker is replaced there is one more, and never more than that.
        server.signal(Signal::HUP);
        let mut most = 0;
        wait_until("workers that are newer still", || {
            let now = server.workers();
            most = most.max(now.len());
            now.len() == workers && !now.iter().any(|worker| after.contains(worker))
        });
        // A worker that has the order to end may take a moment.
        assert!(most <= workers + 2, "{most}");
    }
}

#[test]
fn a_worker_that_is_replaced_may_finish_but_not_for_ever() {
    let mut server = native(&["--workers", "1", "--graceful-timeout", "200ms", "--edge", "off"]);
    let address = server.address();
    let mut stuck = Wire::of_http1(address).expect("it listens");
    stuck.write_all(b"POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\nhalf").expect("it is connected");
    get(&Target::Tcp(address)).expect("behind this answer, the other request has been read");
    let before = server.wait_for_workers(1);
    server.signal(Signal::HUP);
    server.wait_for_log("did not finish in time: killed with 1 open connections");
    wait_until("its end", || !runs(before[0]));
    get(&Target::Tcp(address)).expect("the other one serves");
    assert_ne!(server.wait_for_workers(1), before);
    assert!(!server.log().contains("rror"), "{}", server.log());
}

#[test]
fn signals_change_the_number_of_workers() {
    let mut server = native(&["--workers", "1"]);
    let target = tcp(&mut server);
    let first = server.wait_for_workers(1)[0];
    server.signal(Signal::TTIN);
    server.wait_for_workers(2);
    server.signal(Signal::TTIN);
    server.wait_for_workers(3);
    let load = Load::start(&target, 4, Manner::KeepAlive);
    server.signal(Signal::TTOU);
    server.wait_for_workers(2);
    server.signal(Signal::TTOU);
    assert_eq!(server.wait_for_workers(1), [first], "those that came last go first");
    load.wait_for_more(100);
    assert_eq!(load.stop(), Vec::<String>::new());
    server.signal(Signal::TTOU);
    get(&target).expect("the last one stays");
    assert_eq!(server.workers(), [first]);
}
