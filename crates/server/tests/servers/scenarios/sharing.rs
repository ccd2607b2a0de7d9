//! Lanes that share their listeners: which lane takes a connection while an app keeps another one busy.

use super::harness::{GET, SECOND, Server, echo, ok, pattern};
use super::response::read_only;
use oribi_server::config::Settings;
use oribi_server::engine::ConnectionCounts;
use oribi_server::scoreboard::Presence;
use oribi_server::source::Source;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Creates a server with one of `lanes` lanes, of which `idle` others are idle. The app of this lane writes more than its
/// clients take at once.
fn server(lanes: usize, idle: u32) -> Server {
    let mut settings = Settings::default();
    settings.limits.output_bytes = 1000;
    settings.limits.output_spool_bytes = 0;
    let server = Server::new(settings, |_, reply| {
        let mut writer = reply.start(ok()).expect("the client is there");
        pattern(20_000).chunks(1000).for_each(|piece| writer.write(piece).expect("the client is there"));
        writer.finish().expect("the client is there");
    });
    let count = || Box::leak(Box::new(AtomicU32::new(0)));
    let presence = || Presence { connections: count(), idle: count() };
    let (this, another) = (presence(), presence());
    another.idle.store(idle, Relaxed);
    let (here, idle, workers) = (this.connections, this.idle, &*Box::leak(Box::new([this, another])));
    let counts = ConnectionCounts { here, everywhere: count(), lanes, lanes_each: 1, idle, workers, doorbell: None };
    server.lane.source().take_part_in(counts).expect("there is no bell");
    server
}

/// Makes the app wait for a client that does not read at first. Meanwhile two other clients connect, the first together with
/// the request and the second later. Returns whether the lane accepts connections each time it waits, and how many of the three
/// connections it has when the app continues.
fn held_up(lanes: usize) -> (Vec<bool>, usize) {
    let mut server = server(lanes, 1);
    let slow = server.connect();
    server.run();
    slow.set_window(100);
    slow.send(GET);
    let _at_once = server.connect();
    let listening = Rc::new(RefCell::new(Vec::new()));
    let (seen, world, window) = (listening.clone(), server.world.clone(), slow.clone());
    let mut later = None;
    server.meanwhile(move || {
        seen.borrow_mut().push(world.listening());
        if later.is_none() {
            later = Some(world.connect());
        } else {
            window.set_window(usize::MAX);
        }
    });
    assert!(server.run_one());
    server.no_meanwhile();
    let own = server.connections();
    assert_eq!(read_only(&slow.received()).body, pattern(20_000));
    // The lane is free, so it takes the client that no other lane has taken.
    server.advance(SECOND);
    assert!(server.world.listening());
    assert_eq!(server.connections(), 3);
    (listening.take(), own)
}

#[test]
fn new_connections_are_left_to_other_lanes_while_an_app_is_held_up() {
    let (listening, connections) = held_up(2);
    assert!(!listening.is_empty() && listening.iter().all(|listening| !listening), "{listening:?}");
    assert_eq!(connections, 1);
}

#[test]
fn a_lane_that_is_alone_takes_connections_all_the_time() {
    let (listening, connections) = held_up(1);
    assert!(listening.iter().all(|listening| *listening), "{listening:?}");
    assert_eq!(connections, 3);
}

#[test]
fn clients_that_ask_for_nothing_do_not_keep_others_from_being_taken() {
    let mut server = Server::standard(echo);
    let count = || &*Box::leak(Box::new(AtomicU32::new(0)));
    let presence = || Presence { connections: count(), idle: count() };
    let (this, another) = (presence(), presence());
    let (here, idle, workers) = (this.connections, this.idle, &*Box::leak(Box::new([this, another])));
    let counts = ConnectionCounts { here, everywhere: count(), lanes: 2, lanes_each: 1, idle, workers, doorbell: None };
    server.lane.source().take_part_in(counts).expect("there is no bell");
    let _silent: Vec<_> = (0..100).map(|_| server.connect()).collect();
    let client = server.connect();
    client.send(GET);
    server.run();
    server.advance(SECOND / 20);
    assert_eq!(server.connections(), 101);
    assert_eq!(read_only(&client.received()).status, 200);
}

#[test]
fn the_lanes_of_a_worker_together_have_no_more_connections_than_it_may_have() {
    let mut settings = Settings::default();
    settings.limits.connections = 2;
    let mut server = Server::new(settings, echo);
    let here: &AtomicU32 = Box::leak(Box::new(AtomicU32::new(2)));
    let everywhere = Box::leak(Box::new(AtomicU32::new(2)));
    let idle = Box::leak(Box::new(AtomicU32::new(0)));
    let counts = ConnectionCounts { here, everywhere, lanes: 2, lanes_each: 2, idle, workers: &[], doorbell: None };
    server.lane.source().take_part_in(counts).expect("there is no bell");
    let client = server.connect();
    server.run();
    assert_eq!(server.connections(), 0, "both are another lane's");
    here.fetch_sub(1, Relaxed);
    server.advance(SECOND);
    assert_eq!(read_only(&server.exchange(&client, GET)).status, 200);
}

#[test]
fn a_client_that_asks_nothing_keeps_others_waiting_for_a_moment_only() {
    let mut server = server(2, 0);
    let _silent = server.connect();
    for count in 1..4 {
        server.advance(SECOND);
        assert_eq!(server.connections(), count);
        let _next = server.connect();
        server.run();
        assert_eq!(server.connections(), count + 1, "nobody waits for a client that is silent");
    }
}

#[test]
fn nobody_is_left_to_a_lane_that_takes_no_clients() {
    let mut server = server(2, 1);
    server.run();
    let is_idle = |server: &Server| server.lane.source().is_idle_while_it_waits();
    assert!(is_idle(&server));
    // The lane is about to wait for its own client.
    server.lane.source().leave_line();
    assert!(!is_idle(&server));
    server.advance(SECOND);
    assert!(is_idle(&server), "it has come back");
    server.lane.source().stop(false);
    assert!(!is_idle(&server));
}
