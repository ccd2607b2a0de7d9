//! The viewers of the dashboard: each has a connection with server-sent events (as HTML defines them).
//!
//! At most one event waits for a viewer. A slow viewer skips events. A viewer that reads nothing for a while is disconnected;
//! its browser reconnects. A new viewer always finds room: it displaces the oldest one. Viewers do not count among the
//! clients for metrics, which have a limit of their own.

use crate::attended::{self, Attended, Next};
use crate::outgoing::Outgoing;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::convert::Infallible;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// The most viewers at a time, because each needs a descriptor. A further viewer displaces the oldest.
const WATCHERS: usize = 16;
/// The time that a viewer may take for an event.
const PATIENCE: Duration = Duration::from_secs(10);
/// The number of bytes read and discarded in one turn.
const READ_AT_ONCE: usize = 4 << 10;

#[derive(Debug)]
struct Watcher {
    socket: OwnedFd,
    /// The data that the viewer has not taken yet.
    outgoing: Option<Outgoing>,
}

/// All viewers, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Watchers(Vec<Watcher>);

/// Formats an event with data of one line.
pub(super) fn event(name: &str, data: &str) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

impl Watchers {
    pub(super) fn are_any(&self) -> bool {
        !self.0.is_empty()
    }

    pub(super) fn polled(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.0.iter().map(Attended::polled)
    }

    /// Returns the earliest deadline of a viewer.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.0.iter().filter_map(|watcher| watcher.outgoing.as_ref()).map(|outgoing| outgoing.until).min()
    }

    /// Adds a viewer; `beginning` is sent first.
    pub(super) fn admit(&mut self, socket: OwnedFd, beginning: Vec<u8>, now: Instant) {
        if self.0.len() >= WATCHERS {
            self.0.remove(0);
        }
        let mut watcher = Watcher { socket, outgoing: None };
        watcher.give(beginning, now);
        self.0.push(watcher);
    }

    /// Sends an event to all viewers that have taken the previous one.
    pub(super) fn tell(&mut self, event: &str, now: Instant) {
        for watcher in self.0.iter_mut().filter(|watcher| watcher.outgoing.is_none()) {
            watcher.give(event.as_bytes().to_vec(), now);
        }
    }

    /// Sends as much as sockets take, and drops viewers that have disconnected or are too slow.
    pub(super) fn attend(&mut self, now: Instant) {
        attended::attend(&mut self.0, now);
    }
}

impl Watcher {
    fn give(&mut self, bytes: Vec<u8>, now: Instant) {
        self.outgoing = Some(Outgoing::new(bytes, now + PATIENCE));
        self.send();
    }

    fn send(&mut self) {
        // If the viewer has disconnected, the next turn notices it.
        self.outgoing.take_if(|outgoing| outgoing.send(&self.socket));
    }
}

impl Attended for Watcher {
    /// Viewers send no further requests.
    type Request = Infallible;

