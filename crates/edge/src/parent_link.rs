//! Messages between an edge and its parent process: descriptors for the edge, and requests of the edge to stop or signal a
//! worker.
//!
//! The parent process has forked the edge: it is the master, or the supervisor without a master. An edge must not kill or
//! signal processes itself. With `--user` it lacks the permission, and a process id from shared memory may be that of any
//! process. The parent process fulfils a request only if the process is a worker of this server.

use crate::plan::PlanReader;
use crate::routes::{LimitMemory, Routes};
use crate::sandbox::Sandbox;
use oribi_config::Settings;
use oribi_ipc::handover::{
    MOST_DESCRIPTORS, Receiver, Sender, receive_with_descriptors, send_with_descriptor, send_with_descriptors,
};
use oribi_ipc::posts::PostBoxes;
use oribi_listen::{ListenSocket, Shard};
use oribi_pool::{Memory, Shape};
use oribi_worker::lane::LaneSetup;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

/// The parameters of an edge.
#[derive(Clone, Copy, Debug)]
pub struct EdgeSetup<'a> {
    /// The settings; the listeners, with the sockets at which the edge accepts; the edge's slot; and the pipe that announces
    /// a command in the slot. Commands mean the same as for a worker: a request in the queue counts as accepted.
    pub lane: LaneSetup<'a>,
    /// The sockets at which the edge accepts, in place of those of `lane`.
    pub listen_sockets: &'a RefCell<Vec<ListenSocket<'static>>>,
    /// The part of the sockets that this edge has of each listener.
    pub shard: Shard,
    /// The apps whose requests the edge queues.
    pub apps: &'a [EdgeApp<'a>],
    /// The routes; `None`: the first app answers all requests.
    pub routes: Option<&'a Arc<Routes>>,
    /// The memory of the limits of this and all earlier plans.
    pub limit_memory: &'a LimitMemory,
    /// Reads later plans; `None`: there are none.
    pub plan_reader: Option<&'a dyn PlanReader>,
    /// The number of this edge, counted from 0.
    pub number: usize,
    /// Whether another edge has used this memory before. Then this edge takes over the workers.
    pub takes_over: bool,
    /// The socket to the parent process, which stops and signals workers for this edge.
    pub parent_link: &'a ParentLink,
    /// The source of connections that an edge of the previous server hands over, if there is one.
    pub handed: Option<&'a Receiver>,
    /// The boxes through which edges pass messages to each other.
    pub posts: &'a PostBoxes,
    /// The sandbox that the edge enters before it serves; `None` to keep all rights of its user.
    pub sandbox: Option<&'a Sandbox>,
}

impl<'a> EdgeSetup<'a> {
    /// Returns the directories of files that routes and apps send.
    pub(crate) fn directories(&self) -> impl Iterator<Item = &'a Path> {
        let of_apps = self.apps.iter().flat_map(|app| &app.settings.files.mounts).map(|mount| mount.directory.as_path());
        of_apps.chain(self.routes.into_iter().flat_map(|routes| routes.directories()))
    }
}

/// An app at an edge.
#[derive(Clone, Copy, Debug)]
pub struct EdgeApp<'a> {
    /// The settings of the app.
    pub settings: &'a Settings,
    /// The memory that the edge shares with all workers of the app, and with no other edge.
    pub memory: &'a Memory,
}

/// The reason for a request about a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Reason {
    /// The app has exceeded its deadline and does not react: stop the worker.
    Stuck = 1,
    /// The worker has written invalid data: kill the worker.
    Broken = 2,
    /// The app takes long, and the edge has left a warning in the worker's orders: send the signal that makes the worker read
    /// its orders.
    Slow = 3,
    /// There is a request for an app that is asleep: start a worker. The message has the index of the app in place of a process
    /// id.
    Asleep = 4,
    /// The edge can serve by a plan. The process is the number of the plan.
    Prepared = 5,
    /// The edge cannot serve by a plan, and its log has the reason. The process is the number of the plan.
    Refused = 6,
    /// The edge serves by a plan from now on. The process is the number of the plan.
    Swapped = 7,
    /// The edge has removed stored responses. The process is their number.
    Purged = 8,
}

impl Reason {
    const fn from_number(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Stuck),
            2 => Some(Self::Broken),
            3 => Some(Self::Slow),
            4 => Some(Self::Asleep),
            5 => Some(Self::Prepared),
            6 => Some(Self::Refused),
            7 => Some(Self::Swapped),
            8 => Some(Self::Purged),
            _ => None,
        }
    }
}

/// A request to end or signal a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerRequest {
    /// The process id of the worker, according to the edge; for [`Reason::Asleep`] the index of the app.
    pub process: u32,
    /// The reason for the request.
    pub reason: Reason,
}

