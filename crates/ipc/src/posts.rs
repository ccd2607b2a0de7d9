//! The boxes through which the edges of a server get messages: each edge reads its own, and all edges and workers write to all.
//! The first process makes them before it forks edges, and keeps them, so that the box of an edge that dies is that of the next. The
//! first process of the next server inherits them, so that messages of either server reach the clients of both. If the server
//! shares messages with other servers, the relay has the last box. Nobody waits long for the relay: messages for other servers are
//! lost if it does not read.

mod pieces;

pub use pieces::Posts;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// The most bytes of a message.
pub const LARGEST_POST: usize = 64 << 10;

/// The bytes at the beginning of a message: a byte that says whether it is the first or the last piece of its commands, and two
/// bytes for the edge that sends it.
pub const POST_PREFIX: usize = 3;

/// Marks the first piece of commands.
pub const FIRST_PIECE: u8 = 1;

/// Marks the last piece of commands.
pub const LAST_PIECE: u8 = 2;

/// The most bytes of commands of a process that is no edge.
pub const LARGEST_DELIVERY: usize = LARGEST_POST - POST_PREFIX;

/// The number of an edge in a message of a process that is none.
const NO_EDGE: u16 = u16::MAX;

/// The waits after which an edge that does not read is given up, and the length of each.
const WAITS: u32 = 300;
const WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Whether the relay had no room for the last message of this process, which is no edge.
static RELAY_IS_BEHIND: AtomicBool = AtomicBool::new(false);

static OUTBOX: Mutex<Option<Outbox>> = Mutex::new(None);

/// The boxes of all edges, and of the relay, if there is one.
#[derive(Debug)]
pub struct PostBoxes {
    readers: Vec<OwnedFd>,
    outbox: Outbox,
    is_inherited: bool,
}

impl PostBoxes {
    /// Makes a box for each of `edges` edges, and one for a relay.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn new(edges: usize, has_relay: bool) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let pairs =
            (0..edges + usize::from(has_relay)).map(|_| socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None));
        let (readers, writers) = pairs.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        Ok(Self { readers, outbox: Outbox::new(writers, has_relay), is_inherited: false })
    }

    /// Takes the boxes of the previous server: the ends to read from and to write to, in the order of the edges. With `has_relay`,
    /// the last ones are those of the relay.
    #[must_use]
    pub fn inherited(readers: Vec<OwnedFd>, writers: Vec<OwnedFd>, has_relay: bool) -> Self {
        Self { readers, outbox: Outbox::new(writers, has_relay), is_inherited: true }
    }

    /// Whether these are the boxes of the previous server, whose edges read them until they hand their connections over.
    #[must_use]
    pub const fn are_inherited(&self) -> bool {
        self.is_inherited
    }

    /// Both ends of each box.
    pub fn descriptors(&self) -> impl Iterator<Item = [BorrowedFd<'_>; 2]> {
        self.readers.iter().map(AsFd::as_fd).zip(self.outbox.descriptors()).map(<[_; 2]>::from)
    }

    /// The number of boxes.
    #[must_use]
    pub fn count(&self) -> usize {
        self.readers.len()
    }

    /// The number of boxes of edges.
    #[must_use]
    pub fn edges(&self) -> usize {
        self.count() - usize::from(self.outbox.has_relay)
    }

    /// The number of the box of the relay, if there is one.
    #[must_use]
    pub fn relay(&self) -> Option<usize> {
        self.outbox.relay()
    }

    /// The writing ends of all boxes.
    #[must_use]
    pub const fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// The descriptor that is readable when the box of an edge has messages.
    #[must_use]
    pub fn arrival(&self, edge: usize) -> Option<BorrowedFd<'_>> {
        self.readers.get(edge).map(AsFd::as_fd)
    }

    /// Sends a message to an edge. `false`: its box is full.
    ///
    /// # Errors
    /// There is no such edge, or the message is too large.
    pub fn send(&self, edge: usize, message: &[u8]) -> io::Result<bool> {
        self.outbox.send(edge, message)
    }

    /// Receives the next message for an edge into `buffer`, and returns its size; `None` if there is none.
    #[must_use]
    pub fn receive(&self, edge: usize, buffer: &mut [u8]) -> Option<usize> {
        let reader = self.readers.get(edge)?;
        recv(reader, buffer, RecvFlags::DONTWAIT).ok().map(|(size, _)| size).filter(|size| *size > 0)
    }
}

