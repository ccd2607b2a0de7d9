//! Tests how a worker sleeps, and how it is woken.

use super::*;
use oribi_io::Waiter;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::Write;
use std::thread;

const LONG: Option<Duration> = Some(Duration::from_secs(60));

/// Waits until a worker sleeps.
fn until_asleep(thread: rustix::thread::Pid) {
    let state = format!("/proc/self/task/{}/stat", thread.as_raw_nonzero());
    loop {
        let stat = std::fs::read_to_string(&state).expect("the thread lives");
        if stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('S')) {
            return;
        }
        thread::yield_now();
    }
}

#[test]
fn a_worker_that_sleeps_is_woken_for_a_request_and_for_a_command() {
    let mut site = Site::new();
    let Site { edge, intake, command, .. } = &mut site;
    for round in 0..20 {
        let (tell, told) = std::sync::mpsc::channel();
        thread::scope(|scope| {
            let command = &mut *command;
            let edge = &mut *edge;
            scope.spawn(move || {
                until_asleep(told.recv().expect("the worker says who it is"));
                if round % 2 == 0 {
                    submit(edge, "/", Content::None);
                } else {
                    command.write_all(b"x").expect("the pipe has room");
                }
            });
            tell.send(rustix::thread::gettid()).expect("somebody listens");
            let lent = intake.next_exchange().expect("epoll works");
            assert_eq!((lent.is_some(), intake.take_wake()), (round % 2 == 0, round % 2 == 1));
            if let Some(lent) = lent {
                let id = lent.id();
                intake.give_back(lent);
                intake.respond(id, OK, &[]).expect("its client waits");
            }
        });
    }
}

#[test]
fn a_thread_that_waits_without_the_lane_is_woken_whatever_others_do_meanwhile() {
    let mut site = Site::new();
    let mut watcher = site.intake.waiter().expect("there is one");
    for others_come in [false, true] {
        assert!(site.rests());
        thread::scope(|scope| {
            let watch = scope.spawn(|| watcher.wait(LONG).expect("epoll works"));
            if others_come {
                // Another thread takes a request and does not answer it.
                site.ask("/slow");
                let exchange = site.take();
                site.intake.respond(exchange, OK, &[]).expect("its client waits");
                site.receive();
            }
            site.ask("/");
            watch.join().expect("it was woken");
        });
        site.intake.collect(&mut watcher);
        assert!(!site.intake.take_wake(), "the lane itself is not meant");
        let exchange = site.take();
        site.intake.respond(exchange, OK, &[]).expect("its client waits");
        site.receive();
    }
    assert!(site.rests());
    site.command.write_all(b"x").expect("the pipe has room");
    watcher.wait(LONG).expect("epoll works");
    site.intake.collect(&mut watcher);
    assert!(matches!(site.intake.next_exchange_now(), Ok(Next::Command)));
    assert!(site.intake.take_wake());
}

#[test]
fn a_thread_that_finds_a_request_while_it_announces_its_sleep_leaves_others_to_be_woken() {
    let mut site = Site::new();
    let mut watcher = site.intake.waiter().expect("there is one");
    assert!(site.rests());
    // Another thread takes requests as long as there are some; the waiting one must be woken nevertheless.
    for _ in 0..3 {
        site.ask("/");
        site.take();
        watcher.wait(LONG).expect("epoll works");
        site.intake.collect(&mut watcher);
        assert!(site.rests());
        site.intake.abandon_all();
        site.receive();
    }
}

#[test]
fn a_worker_whose_threads_are_all_busy_is_not_woken_for_requests() {
    let mut site = Site::new();
    let mut watcher = site.intake.waiter().expect("there is one");
    site.intake.leave_line();
    assert_eq!(site.intake.do_pending_work(), None);
    site.ask("/");
    watcher.wait(Some(Duration::from_millis(20))).expect("epoll works");
    assert!(!site.intake.has_more());
    assert_eq!(site.edge.depth(), 1);
    site.take();
}

/// If the waiting time were zero, the thread of such an app would check again and again, with the language's lock.
#[test]
fn an_app_that_waits_for_its_client_leaves_the_queue_to_other_threads() {
    let mut site = Site::new();
    site.ask("/slow");
    site.take();
    site.ask("/");
    assert_eq!(site.intake.do_pending_work(), None);
    assert!(site.intake.has_more(), "another thread is called");
}

#[test]
fn a_worker_whose_app_asks_how_much_waits_is_not_woken_instead_of_others() {
    let mut site = Site::new();
    site.intake.serve_alone(false);
    site.ask("/");
    let exchange = site.take();
    assert_eq!(site.intake.do_pending_work(), None);
    site.ask("/next");
    let mut watcher = site.intake.waiter().expect("there is one");
    watcher.wait(Some(Duration::from_millis(20))).expect("epoll works");
    let is_rung = rustix::io::read(site.intake.pools[0].descriptor(), &mut [0; 8]).is_ok();
    assert!(!is_rung && site.intake.waiting(exchange).is_ok());
}

#[test]
fn commands_are_seen_although_there_is_always_another_request() {
    let mut site = Site::new();
    site.command.write_all(b"x").expect("the pipe has room");
    let mut answered = 0;
    loop {
        if site.edge.depth() == 0 {
            site.ask("/");
        }
        match site.intake.next_exchange_now().expect("epoll works") {
            Next::Command => break,
            Next::Exchange(lent) => {
                let id = lent.id();
                site.intake.give_back(lent);
                site.intake.respond(id, OK, &[]).expect("its client waits");
                site.receive();
                answered += 1;
            }
            Next::Nothing(_) => panic!("there is always a request"),
        }
    }
    assert!(site.intake.take_wake() && answered < 1_000_000);
}