impl WorkerRequest {
    /// The size of a message in bytes.
    pub const SIZE: usize = 8;

    /// Encodes the message for the socket.
    pub fn to_bytes(self) -> [u8; Self::SIZE] {
        (u64::from(self.process) << 32 | u64::from(self.reason as u32)).to_ne_bytes()
    }

    /// Decodes a message; `None` if it is invalid.
    pub fn from_bytes(bytes: [u8; Self::SIZE]) -> Option<Self> {
        let number = u64::from_ne_bytes(bytes);
        Some(Self { process: (number >> 32) as u32, reason: Reason::from_number(number as u32)? })
    }
}

/// A descriptor from the parent process, by its purpose.
#[derive(Debug)]
pub(crate) enum Received {
    /// The destination of the edge's connections.
    Successor(Sender),
    /// The error log, opened again.
    ErrorLog(OwnedFd),
    /// The access log, opened again.
    AccessLog(OwnedFd),
    /// The certificates and keys, read again.
    Certificates(OwnedFd),
    /// The files of users, read again.
    Users(OwnedFd),
    /// The memory for the limits of the next plan that have none yet.
    LimitMemory(OwnedFd),
    /// A plan, to be prepared.
    Plan(OwnedFd),
    /// A part of the descriptors of the memory of one more app: its place and its shape.
    Pool([u32; POOL_WORDS], Vec<OwnedFd>),
    /// Serve by the prepared plan with this number.
    Commit(u32),
    /// Forget the prepared plan.
    Cancel,
    /// The change of listeners that belongs to the next plan, and its sockets.
    Listeners(Vec<OwnedFd>),
    /// The listener with this number ends: see [`oribi_engine::Engine::end_listeners`].
    EndListener(u32),
    /// Remove stored responses: a file with the number of the app and the target.
    Purge(OwnedFd),
}

/// The kinds of messages from the parent process. The kind is the first byte of a message.
const SUCCESSOR: u8 = 0;
const ERROR_LOG: u8 = 1;
const ACCESS_LOG: u8 = 2;
const CERTIFICATES: u8 = 3;
const USERS: u8 = 4;
const LIMIT_MEMORY: u8 = 5;
const PLAN: u8 = 6;
const POOL: u8 = 7;
const COMMIT: u8 = 8;
const CANCEL: u8 = 9;
const LISTENERS: u8 = 10;
const END_LISTENER: u8 = 11;
const PURGE: u8 = 12;

/// The numbers in a message about memory: the place of the app, the five of the shape, and the number of all descriptors.
pub(crate) const POOL_WORDS: usize = 7;

/// The size of the longest message.
const LONGEST: usize = 1 + 4 * POOL_WORDS;

/// The edge's end of the socket to its parent process.
#[derive(Debug)]
pub struct ParentLink(OwnedFd);

impl ParentLink {
    /// Asks the parent process to stop or signal the worker `process` at once. Returns whether the request was sent. It is
    /// not sent if too many requests wait already, or if the parent process has ended.
    pub(crate) fn request_action(&self, process: u32, reason: Reason) -> bool {
        send(&self.0, &WorkerRequest { process, reason }.to_bytes(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL).is_ok()
    }

    /// Reports to the parent process how far a plan is. Returns whether the report was sent.
    pub(crate) fn report(&self, plan: u32, reason: Reason) -> bool {
        self.request_action(plan, reason)
    }

    /// Returns the next message, if one has arrived from the parent process.
    pub(crate) fn next(&self) -> Option<Received> {
        loop {
            let mut bytes = [0; LONGEST];
            let (size, descriptors) = receive_with_descriptors(&self.0, &mut bytes).ok()?;
            if size == 0 {
                return None;
            }
            let word = |index: usize| bytes[1 + 4 * index..].first_chunk().map_or(0, |word| u32::from_ne_bytes(*word));
            let mut descriptors = descriptors.into_iter();
            let given = match (bytes[0], size) {
                (POOL, LONGEST) => return Some(Received::Pool(std::array::from_fn(word), descriptors.collect())),
                (COMMIT, 5) => return Some(Received::Commit(word(0))),
                (CANCEL, 1) => return Some(Received::Cancel),
                (LISTENERS, 1) => return Some(Received::Listeners(descriptors.collect())),
                (END_LISTENER, 5) => return Some(Received::EndListener(word(0))),
                _ => descriptors.next(),
            };
            let Some(descriptor) = given else { continue };
            match bytes[0] {
                SUCCESSOR => return Some(Received::Successor(Sender::new(descriptor))),
                ERROR_LOG => return Some(Received::ErrorLog(descriptor)),
                ACCESS_LOG => return Some(Received::AccessLog(descriptor)),
                CERTIFICATES => return Some(Received::Certificates(descriptor)),
                USERS => return Some(Received::Users(descriptor)),
                LIMIT_MEMORY => return Some(Received::LimitMemory(descriptor)),
                PLAN => return Some(Received::Plan(descriptor)),
                PURGE => return Some(Received::Purge(descriptor)),
                _ => {}
            }
        }
    }
}

/// The parent's end of the socket to an edge.
#[derive(Debug)]
pub struct EdgeLink {
    socket: OwnedFd,
    /// Whether the edge has closed its end.
    ended: Cell<bool>,
}

impl EdgeLink {
    /// Returns the socket, which is readable when the edge has sent a request. `None` after [`Self::next`] has seen the end
    /// of the socket: the socket would stay readable, and keep waking the parent, until the edge's process has ended.
    pub fn arrival(&self) -> Option<BorrowedFd<'_>> {
        (!self.ended.get()).then(|| self.socket.as_fd())
    }

