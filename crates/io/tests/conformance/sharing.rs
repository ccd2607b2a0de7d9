//! The promises of backends that share a listener: a backend that got the report of a connection takes the connection or
//! notifies another backend.

use crate::networks::{Network, PATIENCE};
use oribi_io::{Accepted, Backend, Event};
use rustix::thread::gettid;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// A network with room for more backends than one.
pub trait Several: Network {
    fn another() -> Self::Backend;
}

/// The action of a lane on the report of a connection; `false` if it ends.
type Act<B> = fn(&mut B, BorrowedFd<'_>, &AtomicUsize) -> bool;

/// Waits at the listener as long as `act` returns true, or until the pipe is written to. Sends its thread id before it first
/// waits.
fn lane<N: Several>(
    listener: BorrowedFd<'_>,
    pipe: BorrowedFd<'_>,
    waits: &Sender<i32>,
    taken: &AtomicUsize,
    act: Act<N::Backend>,
) {
    let mut backend = N::another();
    backend.listen(0, listener).expect("it can be listened on");
    backend.watch(pipe).expect("it can be watched");
    let mut events = Vec::new();
    // After this wait the kernel knows everything that it must know before the first sleep.
    backend.wait(Some(Duration::ZERO), &mut events).expect("waiting works");
    waits.send(gettid().as_raw_nonzero().get()).expect("the test waits");
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        events.clear();
        backend.wait(Some(PATIENCE), &mut events).expect("waiting works");
        if events.contains(&Event::Wake) || (events.contains(&Event::Connection(0)) && !act(&mut backend, listener, taken)) {
            return;
        }
    }
}

/// Waits until this many lanes sleep.
fn until_asleep(waits: &Receiver<i32>, count: usize) {
    for _ in 0..count {
        let thread = waits.recv_timeout(PATIENCE).expect("it begins to wait");
        let sleeps = || {
            let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with('S'))
        };
        until("a lane sleeps", sleeps);
    }
}

#[track_caller]
fn until(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn take<B: Backend>(backend: &mut B, listener: BorrowedFd<'_>, taken: &AtomicUsize) -> bool {
    if let Accepted::Connection(socket, _) = backend.accept(0, listener) {
        backend.close(socket);
        backend.submit();
        taken.fetch_add(1, SeqCst);
    }
    true
}

/// Stops listening, and takes the connections that may have been reported to this backend only.
fn leave<B: Backend>(backend: &mut B, listener: BorrowedFd<'_>, taken: &AtomicUsize) {
    backend.unlisten(0, listener).expect("it listened");
    while let Accepted::Connection(socket, _) = backend.take_accepted(0, listener) {
        backend.close(socket);
        backend.submit();
        taken.fetch_add(1, SeqCst);
    }
}

/// If a connection wakes a lane that is about to stop, that lane or another sleeping one takes it.
pub fn a_stopped_lane_leaves_nothing_behind<N: Several>() {
    let (mut network, _unused, listener) = N::new();
    let pipe = network.watched().try_clone().expect("a descriptor");
    let (taken, (waiting, waits)) = (AtomicUsize::new(0), channel());
    std::thread::scope(|scope| {
        // The lane that listens first is notified first.
        for act in [leave_at_once::<N::Backend> as Act<_>, take::<N::Backend>] {
            let (waiting, listener, pipe, taken) = (waiting.clone(), listener.as_fd(), pipe.as_fd(), &taken);
            scope.spawn(move || lane::<N>(listener, pipe, &waiting, taken, act));
            until_asleep(&waits, 1);
        }
        let _far = network.connect();
        until("somebody takes the connection", || taken.load(SeqCst) == 1);
        network.wake();
    });
}

fn leave_at_once<B: Backend>(backend: &mut B, listener: BorrowedFd<'_>, taken: &AtomicUsize) -> bool {
    leave(backend, listener, taken);
    false
}

/// Lanes start and stop, but a connection never waits while a lane sleeps at its listener. That holds if all lanes stay there,
/// if all leave the listener and come back, and if some do.
pub fn nobody_told_is_nobody_waiting<N: Several>() {
    let (stays, returns) = (take::<N::Backend> as Act<_>, take_and_return::<N::Backend> as Act<_>);
    for lanes in [[stays; 3], [returns; 3], [returns, returns, stays]] {
        all_bursts_are_taken::<N>(lanes);
    }
}

/// Each burst has more connections than there are lanes. A lane takes one connection for each report.
fn all_bursts_are_taken<N: Several>(lanes: [Act<N::Backend>; 3]) {
    const BURSTS: usize = 40;
    const CONNECTIONS: usize = 7;
    let (mut network, _unused, listener) = N::new();
    let pipe = network.watched().try_clone().expect("a descriptor");
    let (taken, (waiting, waits)) = (AtomicUsize::new(0), channel());
    std::thread::scope(|scope| {
        for act in lanes {
            let (waiting, listener, pipe, taken) = (waiting.clone(), listener.as_fd(), pipe.as_fd(), &taken);
            scope.spawn(move || lane::<N>(listener, pipe, &waiting, taken, act));
        }
        until_asleep(&waits, 3);
        for burst in 1..=BURSTS {
            let _far: Vec<_> = (0..CONNECTIONS).map(|_| network.connect()).collect();
            until("all are taken", || taken.load(SeqCst) == burst * CONNECTIONS);
        }
        network.wake();
    });
}

/// Leaves the listener after each connection and listens there again.
fn take_and_return<B: Backend>(backend: &mut B, listener: BorrowedFd<'_>, taken: &AtomicUsize) -> bool {
    take(backend, listener, taken);
    leave(backend, listener, taken);
    backend.listen(0, listener).expect("it can be listened on");
    true
}
