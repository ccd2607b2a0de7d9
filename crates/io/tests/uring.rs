//! Peculiarities of io_uring: buffers that all sockets share, and bytes that were taken before the kernel had room.

use oribi_io::{Accepted, Attempt, Backend, Direction, Event, Token, Uring};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);

type Socket = <Uring as Backend>::Socket;

struct Rig {
    backend: Uring,
    listener: TcpListener,
}

impl Rig {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback has a free port");
        listener.set_nonblocking(true).expect("it is ours");
        let mut backend = Uring::new().unwrap_or_else(|refusal| panic!("{refusal}"));
        backend.listen(0, listener.as_fd()).expect("it can be listened on");
        Self { backend, listener }
    }

    fn connection(&mut self, token: u64) -> (Socket, TcpStream) {
        let far = TcpStream::connect(self.listener.local_addr().expect("it is bound")).expect("the queue has room");
        far.set_read_timeout(Some(PATIENCE)).expect("it is ours");
        let Accepted::Connection(mut socket, _) = self.backend.accept(0, self.listener.as_fd()) else { panic!("one waits") };
        self.backend.open(&mut socket, Token(token)).expect("it can be opened");
        (socket, far)
    }

    /// The next events; fails if none arrive.
    fn news(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        for _ in 0..100 {
            self.backend.wait(Some(PATIENCE), &mut events).expect("waiting works");
            events.retain(|event| matches!(event, Event::Socket { .. }));
            if !events.is_empty() {
                return events;
            }
        }
        panic!("nothing comes")
    }
}

fn pattern(size: usize) -> Vec<u8> {
    (0..size).map(|place| (place * 7 + place / 251) as u8).collect()
}

#[test]
fn more_sockets_than_buffers_lose_nothing() {
    let mut rig = Rig::new();
    let mut connections: Vec<_> = (0..700).map(|token| rig.connection(token)).collect();
    for round in 0_u8..3 {
        for (number, (_, far)) in connections.iter_mut().enumerate() {
            far.write_all(&[number as u8 ^ round; 300]).expect("the server is there");
        }
        let mut received = vec![0; connections.len()];
        while received.iter().any(|&count| count < 300) {
            for event in rig.news() {
                let Event::Socket { token, readable: true, .. } = event else { continue };
                let number = token.0 as usize;
                let mut buffer = [0; 500];
                if let Attempt::Done(count) = rig.backend.receive(&mut connections[number].0, &mut buffer) {
                    assert_eq!(buffer[..count], [number as u8 ^ round; 300][..count]);
                    received[number] += count;
                }
            }
        }
        assert!(received.iter().all(|&count| count == 300));
    }
}

#[test]
fn who_does_not_receive_keeps_nobody_from_receiving() {
    let mut rig = Rig::new();
    let (mut deaf, mut talker) = rig.connection(1);
    let (mut other, mut far) = rig.connection(2);
    let content = pattern(3 << 20);
    let copy = content.clone();
    let sender = std::thread::spawn(move || {
        talker.write_all(&copy).expect("the server is there");
        talker
    });
    for round in 0..200_u8 {
        far.write_all(&[round]).expect("the server is there");
        while !rig.news().iter().any(|event| matches!(event, Event::Socket { token: Token(2), .. })) {}
        let mut byte = [0];
        assert_eq!(rig.backend.receive(&mut other, &mut byte), Attempt::Done(1));
        assert_eq!(byte, [round]);
    }
    let mut received = Vec::new();
    let mut buffer = vec![0; 10_000];
    while received.len() < content.len() {
        match rig.backend.receive(&mut deaf, &mut buffer) {
            Attempt::Done(count) => received.extend_from_slice(&buffer[..count]),
            Attempt::Later => drop(rig.news()),
            attempt => panic!("{attempt:?}"),
        }
    }
    assert!(received == content);
    drop(sender.join().expect("no panic"));
    while rig.backend.receive(&mut deaf, &mut buffer) != Attempt::End {
        rig.news();
    }
}

/// Small sends until the socket is full.
fn fill(rig: &mut Rig, socket: &mut Socket, content: &[u8]) -> usize {
    let mut sent = 0;
    let mut later = 0;
    while later < 3 {
        let size = 1000.min(content.len() - sent);
        match rig.backend.send(socket, &content[sent..sent + size]) {
            Attempt::Done(count) => sent += count,
            Attempt::Later => later += 1,
            attempt => panic!("{attempt:?}"),
        }
        rig.backend.submit();
    }
    sent
}

