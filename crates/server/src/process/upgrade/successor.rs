//! The old master's view of the new one, until that serves.

use super::super::inheritable::Inheritable;
use super::super::inheritance::{LISTENERS, UPGRADE, describe};
use super::guardian::GuardianLink;
use super::program::Program;
use super::{GUARDIAN, Heard, TOTALS, hear};
use crate::handover::Sender;
use crate::listen::Listener;
use crate::totals::Totals;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, Signal, kill_process};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long the new server may take to load its app and to serve.
const LIMIT: Duration = Duration::from_secs(300);

/// A new master that does not serve yet.
#[derive(Debug)]
pub(in super::super) struct Successor {
    pub(in super::super) pid: Pid,
    link: OwnedFd,
    /// Where connections may go.
    edges: Vec<Sender>,
    late_at: Instant,
}

/// What has become of it.
#[derive(Debug)]
pub(in super::super) enum Progress {
    Loading,
    /// It serves. Connections may go to these edges; if there are none, its version takes none, or it has no edges.
    Serves(Vec<Sender>),
    /// It takes too long.
    Late,
}

impl Successor {
    /// Starts `program`, which inherits the listeners.
    ///
    /// # Errors
    /// The system refuses, or there is no such program.
    pub(in super::super) fn start(
        program: &Program,
        listeners: &[Listener],
        guardian: Option<&GuardianLink>,
        totals: &Totals,
    ) -> io::Result<Self> {
        let (link, given) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let mut command = program.command();
        command.env(UPGRADE, format!("{}:{}", given.as_raw_fd(), std::process::id()));
        command.env(LISTENERS, describe(listeners));
        // It is the process that the service manager watches from then on.
        command.env_remove("WATCHDOG_PID").env_remove(GUARDIAN).env_remove(TOTALS);
        if let Some(guardian) = guardian {
            command.env(GUARDIAN, guardian.describe());
        }
        if let Some(file) = totals.descriptor() {
            command.env(TOTALS, file.as_raw_fd().to_string());
        }
        let spawned = {
            let sockets = listeners.iter().flat_map(Listener::sockets).chain([&given]).map(AsFd::as_fd);
            let _inherited = Inheritable::new(sockets.chain(guardian.map(GuardianLink::socket)).chain(totals.descriptor()))?;
            command.spawn()?
        };
        let pid = i32::try_from(spawned.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("the system gave a process no number"))?;
        Ok(Self { pid, link, edges: Vec::new(), late_at: Instant::now() + LIMIT })
    }

    /// What it has said since the last call.
    pub(in super::super) fn progress(&mut self, now: Instant) -> Progress {
        loop {
            match hear(&self.link) {
                Heard::Edge(edge) => self.edges.push(edge),
                Heard::Ready => return Progress::Serves(std::mem::take(&mut self.edges)),
                Heard::Unknown => {}
                // Its end is told by the system.
                Heard::Nothing | Heard::End if now >= self.late_at => return Progress::Late,
                Heard::Nothing | Heard::End => return Progress::Loading,
            }
        }
    }

    /// When it takes too long.
    pub(in super::super) fn late_at(&self) -> Instant {
        self.late_at
    }

    /// Readable when it has said something.
    pub(in super::super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }

    /// Ends it.
    pub(in super::super) fn end(&self) {
        // It has not been waited for, so its process id cannot belong to another process.
        let _ = kill_process(self.pid, Signal::KILL);
    }
}
