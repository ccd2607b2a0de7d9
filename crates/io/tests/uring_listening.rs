//! Connections that io_uring accepts in advance.

use oribi_io::{Accepted, Attempt, Backend, Direction, Event, Peer, Token, Uring};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);

fn listener(address: &str) -> TcpListener {
    let listener = TcpListener::bind(address).expect("the loopback has a free port");
    listener.set_nonblocking(true).expect("it is ours");
    listener
}

/// A backend that listens and accepts up to `most` connections ahead.
fn backend(listener: &TcpListener, most: usize) -> Uring {
    let mut backend = Uring::new().unwrap_or_else(|refusal| panic!("{refusal}"));
    backend.accept_ahead(0, most);
    backend.listen(0, listener.as_fd()).expect("it can be listened on");
    look(&mut backend);
    backend
}

fn connect(listener: &TcpListener) -> TcpStream {
    let far = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("the queue has room");
    far.set_read_timeout(Some(PATIENCE)).expect("it is ours");
    far
}

/// The events that can be reported without waiting.
fn look(backend: &mut Uring) -> Vec<Event> {
    let mut events = Vec::new();
    backend.wait(Some(Duration::ZERO), &mut events).expect("waiting works");
    events
}

/// Answers on an accepted connection.
#[track_caller]
fn answer(backend: &mut Uring, accepted: Accepted<<Uring as Backend>::Socket>, far: &mut TcpStream) {
    let Accepted::Connection(mut socket, peer) = accepted else { panic!("one was accepted") };
    assert_eq!(peer, Peer::Internet(far.local_addr().expect("it is connected")));
    backend.open(&mut socket, Token(1)).expect("it can be opened");
    far.write_all(b"request").expect("the server is there");
    let mut events = Vec::new();
    while events.is_empty() {
        backend.wait(Some(PATIENCE), &mut events).expect("waiting works");
    }
    assert_eq!(backend.receive(&mut socket, &mut [0; 100]), Attempt::Done(7));
    assert_eq!(backend.send(&mut socket, b"answer"), Attempt::Done(6));
    backend.close(socket);
    backend.submit();
    let mut received = Vec::new();
    far.read_to_end(&mut received).expect("an orderly end");
    assert_eq!(received, b"answer");
}

#[test]
fn who_was_accepted_ahead_is_known() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let listener = listener(address);
        let mut backend = backend(&listener, 4);
        for _ in 0..10 {
            let mut far = connect(&listener);
            assert_eq!(look(&mut backend), [Event::Connection(0)]);
            listener.accept().expect_err("the ring has taken it");
            let accepted = backend.accept(0, listener.as_fd());
            answer(&mut backend, accepted, &mut far);
        }
    }
}

#[test]
fn who_was_accepted_ahead_and_not_taken_is_told_of_again() {
    let listener = listener("127.0.0.1:0");
    let mut backend = backend(&listener, 4);
    let mut far = [connect(&listener), connect(&listener)];
    for far in &mut far {
        for _ in 0..3 {
            let mut events = Vec::new();
            backend.wait(None, &mut events).expect("waiting works");
            assert_eq!(events, [Event::Connection(0)]);
        }
        let accepted = backend.accept(0, listener.as_fd());
        answer(&mut backend, accepted, far);
    }
    assert_eq!(look(&mut backend), []);
}

#[test]
fn whoever_stops_listening_gets_all_that_was_accepted_ahead_and_nobody_else() {
    for told in [false, true] {
        let listener = listener("127.0.0.1:0");
        let mut backend = backend(&listener, 4);
        let mut early = [connect(&listener), connect(&listener), connect(&listener)];
        if told {
            assert_eq!(look(&mut backend), [Event::Connection(0)]);
        }
        backend.unlisten(0, listener.as_fd()).expect("it was listened on");
        for far in &mut early {
            // The ring must have taken the connection: the kernel has reported it only to the ring, so all other waiters would
            // miss it.
            let accepted = backend.take_accepted(0, listener.as_fd());
            answer(&mut backend, accepted, far);
        }
        assert!(matches!(backend.take_accepted(0, listener.as_fd()), Accepted::None));
        let _late = connect(&listener);
        assert_eq!(look(&mut backend), []);
        assert!(matches!(backend.take_accepted(0, listener.as_fd()), Accepted::None));
        listener.accept().expect("it was left for others");
    }
}

#[test]
fn who_was_accepted_while_listening_paused_is_told_of_afterwards() {
    let listener = listener("127.0.0.1:0");
    let mut backend = backend(&listener, 4);
    let mut far = connect(&listener);
    assert_eq!(look(&mut backend), [Event::Connection(0)]);
    backend.unlisten(0, listener.as_fd()).expect("it was listened on");
    assert_eq!(look(&mut backend), []);
    backend.listen(0, listener.as_fd()).expect("it can be listened on");
    assert_eq!(look(&mut backend), [Event::Connection(0)]);
    let accepted = backend.accept(0, listener.as_fd());
    answer(&mut backend, accepted, &mut far);
}

