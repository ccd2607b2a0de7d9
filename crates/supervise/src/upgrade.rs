//! The upgrade of the program itself: a server starts another server from the file that is now at the program's path, and hands
//! over to it. The first process does that, if it is a master, or a supervisor that is the `oribi` command: see
//! `first_process/upgrading.rs`.
//!
//! 1. The old process executes the program with its own arguments and environment. The new process inherits the listeners, and
//!    a socket to the old process, which `ORIBI_UPGRADE=4:123` names (see [`successor`]). The new process continues the
//!    counters of the server, which are in the file in memory that `ORIBI_TOTALS=9` names (the counters of routes are in
//!    another file), and the app metrics (`ORIBI_FIGURES=11`). It also inherits the metrics listeners, a file with the history
//!    of the dashboard (`ORIBI_HISTORY=10`), and the number of workers, if an order or a signal has set it (see
//!    [`super::scaled`]).
//! 2. The new server starts its workers, and its edges when the workers serve. Until then nothing has changed for clients. If
//!    the new process ends, or takes too long, the old server continues.
//! 3. When its workers and edges serve, the new server opens the control socket, begins to answer metrics requests, reports to
//!    the old process that it serves, and names a socket for connections for each edge (see [`predecessor`]).
//! 4. The old edges stop accepting, hand over each connection as soon as it is between two requests, and end. Then the old
//!    workers end.
//! 5. If a service manager follows the id of the main process, the old process also ends. The new process is its sibling, because
//!    systemd waits only for the end of main processes that are its children: others it kills as soon as it has sent them TERM.
//!    Otherwise other programs may know the
//!    server by the id of its first process, which may be process 1. So the very first process stays as the guardian: it passes
//!    signals on, and ends with the status of the last server, when all servers have ended (see [`guardian`]). Each later first
//!    process is the child of the previous one. When its parent ends, it becomes the child of the guardian, even if a server
//!    between the two still finishes.

mod guardian;
mod predecessor;
mod process_handle;
mod program;
mod succession;
mod successor;

pub(super) use predecessor::{app_metrics, metrics, totals};
pub(super) use succession::{EndedProcess, Succession, exit_status};
pub(super) use successor::{Estate, SuccessorProgress};

use oribi_ipc::handover::{Sender, VERSION, receive_with_descriptor, send_with_descriptor};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// The beginning of every message, in all versions.
const MAGIC: [u8; 8] = *b"OribiUpg";

/// The size of a message in bytes: the magic bytes, the version of the records that the new edges read, and the kind.
const SIZE: usize = 8 + 2 + 1;

/// The kinds of messages of the new server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum MessageKind {
    /// The old server may send connections to the descriptor that accompanies this message.
    Edge = b'e',
    /// The new server serves.
    Ready = b'r',
}

fn send(link: &OwnedFd, kind: MessageKind, edge: Option<&Sender>) -> io::Result<()> {
    let mut bytes = [0; SIZE];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
    bytes[10] = kind as u8;
    send_with_descriptor(link, &bytes, edge.map(AsFd::as_fd))
}

/// A message of the new server.
#[derive(Debug)]
enum Received {
    Edge(Sender),
    Ready,
    /// A message that this version does not know, or the socket of an edge of another version, which takes no connections from
    /// this version.
    Unknown,
    Nothing,
    End,
}

fn receive(link: &OwnedFd) -> Received {
    let mut bytes = [0; SIZE + 1];
    let (size, descriptor) = match receive_with_descriptor(link, &mut bytes) {
        Ok(received) => received,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Received::Nothing,
        Err(_) => return Received::End,
    };
    if size == 0 {
        return Received::End;
    }
    if size != SIZE || bytes[..8] != MAGIC {
        return Received::Unknown;
    }
    let same = bytes[8..10] == VERSION.to_le_bytes();
    match (bytes[10], descriptor) {
        (b'r', _) => Received::Ready,
        (b'e', Some(descriptor)) if same => Received::Edge(Sender::new(descriptor)),
        _ => Received::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oribi_ipc::handover::pair;
    use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};

    #[test]
    fn only_whole_messages_of_this_kind_are_understood() {
        let (one, other) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("sockets are to be had");
        let (edge, _receiver) = pair().expect("sockets are to be had");
        assert!(matches!(receive(&other), Received::Nothing));
        super::send(&one, MessageKind::Edge, Some(&edge)).expect("there is room");
        assert!(matches!(receive(&other), Received::Edge(_)));
        super::send(&one, MessageKind::Edge, None).expect("there is room");
        assert!(matches!(receive(&other), Received::Unknown), "without a descriptor");
        super::send(&one, MessageKind::Ready, None).expect("there is room");
        assert!(matches!(receive(&other), Received::Ready));
        let mut good = [0; SIZE];
        good[..8].copy_from_slice(&MAGIC);
        (good[8], good[10]) = (VERSION as u8, MessageKind::Edge as u8);
        for size in 1..SIZE {
            send(&one, &good[..size], SendFlags::NOSIGNAL).expect("there is room");
            assert!(matches!(receive(&other), Received::Unknown), "{size} bytes");
        }
        for (place, byte) in [(0, b'x'), (8, VERSION as u8 + 1), (10, b'?')] {
            let mut bytes = good;
            bytes[place] = byte;
            send_with_descriptor(&one, &bytes, Some(edge.as_fd())).expect("there is room");
            assert!(matches!(receive(&other), Received::Unknown), "byte {place}");
        }
        drop(one);
        assert!(matches!(receive(&other), Received::End));
    }
}
