//! Ends of connections.

use super::{Kernel, Pair, Peer};
use crate::pair::{TOKEN, server};
use oribi_io::{Attempt, Backend, Direction, Event};
use rustls::version::TLS13;
use std::net::Shutdown;

pub fn an_end_that_comes_with_the_last_bytes_is_told<B: Kernel>() {
    let mut pair = Pair::<B>::any();
    pair.client_writes(b"last");
    pair.client.send_close_notify();
    pair.exchange();
    let mut seen = Vec::new();
    pair.until(|pair| {
        if let (Attempt::Done(_), bytes) = pair.receive(100) {
            seen.extend(bytes);
        }
        seen == b"last"
    });
    // The client waits for a response and does not end the connection itself. The server has all bytes and waits for an
    // event.
    pair.events.clear();
    pair.until(|pair| {
        pair.events.iter().any(
            |event| matches!(event, Event::Socket { token, readable: true, ended: true, broken: false, .. } if *token == TOKEN),
        ) || pair.receive(100).0 == Attempt::End
    });
    assert_eq!(pair.receive(100).0, Attempt::End);
    // The client can still get a response.
    assert_eq!(pair.send(b"answer"), Attempt::Done(6));
    assert_eq!(pair.client_reads(6).0, b"answer");
}

pub fn an_end_without_a_word_is_a_break<B: Kernel>() {
    let mut pair = Pair::<B>::any();
    pair.client_writes(b"some content");
    pair.stream.shutdown(Shutdown::Write).expect("it is ours");
    let (mut seen, mut end) = (Vec::new(), Attempt::Later);
    pair.until(|pair| {
        match pair.receive(5) {
            (Attempt::Done(_), bytes) => seen.extend(bytes),
            (attempt, _) => end = attempt,
        }
        end != Attempt::Later
    });
    assert_eq!((seen.as_slice(), end), (&b"some content"[..], Attempt::Broken));
}

pub fn ends_are_said_and_cuts_are_not<B: Kernel>() {
    for (said, act) in [
        (true, (|pair| pair.backend.shutdown(pair.socket.as_mut().expect("open"), Direction::Send)) as fn(&mut Pair<B>)),
        (true, |pair| pair.backend.close(pair.socket.take().expect("open"))),
        (true, |pair| {
            assert_eq!(pair.backend.send_last(pair.socket.as_mut().expect("open"), b"answer"), Attempt::Done(6));
            pair.backend.close(pair.socket.take().expect("open"));
        }),
        (false, |pair| {
            assert_eq!(pair.send(b"answer"), Attempt::Done(6));
            pair.backend.submit();
            pair.backend.shutdown(pair.socket.as_mut().expect("open"), Direction::Abort);
            pair.backend.close(pair.socket.take().expect("open"));
        }),
    ] {
        let mut pair = Pair::<B>::any();
        act(&mut pair);
        assert_eq!(pair.client_reads(100).1, said);
    }
}

pub fn changes_of_keys_are_answered_as_long_as_they_are_few<B: Kernel>() {
    let mut pair = Pair::<B>::new(&server(), &Peer::speaking(&[&TLS13]));
    for _ in 0..5 {
        pair.client.refresh_traffic_keys().expect("the handshake is done");
        pair.client_writes(b"question");
        assert_eq!(pair.receive_all(8), b"question");
        assert_eq!(pair.send(b"answer"), Attempt::Done(6));
        assert_eq!(pair.client_reads(6).0, b"answer");
    }
    // A flood of changes of keys.
    let mut end = Attempt::Later;
    let mut changes = 0;
    pair.until(|pair| {
        if pair.client.refresh_traffic_keys().is_ok() {
            changes += 1;
        }
        pair.exchange();
        end = pair.receive(100).0;
        end != Attempt::Later
    });
    assert_eq!(end, Attempt::Broken);
    assert!(changes < 200, "{changes}");
}
