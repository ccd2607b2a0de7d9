//! What an edge gets from its keeper, and what it asks its keeper to do about a worker.
//!
//! The keeper is the process that has forked the edge: the master, or the supervisor if there is no master. An edge may not end
//! processes, or send them signals, itself: with `--user` it has no right to, and the number of a process that it has read from
//! shared memory may be anyone's. The keeper does so only if the process is a worker of this server.

use crate::sandbox::Sandbox;
use oribi_ipc::handover::{Receiver, Sender, receive_with_descriptor, send_with_descriptor};
use oribi_pool::Memory;
use oribi_worker::lane::LaneSetup;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use std::cell::Cell;
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
    /// Ends workers, and tells them of warnings.
    pub keeper: &'a Keeper,
    /// Where connections come from that an edge of the server before hands over; `None`: from nowhere.
    pub handed: Option<&'a Receiver>,
    /// What the edge enters before it serves; `None`: it may do what its user may.
    pub sandbox: Option<&'a Sandbox>,
}

/// Why something is to be done about a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Reason {
    /// Its app has been running for too long and does not react: end the worker.
    Stuck = 1,
    /// It has written what makes no sense: end the worker.
    Broken = 2,
    /// Its app takes long, and the edge has left a warning in its orders: send the signal after which the worker reads them.
    Slow = 3,
}

impl Reason {
    const fn from_number(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Stuck),
            2 => Some(Self::Broken),
            3 => Some(Self::Slow),
            _ => None,
        }
    }
}

/// A request to do something about a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plea {
    /// The process that the edge takes for a worker's.
    pub process: u32,
    /// Why.
    pub reason: Reason,
}

impl Plea {
    /// The bytes of a message.
    pub const SIZE: usize = 8;

    /// The message as bytes.
    pub fn to_bytes(self) -> [u8; Self::SIZE] {
        (u64::from(self.process) << 32 | u64::from(self.reason as u32)).to_ne_bytes()
    }

    /// `None`: the bytes make no sense.
    pub fn from_bytes(bytes: [u8; Self::SIZE]) -> Option<Self> {
        let number = u64::from_ne_bytes(bytes);
        Some(Self { process: (number >> 32) as u32, reason: Reason::from_number(number as u32)? })
    }
}

/// What a keeper gives to an edge while that serves.
#[derive(Debug)]
pub(crate) enum Given {
    /// Where the connections of the edge are to go.
    Successor(Sender),
    /// The error log, opened again.
    ErrorLog(OwnedFd),
    /// The access log, opened again.
    AccessLog(OwnedFd),
    /// The certificates and keys, read again.
    Certificates(OwnedFd),
}

/// The kinds of what is given, as the only byte of a message.
const SUCCESSOR: u8 = 0;
const ERROR_LOG: u8 = 1;
const ACCESS_LOG: u8 = 2;
const CERTIFICATES: u8 = 3;

/// The edge's end of the socket to its keeper.
#[derive(Debug)]
pub struct Keeper(OwnedFd);

impl Keeper {
    /// Asks the keeper to do something about the process of a worker at once. Returns whether the keeper will read this; if not,
    /// too many such requests wait for it, or it is gone.
    pub(crate) fn plead(&self, process: u32, reason: Reason) -> bool {
        send(&self.0, &Plea { process, reason }.to_bytes(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL).is_ok()
    }

    /// The next thing that the keeper has given to this edge; `None`: there is none.
    pub(crate) fn next(&self) -> Option<Given> {
        loop {
            let mut kind = [0];
            match receive_with_descriptor(&self.0, &mut kind) {
                Ok((0, _)) | Err(_) => return None,
                Ok((_, None)) => {}
                Ok((_, Some(descriptor))) => match kind[0] {
                    SUCCESSOR => return Some(Given::Successor(Sender::new(descriptor))),
                    ERROR_LOG => return Some(Given::ErrorLog(descriptor)),
                    ACCESS_LOG => return Some(Given::AccessLog(descriptor)),
                    CERTIFICATES => return Some(Given::Certificates(descriptor)),
                    _ => {}
                },
            }
        }
    }
}

/// The keeper's end of the socket to an edge.
#[derive(Debug)]
pub struct Pleas {
    socket: OwnedFd,
    /// The edge has closed its end.
    ended: Cell<bool>,
}

impl Pleas {
    /// Readable when the edge asks for something; `None` if nothing can come any more. An end that was seen is not watched, or
    /// the keeper would not sleep until the edge's process has ended.
    pub fn arrival(&self) -> Option<BorrowedFd<'_>> {
        (!self.ended.get()).then(|| self.socket.as_fd())
    }

