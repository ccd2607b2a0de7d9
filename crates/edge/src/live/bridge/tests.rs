//! The bridge between two edges, of which one does not do what it should.

use super::*;
use oribi_ipc::handover::{HandoverEvent, pair};

#[test]
fn an_edge_follows_one_that_has_as_many_others() {
    let (after, before) = pair().expect("sockets");
    let mut down = Down::new(2);
    down.bridge.flush(&before).expect("the other end is open");
    let HandoverEvent::Piece(piece, None) = after.next() else { panic!("it greets") };
    assert!(Up::greeted(&piece, 2).is_some());
    assert!(Up::greeted(&piece, 3).is_none());
    assert!(Up::greeted(b"OribiLiv\x01\x01\xff\xff\x00\x02", 2).is_none(), "another version");
    assert!(Up::greeted(b"OribiLiv\x01\x05\x00\x01\x00\x02", 2).is_none(), "no greeting");
}

#[test]
fn an_old_edge_gives_a_next_one_up_that_reads_nothing() {
    let (after, before) = pair().expect("sockets");
    let second = Duration::from_secs(1);
    let is_late = |outcome: io::Result<()>| outcome.is_err_and(|error| error.kind() == io::ErrorKind::TimedOut);
    let mut up = Up { accepts: true, ..Up::default() };
    up.bridge.push(BridgeKind::Commands, &[7; 10_000_000], None);
    for now in [0, 9] {
        up.flush(&after, second * now).expect("it has time");
    }
    let HandoverEvent::Piece(..) = before.next() else { panic!("it was sent") };
    for now in [11, 21] {
        up.flush(&after, second * now).expect("it has read");
    }
    assert!(is_late(up.flush(&after, second * 22)));
    // One that reads may still not begin.
    let mut up = Up::default();
    up.flush(&after, second * 30).expect("it has time");
    assert!(is_late(up.flush(&after, second * 41)));
    up.accepts = true;
    up.flush(&after, second * 60).expect("nothing waits");
}

#[test]
fn commands_are_kept_until_the_old_edge_has_confirmed_them() {
    let mut down = Down::new(1);
    for commands in [&b"one"[..], b"two", b"three"] {
        down.pass(commands);
    }
    down.confirm(2);
    assert_eq!((Vec::from(down.unconfirmed.clone()), down.unconfirmed_bytes), (vec![(3, b"three".to_vec())], 5));
    down.confirm(1);
    assert_eq!(down.unconfirmed.len(), 1);
    down.confirm(u64::MAX);
    assert_eq!((down.unconfirmed.len(), down.unconfirmed_bytes), (0, 0));
}

#[test]
fn an_old_edge_that_does_not_read_is_stuck() {
    let mut down = Down::new(1);
    let large = vec![0; 1 << 20];
    (0..64).for_each(|_| down.pass(&large));
    assert!(!down.is_stuck());
    down.pass(&large);
    assert!(down.is_stuck());
}