    /// Returns the next request, if one has arrived.
    pub fn next(&self) -> Option<WorkerRequest> {
        loop {
            let mut bytes = [0; WorkerRequest::SIZE];
            match recv(&self.socket, &mut bytes, RecvFlags::DONTWAIT) {
                Ok((WorkerRequest::SIZE, _)) => {}
                // Messages of other lengths are invalid, and are ignored.
                Ok((1.., _)) | Err(Errno::INTR) => continue,
                Ok((0, _)) => {
                    self.ended.set(true);
                    return None;
                }
                Err(_) => return None,
            }
            if let Some(request) = WorkerRequest::from_bytes(bytes) {
                return Some(request);
            }
        }
    }
}

impl EdgeLink {
    /// Sends the edge the destination for its connections.
    ///
    /// # Errors
    /// The edge has ended.
    pub fn name_successor(&self, successor: &Sender) -> io::Result<()> {
        self.give(SUCCESSOR, successor.as_fd())
    }

    /// Sends the edge the reopened error log: perhaps the edge's user may not open it, and in a sandbox no edge can.
    ///
    /// # Errors
    /// The edge has ended, or does not read from the socket.
    pub fn give_error_log(&self, log: BorrowedFd<'_>) -> io::Result<()> {
        self.give(ERROR_LOG, log)
    }

    /// Sends the edge the reopened access log.
    ///
    /// # Errors
    /// The edge has ended, or does not read from the socket.
    pub fn give_access_log(&self, log: BorrowedFd<'_>) -> io::Result<()> {
        self.give(ACCESS_LOG, log)
    }

    /// Sends the edge certificates and keys, which perhaps only the parent process may read.
    ///
    /// # Errors
    /// The edge has ended, or does not read from the socket.
    pub fn give_certificates(&self, vault: BorrowedFd<'_>) -> io::Result<()> {
        self.give(CERTIFICATES, vault)
    }

    /// Sends the edge the users of routes, whose files perhaps only the parent process may read.
    ///
    /// # Errors
    /// The edge has ended, or does not read from the socket.
    pub fn give_users(&self, users: BorrowedFd<'_>) -> io::Result<()> {
        self.give(USERS, users)
    }

    /// Sends the edge a plan, and the memory for its limits that have none yet. It reports whether it can serve by the plan.
    ///
    /// # Errors
    /// The edge has ended, or does not read from the socket.
    pub fn give_plan(&self, plan: BorrowedFd<'_>, limits: Option<BorrowedFd<'_>>) -> io::Result<()> {
        limits.map_or(Ok(()), |limits| self.give(LIMIT_MEMORY, limits))?;
        self.give(PLAN, plan)
    }

    /// Makes the edge serve by the plan with this number, which it has prepared.
    ///
    /// # Errors
    /// The edge has ended, or does not read from the socket.
    pub fn commit(&self, plan: u32) -> io::Result<()> {
        self.send_number(COMMIT, plan)
    }

    /// Sends the edge the change of listeners that belongs to the next plan: the descriptors of
    /// [`SentListeners::descriptors`](oribi_listen::SentListeners::descriptors).
    ///
    /// # Errors
    /// The edge has ended, or does not read from the socket.
    pub fn give_listeners(&self, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        send_with_descriptors(&self.socket, &[LISTENERS], descriptors)
    }

    /// Makes the edge end the listener with this number: it accepts the connections that wait there, and no others.
    ///
    /// # Errors
    /// The edge has ended, or does not read from the socket.
    pub fn end_listener(&self, number: u32) -> io::Result<()> {
        self.send_number(END_LISTENER, number)
    }

    /// Makes the edge remove stored responses: see [`crate::purging`]. It reports their number.
    ///
    /// # Errors
    /// The edge has ended, or does not read from the socket.
    pub fn purge(&self, choice: BorrowedFd<'_>) -> io::Result<()> {
        self.give(PURGE, choice)
    }