    /// The next request; `None` if there is none.
    pub fn next(&self) -> Option<Plea> {
        loop {
            let mut bytes = [0; Plea::SIZE];
            match recv(&self.socket, &mut bytes, RecvFlags::DONTWAIT) {
                Ok((Plea::SIZE, _)) => {}
                // Nothing of this length is sent.
                Ok((1.., _)) | Err(Errno::INTR) => continue,
                Ok((0, _)) => {
                    self.ended.set(true);
                    return None;
                }
                Err(_) => return None,
            }
            if let Some(plea) = Plea::from_bytes(bytes) {
                return Some(plea);
            }
        }
    }
}

impl Pleas {
    /// Tells the edge where its connections are to go.
    ///
    /// # Errors
    /// The edge has ended.
    pub fn name_successor(&self, successor: &Sender) -> io::Result<()> {
        self.give(SUCCESSOR, successor.as_fd())
    }

    /// Gives the edge the error log, which was opened again: an edge may have no right to open it, and in a sandbox it has none.
    ///
    /// # Errors
    /// The edge has ended, or does not read.
    pub fn give_error_log(&self, log: BorrowedFd<'_>) -> io::Result<()> {
        self.give(ERROR_LOG, log)
    }

    /// The same for the access log.
    ///
    /// # Errors
    /// The edge has ended, or does not read.
    pub fn give_access_log(&self, log: BorrowedFd<'_>) -> io::Result<()> {
        self.give(ACCESS_LOG, log)
    }

    /// Gives the edge certificates and keys, which only the keeper may have the right to read.
    ///
    /// # Errors
    /// The edge has ended, or does not read.
    pub fn give_certificates(&self, vault: BorrowedFd<'_>) -> io::Result<()> {
        self.give(CERTIFICATES, vault)
    }

    fn give(&self, kind: u8, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        send_with_descriptor(&self.socket, &[kind], Some(descriptor))
    }
}

/// Both ends of the socket between a keeper and an edge. It keeps the boundaries of messages.
///
/// # Errors
/// The system refuses.
pub fn socket() -> io::Result<(Pleas, Keeper)> {
    let (own, edges) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    Ok((Pleas { socket: own, ended: Cell::new(false) }, Keeper(edges)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pleas_arrive_and_anything_else_is_passed_over() {
        let (pleas, keeper) = socket().expect("a socket");
        assert_eq!(pleas.next(), None);
        assert!(keeper.plead(77, Reason::Stuck));
        send(&keeper.0, &[7; 8], SendFlags::NOSIGNAL).expect("it is open");
        assert!(keeper.plead(78, Reason::Broken) && keeper.plead(80, Reason::Slow));
        assert_eq!(pleas.next(), Some(Plea { process: 77, reason: Reason::Stuck }));
        assert_eq!(pleas.next(), Some(Plea { process: 78, reason: Reason::Broken }));
        assert_eq!(pleas.next(), Some(Plea { process: 80, reason: Reason::Slow }));
        assert_eq!(pleas.next(), None);
        drop(pleas);
        assert!(!keeper.plead(79, Reason::Stuck), "the keeper is gone");
    }

    #[test]
    fn what_is_given_arrives_and_anything_else_is_passed_over() {
        let (pleas, keeper) = socket().expect("a socket");
        assert!(keeper.next().is_none());
        let file = std::fs::File::open("/dev/null").expect("it is there");
        pleas.give(77, file.as_fd()).expect("there is room");
        send_with_descriptor(&pleas.socket, &[ACCESS_LOG], None).expect("there is room");
        pleas.give_error_log(file.as_fd()).expect("there is room");
        pleas.give_access_log(file.as_fd()).expect("there is room");
        pleas.give_certificates(file.as_fd()).expect("there is room");
        let (successor, _receiver) = oribi_ipc::handover::pair().expect("sockets");
        pleas.name_successor(&successor).expect("there is room");
        assert!(matches!(keeper.next(), Some(Given::ErrorLog(_))));
        assert!(matches!(keeper.next(), Some(Given::AccessLog(_))));
        assert!(matches!(keeper.next(), Some(Given::Certificates(_))));
        assert!(matches!(keeper.next(), Some(Given::Successor(_))));
        assert!(keeper.next().is_none());
        drop(pleas);
        assert!(keeper.next().is_none());
    }

    #[test]
    fn an_edge_that_has_closed_its_end_is_not_watched() {
        let (pleas, keeper) = socket().expect("a socket");
        assert!(keeper.plead(77, Reason::Stuck));
        drop(keeper);
        assert!(pleas.next().is_some() && pleas.arrival().is_some());
        assert!(pleas.next().is_none() && pleas.arrival().is_none());
    }
}