    fn polled(&self) -> PollFd<'_> {
        let awaited = if self.outgoing.is_some() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        PollFd::from_borrowed_fd(self.socket.as_fd(), awaited)
    }

    fn go_on(&mut self, seen: PollFlags, now: Instant) -> Next<Infallible> {
        if seen.intersects(PollFlags::OUT) {
            self.send();
        }
        if self.outgoing.as_ref().is_some_and(|outgoing| now >= outgoing.until) {
            return Next::Leave;
        }
        if !seen.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            return Next::Stay;
        }
        let mut bytes = [0; READ_AT_ONCE];
        match recv(&self.socket, &mut bytes, RecvFlags::DONTWAIT) {
            Ok((1.., _)) | Err(Errno::INTR | Errno::AGAIN) => Next::Stay,
            Ok((0, _)) | Err(_) => Next::Leave,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::os::unix::net::UnixStream;

    fn connected() -> (UnixStream, OwnedFd) {
        let (client, server) = UnixStream::pair().expect("sockets are to be had");
        client.set_read_timeout(Some(Duration::from_secs(30))).expect("it is ours");
        (client, server.into())
    }

    #[test]
    fn everybody_gets_each_event_as_it_is_written_down() {
        let (mut watchers, now) = (Watchers::default(), Instant::now());
        let clients: Vec<UnixStream> = (0..3)
            .map(|_| {
                let (client, server) = connected();
                watchers.admit(server, b"retry: 1\n\n".to_vec(), now);
                client
            })
            .collect();
        watchers.tell(&event("now", "{\"a\":1}"), now);
        assert!(watchers.next_deadline().is_none(), "all have taken it");
        for client in &clients {
            let lines: Vec<String> = BufReader::new(client).lines().take(5).map(|line| line.expect("text")).collect();
            assert_eq!(lines, ["retry: 1", "", "event: now", "data: {\"a\":1}", ""]);
        }
        drop(clients);
        watchers.attend(now);
        assert!(!watchers.are_any());
    }

    #[test]
    fn who_is_slow_misses_events_and_is_dropped_when_it_takes_nothing() {
        let (mut watchers, mut now) = (Watchers::default(), Instant::now());
        let ((mut slow, server), (quick, other)) = (connected(), connected());
        watchers.admit(server, vec![b'x'; 4 << 20], now);
        watchers.admit(other, Vec::new(), now);
        assert_eq!(watchers.next_deadline(), Some(now + PATIENCE), "no socket takes so much");
        now += Duration::from_secs(2);
        watchers.tell(&event("now", "1"), now);
        let waiting = |watchers: &Watchers| watchers.0.iter().filter(|watcher| watcher.outgoing.is_some()).count();
        assert_eq!(waiting(&watchers), 1);
        // Once the viewer has taken the pending event, it gets the later ones.
        let reader = std::thread::spawn(move || {
            slow.read_exact(&mut vec![0; 4 << 20]).expect("it is sent");
            slow
        });
        let patience = Instant::now() + Duration::from_secs(30);
        while waiting(&watchers) > 0 {
            assert!(Instant::now() < patience, "it takes nothing");
            watchers.attend(now);
        }
        let mut slow = reader.join().expect("it has read it");
        watchers.tell(&event("now", "2"), now);
        let mut text = [0; 20];
        slow.read_exact(&mut text).expect("it is sent");
        assert_eq!(&text, b"event: now\ndata: 2\n\n");
        drop(quick);
    }

    #[test]
    fn who_takes_nothing_for_long_is_dropped_and_holds_little() {
        let (mut watchers, begun) = (Watchers::default(), Instant::now());
        let (stuck, server) = connected();
        watchers.admit(server, vec![b'x'; 4 << 20], begun);
        let held = |watchers: &Watchers| watchers.0[0].outgoing.as_ref().map(|outgoing| outgoing.until);
        for second in (0..PATIENCE.as_secs()).step_by(2) {
            let now = begun + Duration::from_secs(second);
            watchers.tell(&event("now", &"y".repeat(1 << 20)), now);
            watchers.attend(now);
            assert_eq!(held(&watchers), Some(begun + PATIENCE), "nothing is added to what it has not taken");
        }
        watchers.attend(begun + PATIENCE);
        assert!(!watchers.are_any());
        drop(stuck);
    }

    #[test]
    fn the_newest_find_room_and_what_clients_say_is_not_heard() {
        let (mut watchers, now) = (Watchers::default(), Instant::now());
        let mut clients: Vec<UnixStream> = (0..WATCHERS + 5)
            .map(|_| {
                let (mut client, server) = connected();
                client.write_all(&[b'x'; 10_000]).expect("the socket has room");
                watchers.admit(server, Vec::new(), now);
                client
            })
            .collect();
        assert_eq!(watchers.0.len(), WATCHERS);
        (0..9).for_each(|_| watchers.attend(now));
        assert_eq!(watchers.0.len(), WATCHERS);
        watchers.tell("a", now);
        let mut byte = [0];
        assert!(matches!(clients[4].read(&mut byte), Ok(0) | Err(_)), "the oldest have gone");
        assert_eq!(clients[5].read(&mut byte).ok(), Some(1));
    }
}