    fn send_number(&self, kind: u8, number: u32) -> io::Result<()> {
        let [one, two, three, four] = number.to_ne_bytes();
        send_with_descriptor(&self.socket, &[kind, one, two, three, four], None)
    }

    /// Makes the edge forget a plan that it has prepared.
    ///
    /// # Errors
    /// The edge has ended, or does not read from the socket.
    pub fn cancel(&self) -> io::Result<()> {
        send_with_descriptor(&self.socket, &[CANCEL], None)
    }

    /// Sends the edge the memory of one more app, which gets the index `app`. `from`: how many descriptors the edge has already.
    /// Returns how many it has then; this is complete when it has all of [`Memory::edge_descriptors`].
    ///
    /// # Errors
    /// The edge has ended, or does not read from the socket.
    pub fn give_pool(&self, app: u32, memory: &Memory, from: usize) -> io::Result<usize> {
        let all: Vec<BorrowedFd<'_>> = memory.edge_descriptors().collect();
        let part = &all[from.min(all.len())..all.len().min(from + MOST_DESCRIPTORS)];
        let Shape { slots, request_bytes, workers, areas, area_bytes } = memory.shape();
        let total = u32::try_from(all.len()).unwrap_or(u32::MAX);
        let words = [app, slots, request_bytes, workers, areas, area_bytes, total];
        let mut bytes = vec![POOL];
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        send_with_descriptors(&self.socket, &bytes, part)?;
        Ok(from + part.len())
    }

    fn give(&self, kind: u8, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        send_with_descriptor(&self.socket, &[kind], Some(descriptor))
    }
}

/// Creates the socket between an edge and its parent process. The socket preserves the boundaries of messages.
///
/// # Errors
/// The operating system refuses.
pub fn socket() -> io::Result<(EdgeLink, ParentLink)> {
    let (own, edges) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    Ok((EdgeLink { socket: own, ended: Cell::new(false) }, ParentLink(edges)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pleas_arrive_and_anything_else_is_passed_over() {
        let (edge_link, parent_link) = socket().expect("a socket");
        assert_eq!(edge_link.next(), None);
        assert!(parent_link.request_action(77, Reason::Stuck));
        send(&parent_link.0, &[7; 8], SendFlags::NOSIGNAL).expect("it is open");
        assert!(parent_link.request_action(78, Reason::Broken) && parent_link.request_action(80, Reason::Slow));
        assert_eq!(edge_link.next(), Some(WorkerRequest { process: 77, reason: Reason::Stuck }));
        assert_eq!(edge_link.next(), Some(WorkerRequest { process: 78, reason: Reason::Broken }));
        assert_eq!(edge_link.next(), Some(WorkerRequest { process: 80, reason: Reason::Slow }));
        assert!(parent_link.request_action(199, Reason::Asleep));
        assert_eq!(edge_link.next(), Some(WorkerRequest { process: 199, reason: Reason::Asleep }));
        assert_eq!(edge_link.next(), None);
        drop(edge_link);
        assert!(!parent_link.request_action(79, Reason::Stuck), "the keeper is gone");
    }

    #[test]
    fn what_is_given_arrives_and_anything_else_is_passed_over() {
        let (edge_link, parent_link) = socket().expect("a socket");
        assert!(parent_link.next().is_none());
        let file = std::fs::File::open("/dev/null").expect("it is there");
        edge_link.give(77, file.as_fd()).expect("there is room");
        send_with_descriptor(&edge_link.socket, &[ACCESS_LOG], None).expect("there is room");
        edge_link.give_error_log(file.as_fd()).expect("there is room");
        edge_link.give_access_log(file.as_fd()).expect("there is room");
        edge_link.give_certificates(file.as_fd()).expect("there is room");
        let (successor, _receiver) = oribi_ipc::handover::pair().expect("sockets");
        edge_link.name_successor(&successor).expect("there is room");
        assert!(matches!(parent_link.next(), Some(Received::ErrorLog(_))));
        assert!(matches!(parent_link.next(), Some(Received::AccessLog(_))));
        assert!(matches!(parent_link.next(), Some(Received::Certificates(_))));
        assert!(matches!(parent_link.next(), Some(Received::Successor(_))));
        assert!(parent_link.next().is_none());
        drop(edge_link);
        assert!(parent_link.next().is_none());
    }

    #[test]
    fn an_edge_that_has_closed_its_end_is_not_watched() {
        let (edge_link, parent_link) = socket().expect("a socket");
        assert!(parent_link.request_action(77, Reason::Stuck));
        drop(parent_link);
        assert!(edge_link.next().is_some() && edge_link.arrival().is_some());
        assert!(edge_link.next().is_none() && edge_link.arrival().is_none());
    }
}
