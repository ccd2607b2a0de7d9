//! Peculiarities of libevent: its clock, its batches, and memory whose address C code has.

use oribi_io::{Accepted, Attempt, Backend, Event, Libevent, Token};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);

type Socket = <Libevent as Backend>::Socket;

fn bases() -> [Libevent; 2] {
    let by_poll = Libevent::avoiding(&[c"epoll"]).expect("an event base");
    [Libevent::new().expect("an event base"), by_poll]
}

fn listener(backend: &mut Libevent) -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback has a free port");
    listener.set_nonblocking(true).expect("it is ours");
    backend.listen(0, listener.as_fd()).expect("it can be listened on");
    listener
}

fn connection(backend: &mut Libevent, listener: &TcpListener, token: u64) -> (Socket, TcpStream) {
    let far = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("the queue has room");
    let Accepted::Connection(mut socket, _) = backend.accept(0, listener.as_fd()) else { panic!("one waits") };
    backend.open(&mut socket, Token(token)).expect("it can be opened");
    (socket, far)
}

#[test]
fn the_preferred_method_reports_changes() {
    let backend = Libevent::new().expect("an event base");
    assert!(backend.is_edge_triggered(), "{}", backend.method());
}

#[test]
fn no_method_left_is_an_error() {
    assert!(Libevent::avoiding(&[c"epoll", c"poll", c"select"]).is_err());
}

#[test]
fn a_wait_is_never_shorter_than_asked_though_the_alarm_of_an_earlier_one_goes_off() {
    for mut backend in bases() {
        for nanoseconds in [20_000_000, 1, 999_999, 1_000_001, 2_999_999, 40_000_000] {
            let timeout = Duration::from_nanos(nanoseconds);
            // Leaves an alarm behind, because there is something to report at once.
            let listener = listener(&mut backend);
            let far = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("the queue has room");
            backend.wait(Some(timeout / 2), &mut Vec::new()).expect("waiting works");
            backend.unlisten(0, listener.as_fd()).expect("it was listened on");
            backend.read_clock();
            let (start, mut events) = (backend.now(), Vec::new());
            backend.wait(Some(timeout), &mut events).expect("waiting works");
            assert!(backend.now() - start >= timeout, "{timeout:?}");
            assert_eq!(events, []);
            drop(far);
        }
    }
}

#[test]
fn more_sockets_than_libevent_asks_for_at_once_are_all_told_of() {
    for mut backend in bases() {
        let listener = listener(&mut backend);
        let mut connections: Vec<_> = (0..300).map(|token| connection(&mut backend, &listener, token)).collect();
        for round in 1..=3_u8 {
            for (_, far) in &mut connections {
                far.write_all(&[round; 10]).expect("the server is there");
            }
            let mut received = vec![0; connections.len()];
            while received.iter().any(|&count| count < 10) {
                let mut events = Vec::new();
                backend.wait(Some(PATIENCE), &mut events).expect("waiting works");
                assert_ne!(events, []);
                for event in events {
                    let Event::Socket { token, readable: true, .. } = event else { continue };
                    let mut buffer = [0; 100];
                    match backend.receive(&mut connections[token.0 as usize].0, &mut buffer) {
                        Attempt::Done(count) => {
                            assert!(buffer[..count].iter().all(|byte| *byte == round));
                            received[token.0 as usize] += count;
                        }
                        attempt => assert_eq!(attempt, Attempt::Later),
                    }
                }
            }
        }
    }
}

#[test]
fn what_was_told_of_can_be_closed_unreceived() {
    for mut backend in bases() {
        let listener = listener(&mut backend);
        for round in 0..10 {
            let mut connections: Vec<_> = (0..20).map(|token| connection(&mut backend, &listener, token)).collect();
            for (_, far) in &mut connections {
                far.write_all(b"never received").expect("the server is there");
            }
            let mut events = Vec::new();
            while events.len() < connections.len() {
                backend.wait(Some(PATIENCE), &mut events).expect("waiting works");
                events.dedup();
            }
            let kept = connections.split_off(10 + round);
            connections.into_iter().for_each(|(socket, _far)| backend.close(socket));
            backend.wait(Some(Duration::ZERO), &mut Vec::new()).expect("waiting works");
            kept.into_iter().for_each(|(socket, _far)| backend.close(socket));
        }
        assert_eq!(backend.wait(Some(Duration::ZERO), &mut Vec::new()).ok(), Some(()));
    }
}

#[test]
fn sockets_may_outlive_the_loop() {
    for mut backend in bases() {
        let listener = listener(&mut backend);
        let (socket, mut far) = connection(&mut backend, &listener, 1);
        far.write_all(b"x").expect("the server is there");
        backend.wait(Some(PATIENCE), &mut Vec::new()).expect("waiting works");
        drop(backend);
        drop(socket);
    }
}
