//! The boxes through which the edges of a server pass messages to each other: each edge reads its own, and all edges write to all.
//! The first process makes them before it forks edges, and keeps them, so that the box of an edge that dies is that of the next.

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The most bytes of a message.
pub const LARGEST_POST: usize = 64 << 10;

/// The boxes of all edges.
#[derive(Debug)]
pub struct PostBoxes(Vec<PostBox>);

#[derive(Debug)]
struct PostBox {
    reader: OwnedFd,
    writer: OwnedFd,
}

impl PostBoxes {
    /// Makes a box for each of `edges` edges; none for a single edge, which has nobody to write to.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn new(edges: usize) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let one = |_| {
            let (reader, writer) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
            Ok(PostBox { reader, writer })
        };
        Ok(Self(if edges > 1 { (0..edges).map(one).collect::<io::Result<_>>()? } else { Vec::new() }))
    }

    /// The number of boxes.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The descriptor that is readable when the box of an edge has messages.
    #[must_use]
    pub fn arrival(&self, edge: usize) -> Option<BorrowedFd<'_>> {
        self.0.get(edge).map(|post_box| post_box.reader.as_fd())
    }

    /// Sends a message to an edge. `false`: its box is full.
    ///
    /// # Errors
    /// There is no such edge, or the message is too large.
    pub fn send(&self, edge: usize, message: &[u8]) -> io::Result<bool> {
        let post_box = self.0.get(edge).ok_or(io::ErrorKind::NotFound)?;
        match send(&post_box.writer, message, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(_) => Ok(true),
            Err(Errno::AGAIN | Errno::NOBUFS) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Receives the next message for an edge into `buffer`, and returns its size; `None` if there is none.
    #[must_use]
    pub fn receive(&self, edge: usize, buffer: &mut [u8]) -> Option<usize> {
        let post_box = self.0.get(edge)?;
        recv(&post_box.reader, buffer, RecvFlags::DONTWAIT).ok().map(|(size, _)| size).filter(|size| *size > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::{LARGEST_POST, PostBoxes};

    #[test]
    fn messages_arrive_whole_and_in_order_until_a_box_is_full() {
        let boxes = PostBoxes::new(2).expect("sockets");
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
    fn a_single_edge_has_no_box() {
        let boxes = PostBoxes::new(1).expect("nothing is made");
        assert_eq!((boxes.count(), boxes.arrival(0).is_some()), (0, false));
    }
}