#[test]
fn a_lane_that_stops_waits_for_no_edge_that_has_ended() {
    for empties in [false, true] {
        let mut site = Site::new();
        let (open, kept) = (site.ask("/open"), site.ask("/kept"));
        let (exchange, lent) = (site.take(), site.lend());
        site.intake.start(exchange, OK).expect("its client waits");
        site.intake.write(exchange, b"first").expect("its client waits");
        site.intake.stop(empties);
        assert!(matches!(site.intake.next_exchange_now(), Ok(Next::Nothing(Some(_)))), "it looks from time to time");
        assert!(matches!(site.intake.next_event_now(), Ok(Next::Nothing(Some(_)))));
        assert!(site.intake.do_pending_work().is_some_and(|time| !time.is_zero()));
        assert_eq!(site.receive().into_iter().map(|(ticket, _)| ticket).collect::<Vec<_>>(), [open, open]);
        site.edge.leave();
        assert!(matches!(site.intake.next_exchange_now(), Ok(Next::Nothing(_))), "a host has the other request");
        assert!(site.intake.write(exchange, b"more").is_err(), "its app learns it");
        assert_eq!(site.receive(), [(open, Said::Abandoned)]);
        assert!(site.intake.write(lent.id(), b"x").is_err(), "so does that of the other one");
        site.intake.give_back(lent);
        assert!(matches!(site.intake.next_exchange_now(), Ok(Next::Command)) && site.intake.finished());
        assert_eq!(site.receive(), [(kept, Said::Abandoned)]);
    }
}

#[test]
fn an_app_that_waits_for_room_is_let_go_when_the_edge_of_a_stopping_lane_ends() {
    let mut site = Site::new();
    site.ask("/large");
    let lent = site.lend();
    site.intake.start(lent.id(), OK).expect("its client waits");
    while site.intake.write(lent.id(), &[7; 1000]).expect("its client waits") == 0 {}
    site.intake.stop(false);
    let Site { edge, intake, .. } = &mut site;
    thread::scope(|scope| {
        let worker = rustix::thread::gettid();
        scope.spawn(move || {
            until_asleep(worker);
            edge.leave();
        });
        while intake.waiting(lent.id()).is_ok() {
            intake.turn().expect("epoll works");
        }
    });
    intake.give_back(lent);
    assert!(matches!(intake.next_exchange_now(), Ok(Next::Command)) && intake.finished());
}

#[test]
fn what_comes_on_the_line_is_read() {
    let mut site = Site::new();
    let ticket = site.ask("/");
    site.take();
    site.edge.interrupt(ticket);
    let waiting = |site: &Site| rustix::io::ioctl_fionread(site.intake.pools[0].line()).expect("a socket");
    assert!(waiting(&site) > 0);
    let mut watcher = site.intake.waiter().expect("there is one");
    watcher.wait(LONG).expect("epoll works");
    site.intake.collect(&mut watcher);
    assert_eq!(waiting(&site), 0);
    assert!(!site.intake.take_wake());
}

#[test]
fn a_lane_that_may_have_no_more_exchanges_leaves_requests_in_the_queue_and_is_woken_for_its_clients() {
    let mut site = Site::new();
    site.intake.report_client_changes();
    let mut watcher = site.intake.waiter().expect("there is one");
    let (ticket, exchange) = (site.ask("/open"), site.take());
    let waits = |site: &mut Site| matches!(site.intake.next_event_now(), Ok(Next::Nothing(None)));
    assert!(waits(&mut site));
    site.ask("/next");
    site.edge.wake_workers();
    assert!(waits(&mut site), "it is left to others");
    site.edge.withdraw(ticket);
    site.edge.wake_workers();
    watcher.wait(LONG).expect("epoll works");
    site.intake.collect(&mut watcher);
    site.intake.end_wait();
    assert!(matches!(site.intake.next_event_now(), Ok(Next::Command)) && site.intake.take_client_change());
    assert!(site.intake.waiting(exchange).is_err());
    let exchange = site.take();
    site.intake.respond(exchange, OK, &[]).expect("its client waits");
}

#[test]
fn another_loop_can_wait_for_the_descriptor_of_a_lane() {
    let mut site = Site::new();
    let mut watcher = site.intake.waiter().expect("there is one");
    let is_readable = |watcher: &crate::intake::Watcher| {
        let descriptor = watcher.descriptor().expect("a lane behind an edge has one");
        let mut polled = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
        poll(&mut polled, Some(&Timespec::default())).expect("it can be polled") == 1
    };
    assert!(site.rests() && !is_readable(&watcher));
    site.ask("/");
    site.edge.wake_workers();
    // Nothing of it is lost until the lane looks.
    assert!(is_readable(&watcher) && is_readable(&watcher));
    watcher.wait(Some(Duration::ZERO)).expect("epoll works");
    site.intake.collect(&mut watcher);
    site.intake.end_wait();
    assert!(!is_readable(&watcher));
    let exchange = site.take();
    site.intake.respond(exchange, OK, &[]).expect("its client waits");
}