#[test]
fn those_who_share_a_listener_accept_in_turn() {
    let listener = listener("127.0.0.1:0");
    let mut backends = [backend(&listener, 1), backend(&listener, 1), backend(&listener, 1)];
    let mut taken = [0; 3];
    for _ in 0..30 {
        let mut far = connect(&listener);
        for (backend, taken) in backends.iter_mut().zip(&mut taken) {
            for event in look(backend) {
                assert_eq!(event, Event::Connection(0));
                let accepted = backend.accept(0, listener.as_fd());
                answer(backend, accepted, &mut far);
                *taken += 1;
            }
        }
    }
    assert_eq!(taken, [10; 3]);
}

#[test]
fn a_crowd_is_accepted_by_and_by() {
    let listener = listener("127.0.0.1:0");
    let mut backend = backend(&listener, 4);
    let mut crowd: Vec<TcpStream> = (0..100).map(|_| connect(&listener)).collect();
    let mut sockets = Vec::new();
    while sockets.len() < crowd.len() {
        assert_eq!(look(&mut backend), [Event::Connection(0)], "after {}", sockets.len());
        while let Accepted::Connection(socket, _) = backend.accept(0, listener.as_fd()) {
            sockets.push(socket);
        }
    }
    for (socket, far) in sockets.iter_mut().zip(&mut crowd) {
        assert_eq!(backend.send(socket, b"hello"), Attempt::Done(5));
        backend.submit();
        let mut hello = [0; 5];
        far.read_exact(&mut hello).expect("it was answered");
    }
}

#[test]
fn a_backend_that_ends_frees_the_port_and_what_it_had_accepted() {
    let first = listener("127.0.0.1:0");
    let address = first.local_addr().expect("it is bound");
    let mut backend = backend(&first, 4);
    let mut far = connect(&first);
    assert_eq!(look(&mut backend), [Event::Connection(0)]);
    drop(backend);
    assert!(matches!(far.read(&mut [0; 10]), Ok(0) | Err(_)), "its connection is closed");
    drop((first, far));
    listener(&address.to_string());
}

#[test]
fn a_client_that_resets_while_its_answer_is_in_the_ring_costs_no_descriptor() {
    let listener = listener("127.0.0.1:0");
    let mut backend = backend(&listener, 4);
    let open = || std::fs::read_dir("/proc/self/fd").expect("it is there").count();
    let before = open();
    for round in 0..600 {
        let mut far = connect(&listener);
        assert_eq!(look(&mut backend), [Event::Connection(0)]);
        let Accepted::Connection(mut socket, _) = backend.accept(0, listener.as_fd()) else { panic!("one was accepted") };
        backend.open(&mut socket, Token(1)).expect("it can be opened");
        far.write_all(b"request").expect("the server is there");
        while look(&mut backend).is_empty() {}
        assert_eq!(backend.send(&mut socket, b"answer"), Attempt::Done(6));
        rustix::net::sockopt::set_socket_linger(&far, Some(Duration::ZERO)).expect("it is ours");
        drop(far);
        match round % 3 {
            0 => {
                backend.submit();
                let mut events = Vec::new();
                while !events.iter().any(|event| matches!(event, Event::Socket { broken: true, .. })) {
                    backend.wait(Some(PATIENCE), &mut events).expect("waiting works");
                }
                assert_eq!(backend.send(&mut socket, b"more"), Attempt::Broken);
            }
            1 => {}
            _ => backend.shutdown(&mut socket, Direction::Abort),
        }
        backend.close(socket);
        backend.submit();
    }
    look(&mut backend);
    // Other tests of this file also have some descriptors open.
    assert!(open() < before + 300, "{} descriptors are open", open());
}

#[test]
fn nobody_is_accepted_ahead_while_a_killed_process_may_have_left_accepts_behind() {
    let listener = listener("127.0.0.1:0");
    let mut backend = Uring::new().unwrap_or_else(|refusal| panic!("{refusal}"));
    backend.accept_ahead(0, 4);
    backend.be_cautious();
    backend.listen(0, listener.as_fd()).expect("it can be listened on");
    look(&mut backend);
    for _ in 0..3 {
        let mut far = connect(&listener);
        assert_eq!(look(&mut backend), [Event::Connection(0)]);
        let accepted = backend.accept(0, listener.as_fd());
        answer(&mut backend, accepted, &mut far);
    }
    let _waiting = connect(&listener);
    assert_eq!(look(&mut backend), [Event::Connection(0)]);
    listener.accept().expect("the ring has left it in the queue");
    // Later the ring accepts in advance as usual.
    std::thread::sleep(Duration::from_secs(1));
    look(&mut backend);
    let _taken = connect(&listener);
    assert_eq!(look(&mut backend), [Event::Connection(0)]);
    listener.accept().expect_err("the ring has taken it");
}
