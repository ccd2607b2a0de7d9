//! What an edge gets from its keeper, and how it asks its keeper to end a worker.
//!
//! The keeper is the process that has forked the edge: the master, or the supervisor if there is no master. An edge may not end
//! processes itself: with `--user` it has no right to, and the number of a process that it has read from shared memory may be
//! anyone's. The keeper ends a process only if it is a worker of this server.

use crate::lane::LaneSetup;
use oribi_pool::Memory;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What the keeper gives to an edge.
#[derive(Clone, Copy, Debug)]
pub struct EdgeSetup<'a> {
    /// The settings, the listeners with the doors at which the edge accepts, and the pipe that tells the edge to read its command
    /// in its slot. The slot is one of the edges': its commands mean the same as a worker's, and a request that waits in the queue
    /// counts as one that has been accepted.
    pub lane: LaneSetup<'a>,
    /// The memory that the edge shares with all workers, and with no other edge.
    pub memory: &'a Memory,
    /// Another edge has used this memory before, so this one takes over.
    pub takes_over: bool,
    /// Ends workers.
    pub keeper: &'a Keeper,
}

/// Why a worker is to be ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Reason {
    /// Its app has been running for too long and does not react.
    Stuck = 1,
    /// It has written what makes no sense.
    Broken = 2,
}

impl Reason {
    const fn from_number(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Stuck),
            2 => Some(Self::Broken),
            _ => None,
        }
    }
}

/// A request to end a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plea {
    /// The process that the edge takes for a worker's.
    pub process: u32,
    /// Why it is to end.
    pub reason: Reason,
}

impl Plea {
    pub(crate) const SIZE: usize = 8;

    pub(crate) fn to_bytes(self) -> [u8; Self::SIZE] {
        (u64::from(self.process) << 32 | u64::from(self.reason as u32)).to_ne_bytes()
    }

    /// `None`: the bytes make no sense.
    pub(crate) fn from_bytes(bytes: [u8; Self::SIZE]) -> Option<Self> {
        let number = u64::from_ne_bytes(bytes);
        Some(Self { process: (number >> 32) as u32, reason: Reason::from_number(number as u32)? })
    }
}

/// The edge's end of the socket to its keeper.
#[derive(Debug)]
pub struct Keeper(OwnedFd);

impl Keeper {
    /// Asks the keeper to end the process of a worker at once. Returns whether the keeper will read this; if not, too many such
    /// requests wait for it, or it is gone.
    pub fn end_worker(&self, process: u32, reason: Reason) -> bool {
        send(&self.0, &Plea { process, reason }.to_bytes(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL).is_ok()
    }
}

/// The keeper's end of the socket to an edge.
#[derive(Debug)]
pub(crate) struct Pleas(OwnedFd);

impl Pleas {
    /// The next request; `None` if there is none.
    pub(crate) fn next(&self) -> Option<Plea> {
        loop {
            let mut bytes = [0; Plea::SIZE];
            match recv(&self.0, &mut bytes, RecvFlags::DONTWAIT) {
                Ok((Plea::SIZE, _)) => {}
                // Nothing of this length is sent.
                Ok((1.., _)) | Err(Errno::INTR) => continue,
                Ok(_) | Err(_) => return None,
            }
            if let Some(plea) = Plea::from_bytes(bytes) {
                return Some(plea);
            }
        }
    }
}

impl AsFd for Pleas {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Both ends of the socket between a keeper and an edge. It keeps the boundaries of messages.
///
/// # Errors
/// The system refuses.
pub(crate) fn socket() -> io::Result<(Pleas, Keeper)> {
    let (own, edges) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    Ok((Pleas(own), Keeper(edges)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pleas_arrive_and_anything_else_is_passed_over() {
        let (pleas, keeper) = socket().expect("a socket");
        assert_eq!(pleas.next(), None);
        assert!(keeper.end_worker(77, Reason::Stuck));
        send(&keeper.0, &[7; 8], SendFlags::NOSIGNAL).expect("it is open");
        assert!(keeper.end_worker(78, Reason::Broken));
        assert_eq!(pleas.next(), Some(Plea { process: 77, reason: Reason::Stuck }));
        assert_eq!(pleas.next(), Some(Plea { process: 78, reason: Reason::Broken }));
        assert_eq!(pleas.next(), None);
        drop(pleas);
        assert!(!keeper.end_worker(79, Reason::Stuck), "the keeper is gone");
    }
}