#[test]
fn what_was_taken_leaves_in_order_when_there_is_room() {
    let mut rig = Rig::new();
    let (mut socket, mut far) = rig.connection(1);
    let content = pattern(64 << 20);
    let mut sent = 0;
    let mut received = Vec::new();
    for _ in 0..3 {
        sent += fill(&mut rig, &mut socket, &content[sent..]);
        let mut writable = false;
        while received.len() < sent {
            let mut buffer = vec![0; 1 << 16];
            far.set_read_timeout(Some(Duration::from_millis(20))).expect("it is ours");
            if let Ok(count) = far.read(&mut buffer) {
                received.extend_from_slice(&buffer[..count]);
            }
            let mut events = Vec::new();
            rig.backend.wait(Some(Duration::ZERO), &mut events).expect("waiting works");
            writable |= events.iter().any(|event| matches!(event, Event::Socket { token: Token(1), writable: true, .. }));
        }
        assert!(received == content[..sent]);
        assert!(writable || rig.news().iter().any(|event| matches!(event, Event::Socket { writable: true, .. })));
    }
}

#[test]
fn what_was_taken_leaves_even_if_the_socket_is_closed_meanwhile() {
    let mut rig = Rig::new();
    let (mut socket, mut far) = rig.connection(1);
    let content = pattern(64 << 20);
    let sent = fill(&mut rig, &mut socket, &content);
    rig.backend.close(socket);
    let reader = std::thread::spawn(move || {
        let mut received = Vec::new();
        far.read_to_end(&mut received).expect("an orderly end");
        received
    });
    while !reader.is_finished() {
        rig.backend.wait(Some(Duration::from_millis(20)), &mut Vec::new()).expect("waiting works");
    }
    assert!(reader.join().expect("no panic") == content[..sent]);
}

#[test]
fn closing_right_behind_a_send_loses_nothing_and_frees_the_descriptor() {
    let mut rig = Rig::new();
    for round in 0..300 {
        let (mut socket, mut far) = rig.connection(round);
        far.write_all(b"request").expect("the server is there");
        rig.news();
        let mut buffer = [0; 100];
        assert_eq!(rig.backend.receive(&mut socket, &mut buffer), Attempt::Done(7));
        assert_eq!(rig.backend.send(&mut socket, b"answer"), Attempt::Done(6));
        rig.backend.close(socket);
        rig.backend.submit();
        let mut answer = Vec::new();
        far.read_to_end(&mut answer).expect("an orderly end");
        assert_eq!(answer, b"answer");
    }
    let open = std::fs::read_dir("/proc/self/fd").expect("it is there").count();
    assert!(open < 1500, "{open} descriptors are open");
}

#[test]
fn what_was_aborted_reaches_nobody() {
    let mut rig = Rig::new();
    let (mut first, mut far) = rig.connection(1);
    let (mut second, _other) = rig.connection(2);
    assert_eq!(rig.backend.send(&mut first, b"one"), Attempt::Done(3));
    assert_eq!(rig.backend.send(&mut second, b"secret"), Attempt::Done(6));
    rig.backend.shutdown(&mut second, Direction::Abort);
    rig.backend.close(second);
    assert_eq!(rig.backend.send(&mut first, b"two"), Attempt::Done(3));
    assert_eq!(rig.backend.send(&mut first, b"three"), Attempt::Done(5));
    rig.backend.close(first);
    rig.backend.submit();
    let mut received = Vec::new();
    far.read_to_end(&mut received).expect("an orderly end");
    assert_eq!(received, b"onetwothree");
}

#[test]
fn a_second_descriptor_gets_all_that_arrives_after_it_was_made() {
    let mut rig = Rig::new();
    let (mut socket, mut far) = rig.connection(1);
    far.write_all(b"request").expect("the server is there");
    rig.news();
    assert_eq!(rig.backend.receive(&mut socket, &mut [0; 100]), Attempt::Done(7));
    let (copy, received) = rig.backend.give_away(&mut socket).expect("a descriptor");
    assert_eq!(received, b"");
    let mut copy = TcpStream::from(copy);
    far.write_all(b"hello").expect("the server is there");
    rig.backend.wait(Some(Duration::from_millis(20)), &mut Vec::new()).expect("waiting works");
    let mut hello = [0; 5];
    copy.read_exact(&mut hello).expect("nobody else has taken it");
    assert_eq!(&hello, b"hello");
    rig.backend.close(socket);
    rig.backend.submit();
    copy.write_all(b"bye").expect("the client is there");
    drop(copy);
    let mut rest = Vec::new();
    far.read_to_end(&mut rest).expect("an orderly end");
    assert_eq!(rest, b"bye");
}

#[test]
fn who_gets_a_second_descriptor_gets_what_the_ring_has_received() {
    let mut rig = Rig::new();
    let (mut socket, mut far) = rig.connection(1);
    far.write_all(b"request").expect("the server is there");
    rig.news();
    assert_eq!(rig.backend.receive(&mut socket, &mut [0; 100]), Attempt::Done(7));
    for early in [&b"ear"[..], b"ly"] {
        far.write_all(early).expect("the server is there");
        rig.news();
    }
    let (copy, received) = rig.backend.give_away(&mut socket).expect("a descriptor");
    assert_eq!(received, b"early");
    far.write_all(b"late").expect("the server is there");
    let mut late = [0; 4];
    TcpStream::from(copy).read_exact(&mut late).expect("nobody else has taken it");
    assert_eq!(&late, b"late");
}

