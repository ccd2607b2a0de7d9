//! The kernel wakes a lane for a connection, but the lane does not take the connection. Then it must wake another lane by the
//! doorbell. In these tests, two engines over epoll wait in two threads at one listener, and the kernel wakes one of the
//! threads for a connection.

use oribi_io::{Epoll, Waiter};
use oribi_server::config::{ListenAddress, Settings};
use oribi_server::engine::{ConnectionCounts, Engine};
use oribi_server::listen::open;
use oribi_server::scoreboard::{Presence, SharedDoorbell};
use std::fs;
use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

type OverEpoll<'a> = Engine<'a, Epoll>;

/// More than any machine needs to wake a thread. Only a failing test waits this long.
const PATIENCE: Duration = Duration::from_secs(10);

/// Waits in this thread until the lane is woken, and then sends the index and the waiter of the lane. Sends the id of the
/// thread first.
fn sleep<W: Waiter>(lane: usize, mut waiter: W, identity: &Sender<u32>, woken: &Sender<(usize, W)>) {
    identity.send(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()).expect("the test listens");
    waiter.wait(Some(PATIENCE * 2)).expect("epoll works");
    woken.send((lane, waiter)).expect("the test listens");
}

/// Returns when the thread sleeps in the kernel.
fn wait_until_asleep(thread: u32) {
    let state = || {
        let line = fs::read_to_string(format!("/proc/self/task/{thread}/stat")).expect("the thread lives");
        line.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next())
    };
    while state() != Some('S') {
        std::thread::yield_now();
    }
}

/// The kernel wakes one of two idle lanes for a connection, and that lane calls `leave` instead of taking the connection. Then
/// the other lane must wake up and take it.
fn another_lane_takes_what_this_one_leaves(leave: impl Fn(&mut OverEpoll<'_>)) {
    let settings = Settings { listen: vec![ListenAddress::tcp("127.0.0.1", 0)], ..Settings::default() };
    let listeners = open(&settings).expect("loopback is there");
    let (doorbell, everywhere) = (SharedDoorbell::new().expect("an eventfd is to be had"), AtomicU32::new(0));
    let count = || -> &'static AtomicU32 { Box::leak(Box::default()) };
    let workers = [(); 2].map(|()| Presence { connections: count(), idle: count() });
    let pipes = [(); 2].map(|()| io::pipe().expect("a pipe is to be had"));
    let mut lanes = [0, 1].map(|lane: usize| {
        let backend = Epoll::new().expect("epoll works");
        let mut engine = Engine::new(backend, &settings, &listeners, pipes[lane].0.as_fd(), None).expect("epoll works");
        let Presence { connections: here, idle } = workers[lane];
        let counts = ConnectionCounts {
            here,
            everywhere: &everywhere,
            lanes: 2,
            lanes_each: 1,
            idle,
            workers: &workers,
            doorbell: Some(&doorbell),
        };
        engine.take_part_in(counts).expect("epoll works");
        engine
    });

    let (identity, identities) = channel();
    let (woken, wakes) = channel();
    for (lane, engine) in lanes.iter().enumerate() {
        let (waiter, identity, woken) = (engine.waiter().expect("epoll works"), identity.clone(), woken.clone());
        std::thread::spawn(move || sleep(lane, waiter, &identity, &woken));
    }
    for _ in 0..2 {
        wait_until_asleep(identities.recv().expect("the thread lives"));
    }

    let _client = TcpStream::connect(format!("127.0.0.1:{}", listeners[0].server_port)).expect("it listens");
    workers.iter().for_each(|worker| worker.idle.store(1, Relaxed));
    let (told, mut waiter) = wakes.recv_timeout(PATIENCE).expect("the kernel tells one lane");
    lanes[told].collect(&mut waiter);
    leave(&mut lanes[told]);
    let (other, mut waiter) = wakes.recv_timeout(PATIENCE).expect("the bell tells the other lane");
    assert_ne!(told, other);
    lanes[other].collect(&mut waiter);
    lanes[other].do_pending_work().expect("epoll works");
    assert_eq!((lanes[told].connections(), lanes[other].connections()), (0, 1));
}

#[test]
fn a_lane_whose_app_is_held_up_tells_another_one() {
    another_lane_takes_what_this_one_leaves(|lane| {
        lane.leave_line();
    });
}

#[test]
fn a_lane_that_is_about_to_call_its_app_tells_another_one() {
    another_lane_takes_what_this_one_leaves(|lane| {
        lane.submit();
    });
}