/// The writing ends of all boxes. Each process of the server has them from its parent.
#[derive(Clone, Debug)]
pub struct Outbox {
    writers: Arc<[OwnedFd]>,
    has_relay: bool,
}

impl Outbox {
    /// Takes these writing ends, in the order of the edges. With `has_relay`, the last one is that of the relay.
    #[must_use]
    pub fn new(writers: Vec<OwnedFd>, has_relay: bool) -> Self {
        Self { writers: writers.into(), has_relay }
    }

    /// The number of the box of the relay, if there is one.
    #[must_use]
    pub fn relay(&self) -> Option<usize> {
        self.has_relay.then(|| self.writers.len() - 1)
    }

    /// That of this process, if there are edges.
    #[must_use]
    pub fn of_process() -> Option<Self> {
        OUTBOX.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes it that of this process, and of those that it forks.
    pub fn adopt(self) {
        *OUTBOX.lock().unwrap_or_else(PoisonError::into_inner) = Some(self);
    }

    /// The writing ends.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.writers.iter().map(AsFd::as_fd)
    }

    /// Sends a message to an edge. `false`: its box is full.
    ///
    /// # Errors
    /// There is no such edge, or the message is too large.
    pub fn send(&self, edge: usize, message: &[u8]) -> io::Result<bool> {
        let writer = self.writers.get(edge).ok_or(io::ErrorKind::NotFound)?;
        match send(writer, message, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(_) => Ok(true),
            Err(Errno::AGAIN | Errno::NOBUFS) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends commands of a process that is no edge to all edges. Waits for edges whose boxes are full. A relay that has no room
    /// within a tenth of a second does not get them, and nor do other servers.
    ///
    /// # Errors
    /// The commands are too large for one message, which has no other parts; an edge has no room for 30 seconds, although all others
    /// have the message; the server has ended.
    pub fn deliver(&self, commands: &[u8]) -> io::Result<()> {
        self.deliver_unless(&|| false, commands)
    }

    /// The same, until `gives_up`, which is asked during waits.
    ///
    /// # Errors
    /// The same, and `Interrupted`.
    pub fn deliver_unless(&self, gives_up: &dyn Fn() -> bool, commands: &[u8]) -> io::Result<()> {
        if commands.len() > LARGEST_DELIVERY {
            return Err(io::Error::other(format!("a message outside of a request has at most {} KiB", LARGEST_DELIVERY >> 10)));
        }
        let [high, low] = NO_EDGE.to_be_bytes();
        let message = [&[FIRST_PIECE | LAST_PIECE, high, low], commands].concat();
        // One that does not read keeps nothing from the others.
        let mut full = self.send_to(0..self.writers.len(), &message)?;
        let relay = self.relay();
        if relay.is_some_and(|relay| !full.contains(&relay)) {
            RELAY_IS_BEHIND.store(false, Relaxed);
        } else if RELAY_IS_BEHIND.load(Relaxed) {
            full.retain(|number| Some(*number) != relay);
        }
        let mut waits = 0;
        while !full.is_empty() {
            if gives_up() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let mut room: Vec<PollFd<'_>> = full.iter().map(|&edge| PollFd::new(&self.writers[edge], PollFlags::OUT)).collect();
            match poll(&mut room, Some(&WAIT)) {
                Ok(0) if relay.is_some_and(|relay| full.contains(&relay)) => {
                    full.retain(|number| Some(*number) != relay);
                    if !RELAY_IS_BEHIND.swap(true, Relaxed) {
                        log_loss_for_relay();
                    }
                    continue;
                }
                Ok(0) if waits == WAITS => {
                    let names = full.iter().map(|edge| (edge + 1).to_string()).collect::<Vec<_>>().join(", ");
                    return Err(io::Error::other(format!("edge {names} has read no message for 30 s")));
                }
                Ok(0) => waits += 1,
                Ok(_) => waits = 0,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            full = self.send_to(full, &message)?;
        }
        Ok(())
    }

    /// Sends a message to these edges, and returns those whose boxes are full.
    fn send_to(&self, edges: impl IntoIterator<Item = usize>, message: &[u8]) -> io::Result<Vec<usize>> {
        let (mut full, mut gone) = (Vec::new(), false);
        for edge in edges {
            match self.send(edge, message) {
                Ok(true) => {}
                Ok(false) => full.push(edge),
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => gone = true,
                Err(error) => return Err(error),
            }
        }
        if gone { Err(io::Error::new(io::ErrorKind::BrokenPipe, "the server of this process has ended")) } else { Ok(full) }
    }
}

/// Logs that other servers do not get messages.
fn log_loss_for_relay() {
    log::warn!("messages for other servers are lost, because the relay does not read them");
}

#[cfg(test)]
mod tests {
    use super::{LARGEST_DELIVERY, LARGEST_POST, PostBoxes};

    #[test]
    fn messages_arrive_whole_and_in_order_until_a_box_is_full() {
        let boxes = PostBoxes::new(2, false).expect("sockets");
        let mut buffer = vec![0; LARGEST_POST];
        assert_eq!(boxes.receive(0, &mut buffer), None);
        for message in [&b"one"[..], b"two", &[7; LARGEST_POST]] {
            assert!(boxes.send(0, message).expect("a box"));
        }
        for message in [&b"one"[..], b"two", &[7; LARGEST_POST]] {
            let size = boxes.receive(0, &mut buffer).expect("it was sent");
            assert!(buffer[..size] == *message);
        }
        assert_eq!(boxes.receive(1, &mut buffer), None);
        let mut sent = 0;
        while boxes.send(1, &[1; 1000]).expect("a box") {
            sent += 1;
        }
        assert!(sent > 10);
        assert_eq!(boxes.receive(1, &mut buffer), Some(1000));
        assert!(boxes.send(1, b"again").expect("a box"));
        assert!(boxes.send(2, b"nobody").is_err());
    }

    #[test]
    fn commands_of_other_processes_reach_all_edges_in_one_piece() {
        let boxes = PostBoxes::new(2, false).expect("sockets");
        let outbox = boxes.outbox().clone();
        outbox.deliver(b"news").expect("small");
        let mut buffer = vec![0; LARGEST_POST];
        for edge in 0..2 {
            let size = boxes.receive(edge, &mut buffer).expect("it was sent");
            assert_eq!(&buffer[..size], b"\x03\xff\xffnews");
        }
        while boxes.send(0, &[1; 1000]).expect("a box") {}
        std::thread::scope(|scope| {
            let late = scope.spawn(|| outbox.deliver(b"late"));
            // The second edge has it, although the first one is full.
            while boxes.receive(1, &mut buffer) != Some(7) {}
            assert!(!late.is_finished());
            while !late.is_finished() {
                _ = boxes.receive(0, &mut buffer);
            }
            late.join().expect("no panic").expect("there is room again");
        });
        while boxes.receive(0, &mut buffer).is_some() {}
        assert_eq!(boxes.receive(1, &mut buffer), None, "none has it twice");
        outbox.deliver(&[1; LARGEST_DELIVERY]).expect("the largest one");
        while boxes.send(1, &[1; 1000]).expect("a box") {}
        let given_up = outbox.deliver_unless(&|| true, b"late").expect_err("one is full");
        assert_eq!(given_up.kind(), std::io::ErrorKind::Interrupted);
        assert!(outbox.deliver(&[1; LARGEST_DELIVERY + 1]).is_err());
    }

    #[test]
    fn a_relay_gets_the_same_and_nobody_waits_for_it() {
        let boxes = PostBoxes::new(1, true).expect("sockets");
        assert_eq!((boxes.count(), boxes.relay()), (2, Some(1)));
        let outbox = boxes.outbox().clone();
        outbox.deliver(b"news").expect("small");
        let mut buffer = vec![0; LARGEST_POST];
        assert!((0..2).all(|number| boxes.receive(number, &mut buffer) == Some(7)));
        while boxes.send(1, &[1; 1000]).expect("a box") {}
        for _ in 0..2 {
            outbox.deliver(b"lost").expect("the edge has room");
            assert_eq!(boxes.receive(0, &mut buffer), Some(7));
        }
        while boxes.receive(1, &mut buffer).is_some_and(|size| size == 1000) {}
        outbox.deliver(b"more").expect("small");
        assert_eq!(boxes.receive(1, &mut buffer), Some(7), "it reads again");
    }
}