#[test]
fn a_wait_is_never_shorter_than_asked() {
    let mut rig = Rig::new();
    for nanoseconds in [1, 999_999, 1_000_001, 2_999_999] {
        let timeout = Duration::from_nanos(nanoseconds);
        rig.backend.read_clock();
        let start = rig.backend.now();
        rig.backend.wait(Some(timeout), &mut Vec::new()).expect("waiting works");
        assert!(rig.backend.now() - start >= timeout, "{timeout:?}");
    }
}

/// Receives this many bytes from a connection that has been reported.
fn receive(rig: &mut Rig, socket: &mut Socket, size: usize) -> Vec<u8> {
    let mut received = Vec::new();
    let mut buffer = vec![0; 16 << 10];
    while received.len() < size {
        match rig.backend.receive(socket, &mut buffer) {
            Attempt::Done(count) => received.extend_from_slice(&buffer[..count]),
            Attempt::Later => drop(rig.news()),
            attempt => panic!("{attempt:?}"),
        }
    }
    received
}

/// Makes a connection receive so much that the ring no longer receives for it.
fn send_in_bulk(rig: &mut Rig, socket: &mut Socket, far: TcpStream) -> TcpStream {
    let content = pattern(1 << 20);
    let sender = {
        let (content, mut far) = (content.clone(), far);
        std::thread::spawn(move || {
            far.write_all(&content).expect("the server is there");
            far
        })
    };
    // The backend learns only from receives by the ring that more will come.
    rig.news();
    assert!(receive(rig, socket, content.len()) == content);
    sender.join().expect("no panic")
}

#[test]
fn small_requests_behind_a_large_one_are_told_one_by_one() {
    let mut rig = Rig::new();
    let (mut socket, mut far) = rig.connection(1);
    for _ in 0..3 {
        far = send_in_bulk(&mut rig, &mut socket, far);
        while rig.backend.receive(&mut socket, &mut [0; 10]) != Attempt::Later {}
        // The large connection may be reported again.
        rig.backend.wait(Some(Duration::from_millis(20)), &mut Vec::new()).expect("waiting works");
        for round in 0..50_u8 {
            far.write_all(&[round; 100]).expect("the server is there");
            let events = rig.news();
            assert!(matches!(events[..], [Event::Socket { token: Token(1), readable: true, ended: false, .. }]), "{events:?}");
            let mut buffer = [0; 200];
            assert_eq!(rig.backend.receive(&mut socket, &mut buffer), Attempt::Done(100));
            assert_eq!(buffer[..100], [round; 100]);
            assert_eq!(rig.backend.receive(&mut socket, &mut buffer), Attempt::Later);
            // The connection may still be polled, or received by the ring again: bytes that have been taken are not reported.
            let mut events = Vec::new();
            rig.backend.wait(Some(Duration::ZERO), &mut events).expect("waiting works");
            assert_eq!(events, []);
        }
    }
}

#[test]
fn an_end_behind_much_content_is_told_and_found_behind_it() {
    let mut rig = Rig::new();
    let (mut socket, far) = rig.connection(1);
    let mut far = send_in_bulk(&mut rig, &mut socket, far);
    let content = pattern(50_000);
    far.write_all(&content).expect("the server is there");
    far.shutdown(std::net::Shutdown::Write).expect("the server is there");
    while !rig.news().iter().any(|event| matches!(event, Event::Socket { ended: true, broken: false, .. })) {}
    assert!(receive(&mut rig, &mut socket, content.len()) == content);
    assert_eq!(rig.backend.receive(&mut socket, &mut [0; 10]), Attempt::End);
    assert_eq!(rig.backend.send(&mut socket, b"answer"), Attempt::Done(6));
    rig.backend.close(socket);
    rig.backend.submit();
    let mut answer = Vec::new();
    far.read_to_end(&mut answer).expect("an orderly end");
    assert_eq!(answer, b"answer");
}

#[test]
fn a_connection_that_breaks_behind_much_content_is_told_of_although_nobody_receives() {
    let mut rig = Rig::new();
    let (mut socket, far) = rig.connection(1);
    let mut far = send_in_bulk(&mut rig, &mut socket, far);
    far.write_all(&pattern(50_000)).expect("the server is there");
    rustix::net::sockopt::set_socket_linger(&far, Some(Duration::ZERO)).expect("it is ours");
    drop(far);
    while !rig.news().iter().any(|event| matches!(event, Event::Socket { broken: true, .. })) {}
    rig.backend.close(socket);
    rig.backend.submit();
}
