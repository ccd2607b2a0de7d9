//! One function for each promise.

use crate::networks::{Far, Network, PATIENCE, ReceiveResult, Rig, Socket};
use oribi_io::{Accepted, Attempt, Backend, Direction, Event, Peer, Token, Waiter};
use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{AddressFamily, sockopt};
use std::io::{IoSlice, Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

/// Bytes that differ at every place.
fn pattern(size: usize) -> Vec<u8> {
    (0..size).map(|place| (place * 7 + place / 251) as u8).collect()
}

/// Receives this many bytes at the far end.
#[track_caller]
fn far_receives<N: Network>(rig: &mut Rig<N>, far: &mut N::Far, size: usize) -> Vec<u8> {
    rig.backend.submit();
    let mut all = Vec::new();
    while all.len() < size {
        match far.receive() {
            ReceiveResult::Bytes(bytes) => all.extend(bytes),
            seen => panic!("{seen:?} after {} bytes of {size}", all.len()),
        }
    }
    all
}

/// Receives until the socket is empty.
#[track_caller]
fn receive_all<N: Network>(rig: &mut Rig<N>, socket: &mut Socket<N>, size: usize) -> Vec<u8> {
    let mut all = Vec::new();
    let mut buffer = [0; 64];
    while all.len() < size {
        match rig.backend.receive(socket, &mut buffer) {
            Attempt::Done(count) => all.extend_from_slice(&buffer[..count]),
            Attempt::Later => drop(rig.until(|event| matches!(event, Event::Socket { readable: true, .. }))),
            attempt => panic!("{attempt:?}"),
        }
    }
    all
}

pub fn accepting<N: Network>() {
    let mut rig = Rig::<N>::new();
    assert!(matches!(rig.backend.accept(0, rig.listener.as_fd()), Accepted::None));
    assert_eq!(rig.news(), []);
    let _far = [rig.network.connect(), rig.network.connect()];
    rig.until(|event| event == Event::Connection(0));
    let Accepted::Connection(first, peer) = rig.backend.accept(0, rig.listener.as_fd()) else { panic!("one waits") };
    match peer {
        Peer::Internet(address) => assert!(address.ip().is_loopback() && address.port() > 0),
        Peer::Local => {}
    }
    // The connection that was not taken is reported again.
    rig.until(|event| event == Event::Connection(0));
    let second = rig.accept();
    assert!(matches!(rig.backend.accept(0, rig.listener.as_fd()), Accepted::None));
    assert_eq!(rig.news(), []);
    rig.backend.close(first);
    rig.backend.close(second);
}

pub fn a_wait_of_no_time_ends<N: Network>() {
    let mut rig = Rig::<N>::new();
    let far = rig.network.connect();
    rig.until(|event| event == Event::Connection(0));
    // No connection is accepted, so there is always something to report.
    for _ in 0..3 {
        rig.backend.wait(Some(Duration::ZERO), &mut Vec::new()).expect("waiting works");
    }
    let socket = rig.accept();
    rig.backend.close(socket);
    drop(far);
}

pub fn nothing_is_reported_before_open<N: Network>() {
    let mut rig = Rig::<N>::new();
    let mut far = rig.network.connect();
    far.send(b"early");
    rig.until(|event| event == Event::Connection(0));
    let mut socket = rig.accept();
    assert_eq!(rig.news(), []);
    rig.backend.open(&mut socket, Token(7)).expect("it can be opened");
    rig.until_readable(7);
    assert_eq!(receive_all(&mut rig, &mut socket, 5), b"early");
}

pub fn tokens_come_back<N: Network>() {
    let mut rig = Rig::<N>::new();
    let (mut first, mut first_far) = rig.connection(Token::LIMIT - 1);
    let (mut second, mut second_far) = rig.connection(0);
    first_far.send(b"one");
    rig.until_readable(Token::LIMIT - 1);
    second_far.send(b"two");
    rig.until_readable(0);
    assert_eq!(receive_all(&mut rig, &mut first, 3), b"one");
    assert_eq!(receive_all(&mut rig, &mut second, 3), b"two");
    rig.backend.close(first);
    second_far.send(b"more");
    rig.until_readable(0);
}

pub fn opening_can_be_put_off<N: Network>() {
    let mut rig = Rig::<N>::new();
    let mut far = rig.network.connect();
    rig.until(|event| event == Event::Connection(0));
    let mut socket = rig.accept();
    far.send(b"question");
    // A backend that cannot postpone opening opens the socket first.
    if !rig.backend.put_off(&mut socket, Token(1)) {
        rig.backend.open(&mut socket, Token(1)).expect("it can be opened");
        rig.until_readable(1);
    } else {
        assert_eq!(rig.news(), []);
    }
    assert_eq!(receive_all(&mut rig, &mut socket, 8), b"question");
    far.hold();
    let content = pattern(64 << 20);
    let sent = fill(|filled| rig.backend.send(&mut socket, &content[filled..]));
    assert!(far_receives(&mut rig, &mut far, sent) == content[..sent]);
    rig.until_writable(1);
    rig.backend.open(&mut socket, Token(1)).expect("once more is no harm");
    far.send(b"another");
    rig.until_readable(1);
    assert_eq!(receive_all(&mut rig, &mut socket, 7), b"another");
    rig.backend.close(socket);
}

pub fn last_words_leave_with_the_end<N: Network>() {
    for by_shutdown in [false, true] {
        let mut rig = Rig::<N>::new();
        let (mut socket, mut far) = rig.connection(1);
        assert_eq!(rig.backend.send(&mut socket, b"first "), Attempt::Done(6));
        assert_eq!(rig.backend.send_last(&mut socket, b"and last"), Attempt::Done(8));
        if by_shutdown {
            rig.backend.shutdown(&mut socket, Direction::Send);
        } else {
            rig.backend.close(socket);
        }
        assert_eq!(far_receives(&mut rig, &mut far, 14), b"first and last");
        assert_eq!(far.receive(), ReceiveResult::End);
    }
}

pub fn news_come_once<N: Network>() {
    let mut rig = Rig::<N>::new();
    let (mut socket, mut far) = rig.connection(1);
    for _ in 0..3 {
        far.send(b"news");
        rig.until_readable(1);
        assert_eq!(rig.news(), [], "whoever does not receive is not told again");
    }
    assert_eq!(receive_all(&mut rig, &mut socket, 12), b"newsnewsnews");
}

/// The part of [`news_come_once`] that holds where the system reports states.
#[cfg(feature = "libevent")]
pub fn whoever_does_not_receive_is_told_once<N: Network>() {
    let mut rig = Rig::<N>::new();
    let (mut socket, mut far) = rig.connection(1);
    for _ in 0..3 {
        far.send(b"news");
        rig.until_readable(1);
        assert_eq!(rig.news(), []);
        far.send(b"more");
        assert_eq!(receive_all(&mut rig, &mut socket, 8), b"newsmore");
        assert_eq!(rig.backend.receive(&mut socket, &mut [0; 10]), Attempt::Later);
        assert_eq!(rig.news(), []);
    }
}

#[cfg(feature = "libevent")]
pub fn a_waiter_is_refused<N: Network>() {
    let refused = Rig::<N>::new().backend.waiter().map(drop).expect_err("its event base belongs to one thread");
    assert_eq!(refused.kind(), std::io::ErrorKind::Unsupported);
}

pub fn a_short_receive_is_short<N: Network>() {
    let mut rig = Rig::<N>::new();
    let (mut socket, mut far) = rig.connection(1);
    let mut buffer = [0; 100];
    assert_eq!(rig.backend.receive(&mut socket, &mut buffer), Attempt::Later);
    far.send(b"short");
    let event = rig.until_readable(1);
    assert!(matches!(event, Event::Socket { ended: false, broken: false, .. }), "{event:?}");
    assert_eq!(rig.backend.receive(&mut socket, &mut buffer), Attempt::Done(5));
    assert_eq!(&buffer[..5], b"short");
    assert_eq!(rig.backend.receive(&mut socket, &mut buffer), Attempt::Later);
    far.send(b"again");
    rig.until_readable(1);
    assert_eq!(rig.backend.receive(&mut socket, &mut buffer), Attempt::Done(5));
}

pub fn an_exact_receive_is_exact<N: Network>() {
    let mut rig = Rig::<N>::new();
    let (mut socket, mut far) = rig.connection(1);
    far.send(b"0123456789");
    rig.until_readable(1);
    let mut buffer = [0; 5];
    assert_eq!(rig.backend.receive(&mut socket, &mut buffer), Attempt::Done(5));
    assert_eq!(&buffer, b"01234");
    assert_eq!(rig.backend.receive(&mut socket, &mut buffer), Attempt::Done(5));
    assert_eq!(&buffer, b"56789");
    assert_eq!(rig.backend.receive(&mut socket, &mut buffer), Attempt::Later);
}

pub fn content_then_end<N: Network>() {
    let mut rig = Rig::<N>::new();
    let (mut socket, mut far) = rig.connection(1);
    far.send(b"last words");
    far.end();
    rig.until(|event| matches!(event, Event::Socket { readable: true, ended: true, broken: false, .. }));
    let mut buffer = [0; 100];
    assert_eq!(rig.backend.receive(&mut socket, &mut buffer), Attempt::Done(10));
    assert_eq!(rig.backend.receive(&mut socket, &mut buffer), Attempt::End);
    assert_eq!(rig.backend.receive(&mut socket, &mut buffer), Attempt::End);
}

pub fn an_end_that_comes_with_the_first_content_is_told<N: Network>() {
    let mut rig = Rig::<N>::new();
    let mut far = rig.network.connect();
    far.send(b"first and last words");
    far.end();
    rig.until(|event| event == Event::Connection(0));
    let mut socket = rig.accept();
    rig.backend.open(&mut socket, Token(1)).expect("it can be opened");
    let event = rig.until_readable(1);
    assert_eq!(rig.backend.receive(&mut socket, &mut [0; 100]), Attempt::Done(20));
    if !matches!(event, Event::Socket { ended: true, .. }) {
        // No receive looks for the end after a short one.
        rig.until(|event| matches!(event, Event::Socket { readable: true, ended: true, .. }));
    }
    assert_eq!(rig.backend.receive(&mut socket, &mut [0; 100]), Attempt::End);
}

pub fn a_reset_is_broken<N: Network>() {
    let mut rig = Rig::<N>::new();
    let (mut socket, far) = rig.connection(1);
    far.reset();
    rig.until(|event| matches!(event, Event::Socket { readable: true, ended: true, broken: true, .. }));
    let attempt = rig.backend.receive(&mut socket, &mut [0; 10]);
    assert_eq!(attempt, if N::RESETS { Attempt::Broken } else { Attempt::End });
    rig.backend.close(socket);
}

pub fn a_half_closed_peer_can_be_answered<N: Network>() {
    let mut rig = Rig::<N>::new();
    let (mut socket, mut far) = rig.connection(1);
    far.end();
    rig.until_readable(1);
    assert_eq!(rig.backend.receive(&mut socket, &mut [0; 10]), Attempt::End);
    assert_eq!(rig.backend.send(&mut socket, b"answer"), Attempt::Done(6));
    assert_eq!(far_receives(&mut rig, &mut far, 6), b"answer");
}

/// Sends until the socket is full, by calling `attempt` with the number of bytes sent so far.
#[track_caller]
fn fill(mut attempt: impl FnMut(usize) -> Attempt) -> usize {
    let mut sent = 0;
    for _ in 0..100_000 {
        match attempt(sent) {
            Attempt::Done(count) => sent += count,
            Attempt::Later => return sent,
            other => panic!("{other:?}"),
        }
    }
    panic!("it never fills")
}

pub fn a_full_socket_is_reported_when_there_is_room<N: Network>() {
    let mut rig = Rig::<N>::new();
    let (mut socket, mut far) = rig.connection(1);
    far.hold();
    let content = pattern(64 << 20);
    let mut sent = 0;
    let mut received = Vec::new();
    for _ in 0..3 {
        let more = fill(|filled| rig.backend.send(&mut socket, &content[sent + filled..]));
        assert!(more > 0);
        sent += more;
        assert_eq!(rig.backend.send(&mut socket, b"x"), Attempt::Later, "full is full");
        received.extend(far_receives(&mut rig, &mut far, sent - received.len()));
        rig.until_writable(1);
    }
    assert!(received == content[..sent]);
}

pub fn gathered_buffers_arrive_in_order<N: Network>() {
    let mut rig = Rig::<N>::new();
    let (mut socket, mut far) = rig.connection(1);
    for count in [1, 2, 17] {
        let buffers: Vec<Vec<u8>> = (0..count).map(|number| pattern(number * 100 % 700)).collect();
        let whole = [buffers.concat(), b"end".to_vec()].concat();
        let mut slices: Vec<IoSlice<'_>> = buffers.iter().map(|buffer| IoSlice::new(buffer)).collect();
        slices.push(IoSlice::new(b"end"));
        assert_eq!(rig.backend.send_gathered(&mut socket, &slices), Attempt::Done(whole.len()));
        assert!(far_receives(&mut rig, &mut far, whole.len()) == whole);
    }
}

pub fn gathered_buffers_are_sent_as_far_as_there_is_room<N: Network>() {
    let mut rig = Rig::<N>::new();
    let (mut socket, mut far) = rig.connection(1);
    far.hold();
    let content = pattern(64 << 20);
    let sent = fill(|filled| {
        let (first, second) = content[filled..].split_at(1000);
        rig.backend.send_gathered(&mut socket, &[IoSlice::new(first), IoSlice::new(second)])
    });
    assert!(far_receives(&mut rig, &mut far, sent) == content[..sent]);
    rig.until_writable(1);
}

fn file(content: &[u8]) -> std::fs::File {
    let mut file = tempfile::tempfile().expect("there is a temporary directory");
    file.write_all(content).expect("there is room");
    file
}

pub fn files_are_sent_from_their_offset<N: Network>() {
    let mut rig = Rig::<N>::new();
    let (mut socket, mut far) = rig.connection(1);
    let content = pattern(10_000);
    let file = file(&content);
    for (offset, size) in [(0, 10_000), (1, 10), (9_999, 1), (5000, 5000)] {
        assert_eq!(rig.backend.send_file(&mut socket, file.as_fd(), offset as u64, size), Attempt::Done(size));
        assert!(far_receives(&mut rig, &mut far, size) == content[offset..offset + size]);
    }
}

pub fn a_file_that_ends_early_says_so<N: Network>() {
    let mut rig = Rig::<N>::new();
    let (mut socket, mut far) = rig.connection(1);
    let file = file(b"0123456789");
    assert_eq!(rig.backend.send_file(&mut socket, file.as_fd(), 4, 100), Attempt::Done(6));
    assert_eq!(far_receives(&mut rig, &mut far, 6), b"456789");
    assert_eq!(rig.backend.send_file(&mut socket, file.as_fd(), 10, 94), Attempt::End);
    assert_eq!(rig.backend.send_file(&mut socket, file.as_fd(), 1000, 1), Attempt::End);
}

pub fn a_file_waits_for_room<N: Network>() {
    let mut rig = Rig::<N>::new();
    let (mut socket, mut far) = rig.connection(1);
    far.hold();
    let content = pattern(32 << 20);
    let file = file(&content);
    let sent = fill(|filled| rig.backend.send_file(&mut socket, file.as_fd(), filled as u64, 1 << 20));
    assert!(far_receives(&mut rig, &mut far, sent) == content[..sent]);
    rig.until_writable(1);
    assert!(matches!(rig.backend.send_file(&mut socket, file.as_fd(), sent as u64, 100), Attempt::Done(100)));
    assert!(far_receives(&mut rig, &mut far, 100) == content[sent..sent + 100]);
}

pub fn wakes_come_once_for_each_write<N: Network>() {
    let mut rig = Rig::<N>::new();
    rig.backend.watch(rig.network.watched().as_fd()).expect("it can be watched");
    assert_eq!(rig.news(), []);
    for _ in 0..3 {
        rig.network.wake();
        assert_eq!(rig.until(|_| true), Event::Wake);
        assert_eq!(rig.news(), [], "nobody reads the pipe, and it is reported once all the same");
    }
}

pub fn doorbells_are_reported_once_for_each_ring<N: Network>() {
    let mut rig = Rig::<N>::new();
    let doorbells = [(); 3].map(|()| eventfd(0, EventfdFlags::NONBLOCK).expect("an eventfd is to be had"));
    rig.backend.watch(rig.network.watched().as_fd()).expect("it can be watched");
    for doorbell in &doorbells {
        rig.backend.watch_doorbell(doorbell.as_fd()).expect("it can be watched");
    }
    assert_eq!(rig.news(), []);
    for doorbell in doorbells.iter().chain(&doorbells) {
        rustix::io::write(doorbell, &1u64.to_ne_bytes()).expect("it has room");
        assert_eq!(rig.until(|_| true), Event::Doorbell);
        assert_eq!(rig.news(), [], "nobody reads the bell, and it is told of once all the same");
        rig.network.wake();
        assert_eq!(rig.until(|_| true), Event::Wake);
    }
}

pub fn news_reach_the_waiter_or_the_backend<N: Network>() {
    let mut rig = Rig::<N>::new();
    let (_socket, mut far) = rig.connection(1);
    let mut waiter = rig.backend.waiter().expect("there is one");
    assert_eq!(rig.news(), []);
    let mut events = Vec::new();
    for _ in 0..3 {
        far.send(b"x");
        std::thread::scope(|scope| scope.spawn(|| waiter.wait(Some(PATIENCE)).expect("waiting works")).join())
            .expect("it does not panic");
        rig.backend.collect(&mut waiter, &mut events);
        rig.backend.collect(&mut waiter, &mut events);
        rig.backend.wait(Some(Duration::ZERO), &mut events).expect("waiting works");
        assert!(matches!(events[..], [Event::Socket { token: Token(1), readable: true, .. }]), "{events:?}");
        events.clear();
    }
}

pub fn listening_can_be_interrupted<N: Network>() {
    let mut rig = Rig::<N>::new();
    rig.backend.unlisten(0, rig.listener.as_fd()).expect("it was listened on");
    assert!(!rig.backend.is_waited_at(0, rig.listener.as_fd()));
    let _far = rig.network.connect();
    assert_eq!(rig.news(), []);
    assert!(rig.backend.is_waited_at(0, rig.listener.as_fd()));
    rig.backend.listen(0, rig.listener.as_fd()).expect("it can be listened on");
    rig.until(|event| event == Event::Connection(0));
    let socket = rig.accept();
    rig.backend.close(socket);
}

pub fn an_ended_side_is_seen_and_the_other_goes_on<N: Network>() {
    let mut rig = Rig::<N>::new();
    let (mut socket, mut far) = rig.connection(1);
    assert_eq!(rig.backend.send(&mut socket, b"last words"), Attempt::Done(10));
    rig.backend.shutdown(&mut socket, Direction::Send);
    assert_eq!(far_receives(&mut rig, &mut far, 10), b"last words");
    assert_eq!(far.receive(), ReceiveResult::End);
    far.send(b"late");
    rig.until_readable(1);
    assert_eq!(receive_all(&mut rig, &mut socket, 4), b"late");
    far.end();
    rig.until(|event| matches!(event, Event::Socket { readable: true, ended: true, .. }));
    assert_eq!(rig.backend.receive(&mut socket, &mut [0; 10]), Attempt::End);
    rig.backend.close(socket);
}

pub fn an_aborted_connection_never_ends_cleanly<N: Network>() {
    let mut rig = Rig::<N>::new();
    let (mut socket, mut far) = rig.connection(1);
    assert_eq!(rig.backend.send(&mut socket, b"half of a respon"), Attempt::Done(16));
    assert_eq!(far_receives(&mut rig, &mut far, 16), b"half of a respon");
    rig.backend.shutdown(&mut socket, Direction::Abort);
    rig.backend.close(socket);
    rig.backend.submit();
    assert_eq!(far.receive(), if N::RESETS { ReceiveResult::Reset } else { ReceiveResult::End });
}

pub fn a_guarded_connection_ends_cleanly_only_when_it_is_not_guarded_any_more<N: Network>() {
    for guarded in [true, false] {
        let mut rig = Rig::<N>::new();
        let (mut socket, mut far) = rig.connection(1);
        rig.backend.guard(&mut socket, true);
        assert_eq!(rig.backend.send(&mut socket, b"half of a respon"), Attempt::Done(16));
        assert_eq!(far_receives(&mut rig, &mut far, 16), b"half of a respon");
        if !guarded {
            assert_eq!(rig.backend.send(&mut socket, b"se"), Attempt::Done(2));
            rig.backend.guard(&mut socket, false);
        }
        rig.backend.close(socket);
        rig.backend.submit();
        if !guarded {
            assert_eq!(far_receives(&mut rig, &mut far, 2), b"se");
        }
        assert_eq!(far.receive(), if guarded && N::RESETS { ReceiveResult::Reset } else { ReceiveResult::End });
    }
}

pub fn closing_ends<N: Network>() {
    let mut rig = Rig::<N>::new();
    let (mut socket, mut far) = rig.connection(1);
    assert_eq!(rig.backend.send(&mut socket, b"all of it"), Attempt::Done(9));
    rig.backend.close(socket);
    assert_eq!(far_receives(&mut rig, &mut far, 9), b"all of it");
    assert_eq!(far.receive(), ReceiveResult::End);
    assert_eq!(rig.news(), []);
}

pub fn sending_to_one_who_is_gone_breaks<N: Network>() {
    let mut rig = Rig::<N>::new();
    let (mut socket, far) = rig.connection(1);
    far.reset();
    rig.until(|event| matches!(event, Event::Socket { broken: true, .. }));
    assert_eq!(rig.backend.send(&mut socket, b"x"), Attempt::Broken);
    assert_eq!(rig.backend.send_gathered(&mut socket, &[IoSlice::new(b"x")]), Attempt::Broken);
    assert_eq!(rig.backend.send_file(&mut socket, file(b"x").as_fd(), 0, 1), Attempt::Broken);
    rig.backend.close(socket);
}

pub fn clocks_do_not_go_back<N: Network>() {
    let mut rig = Rig::<N>::new();
    let mut last = rig.backend.now();
    for _ in 0..3 {
        rig.news();
        assert!(rig.backend.now() >= last);
        last = rig.backend.now();
        rig.backend.read_clock();
        assert!(rig.backend.now() >= last);
    }
    // The design of this server is younger than 2026.
    assert!(rig.backend.wall_clock().as_secs() > 1_767_225_600);
}

pub fn nothing_is_reported_of_a_connection_that_was_given_away<N: Network>() {
    let mut rig = Rig::<N>::new();
    let (mut socket, mut far) = rig.connection(7);
    far.send(b"request");
    rig.until(|event| matches!(event, Event::Socket { readable: true, .. }));
    assert_eq!(receive_all(&mut rig, &mut socket, 7), b"request");
    let (copy, received) = rig.backend.give_away(&mut socket).expect("there is a descriptor");
    assert_eq!(received, b"");
    far.send(b"for the host");
    assert_eq!(rig.news(), []);
    // The connection lives on in the copy after the backend's socket is closed, and still belongs only to the copy's owner.
    rig.backend.close(socket);
    far.send(b", and more");
    far.end();
    assert_eq!(rig.news(), []);
    let mut all = Vec::new();
    std::fs::File::from(copy).read_to_end(&mut all).expect("the far end has ended");
    assert_eq!(all, b"for the host, and more");
}

pub fn a_connection_that_was_given_away_notices_that_its_peer_has_vanished<N: Network>() {
    let mut rig = Rig::<N>::new();
    let (mut socket, _far) = rig.connection(7);
    let (copy, _) = rig.backend.give_away(&mut socket).expect("there is a descriptor");
    let is_local = sockopt::socket_domain(&copy).expect("it is a socket") == AddressFamily::UNIX;
    assert_eq!(sockopt::socket_keepalive(&copy), Ok(!is_local));
    rig.backend.close(socket);
}
