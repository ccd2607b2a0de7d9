//! The new server, as the old server sees it, until the new one serves.

use super::super::inheritable::Inheritable;
use super::super::inheritance::{
    APP_METRICS, GUARDIAN, HISTORY, LISTENERS, METRICS, ROUTE_TOTALS, SCALED, TOTALS, UPGRADE, VAULT, describe,
};
use super::super::outbox;
use super::super::scaled::Scaled;
use super::super::server_totals::ServerTotals;
use super::guardian::GuardianLink;
use super::process_handle::ProcessHandle;
use super::program::Program;
use super::{Received, receive};
use oribi_admin::metrics::Metrics;
use oribi_io::process::spawn_sibling;
use oribi_ipc::handover::Sender;
use oribi_ipc::posts::PostBoxes;
use oribi_listen::{Listener, Vault};
use oribi_stats::app_metrics::AppMetricTotals;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// The interval at which this process, before it ends, checks for the end of a given-up server.
const LOOK: Duration = Duration::from_millis(20);

/// The relation of a new server's process to this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Kinship {
    /// A child of this process.
    Child,
    /// A child of this process's parent, which is the service manager.
    Sibling,
}

/// A new server that does not serve yet.
#[derive(Debug)]
pub(in super::super) struct Successor {
    pub(in super::super) pid: Pid,
    /// If the new server is a sibling of this process: a handle, because the system does not report its end.
    sibling: Option<ProcessHandle>,
    link: OwnedFd,
    /// The destinations of connections that the new server has named so far.
    edges: Vec<Sender>,
    late_at: Instant,
}

/// The progress of the start of a new server.
#[derive(Debug)]
pub(in super::super) enum SuccessorProgress {
    Loading,
    /// The new server serves. Connections may go to these edges. If there are none, the new server takes no connections of this
    /// version, or has no edges.
    Serves(Vec<Sender>),
    /// The new server takes too long.
    Late,
    /// The new server has ended, and is no child of this process, whose end the system reports.
    Ended,
}

/// All that the new server inherits.
#[derive(Clone, Copy)]
pub(in super::super) struct Estate<'a> {
    pub(in super::super) listeners: &'a [Listener],
    pub(in super::super) totals: &'a ServerTotals,
    pub(in super::super) metrics: Option<&'a Metrics>,
    /// The boxes of the edges.
    pub(in super::super) boxes: Option<&'a PostBoxes>,
    /// The number of workers that was set.
    pub(in super::super) scaled: Option<Scaled>,
}

impl Successor {
    /// Starts `program`, which inherits the estate. The new server has the time `limit` to load its app and to serve. `kinship`: whose
    /// child it becomes.
    ///
    /// # Errors
    /// The system refuses, or the program does not exist.
    pub(in super::super) fn start(
        program: &Program,
        guardian: Option<&GuardianLink>,
        Estate { listeners, totals, metrics, boxes, scaled }: Estate<'_>,
        (limit, kinship): (Duration, Kinship),
    ) -> io::Result<Self> {
        let (link, given) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let mut command = program.command();
        command.env(UPGRADE, format!("{}:{}", given.as_raw_fd(), std::process::id()));
        command.env(LISTENERS, describe(listeners));
        // Clients of this server can resume their TLS sessions at the new server.
        let vault = Vault::fill(listeners)?;
        if let Some(vault) = &vault {
            command.env(VAULT, vault.as_raw_fd().to_string());
        }
        if let Some(guardian) = guardian {
            command.env(GUARDIAN, guardian.describe());
        }
        if let Some(scaled) = scaled {
            command.env(SCALED, scaled.describe());
        }
        let app_metrics = totals.app_metric_totals().and_then(AppMetricTotals::descriptor);
        let totals = totals.totals();
        let counted =
            [(TOTALS, totals.descriptor()), (ROUTE_TOTALS, totals.descriptor_of_routes()), (APP_METRICS, app_metrics)];
        for (name, file) in counted.iter().filter_map(|(name, file)| Some((name, file.as_ref()?))) {
            command.env(name, file.as_raw_fd().to_string());
        }
        let left = metrics.map(Metrics::left).filter(|(_, listeners)| !listeners.is_empty());
        if let Some((address, listeners)) = &left {
            command.env(METRICS, format!("{address} {}", describe(listeners)));
        }
        let history = metrics.and_then(Metrics::history);
        if let Some(file) = history {
            command.env(HISTORY, file.as_raw_fd().to_string());
        }
        if let Some(boxes) = boxes {
            outbox::describe_boxes(boxes, &mut command);
        }
        let pid = {
            let of_metrics = left.iter().flat_map(|(_, listeners)| *listeners);
            let sockets = listeners.iter().chain(of_metrics).flat_map(Listener::sockets).chain([&given]).map(AsFd::as_fd);
            let _inherited = Inheritable::new(
                sockets
                    .chain(guardian.map(GuardianLink::socket))
                    .chain(counted.iter().filter_map(|(_, file)| *file))
                    .chain(history)
                    .chain(boxes.into_iter().flat_map(PostBoxes::descriptors).flatten())
                    .chain(vault.as_ref().map(AsFd::as_fd)),
            )?;
            match kinship {
                Kinship::Sibling => spawn_sibling(&mut command)?,
                Kinship::Child => {
                    let pid = i32::try_from(command.spawn()?.id()).ok().and_then(Pid::from_raw);
                    pid.ok_or_else(|| io::Error::other("the system returned no process id"))?
                }
            }
        };
        let sibling = (kinship == Kinship::Sibling).then(|| ProcessHandle::of(pid));
        Ok(Self { pid, sibling, link, edges: Vec::new(), late_at: Instant::now() + limit })
    }

    /// Returns the progress of the start, after the messages since the last call.
    pub(in super::super) fn progress(&mut self, now: Instant) -> SuccessorProgress {
        loop {
            match receive(&self.link) {
                Received::Edge(edge) => self.edges.push(edge),
                Received::Ready => return SuccessorProgress::Serves(std::mem::take(&mut self.edges)),
                Received::Unknown => {}
                Received::Nothing | Received::End if self.has_ended() => return SuccessorProgress::Ended,
                // If the new process has ended, the system reports that.
                Received::Nothing | Received::End if now >= self.late_at => return SuccessorProgress::Late,
                Received::Nothing | Received::End => return SuccessorProgress::Loading,
            }
        }
    }

    /// Whether the new server has ended, if it is no child of this process. The end of a child is reported by the system.
    pub(super) fn has_ended(&self) -> bool {
        self.sibling.as_ref().is_some_and(ProcessHandle::has_ended)
    }

    /// Returns the descriptor that is readable when a sibling of this process has ended.
    pub(super) fn end_descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.sibling.as_ref().and_then(ProcessHandle::descriptor)
    }

    /// Returns the time from which the start of the new server takes too long.
    pub(in super::super) fn late_at(&self) -> Instant {
        self.late_at
    }

    /// Returns the descriptor that is readable when the new server has sent a message.
    pub(in super::super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }

    /// Sends the new server TERM. It is killed if it has not ended after `patience`.
    pub(super) fn dismiss(self, patience: Duration) -> Dismissed {
        // If the new server has just begun to serve, it finishes its requests.
        if !self.has_ended() {
            let _ = kill_process(self.pid, Signal::TERM);
        }
        Dismissed { pid: self.pid, sibling: self.sibling, end_at: Instant::now() + patience, ended: false }
    }
}

/// A server that was given up, and has not been waited for.
#[derive(Debug)]
pub(in super::super) struct Dismissed {
    pub(super) pid: Pid,
    sibling: Option<ProcessHandle>,
    end_at: Instant,
    ended: bool,
}

impl Dismissed {
    /// Returns the time when the server is killed.
    pub(super) fn end_at(&self) -> Instant {
        self.end_at
    }

    /// Kills the server if it has not ended in time.
    pub(super) fn end_if_late(&mut self, now: Instant) {
        if now >= self.end_at && !self.has_ended() && !std::mem::replace(&mut self.ended, true) {
            log::warn!("the server that was given up (pid {}) has not ended and is killed", self.pid);
            // A child has not been waited for, and a sibling lives, so its process id cannot belong to another process.
            let _ = kill_process(self.pid, Signal::KILL);
        }
    }

    /// Whether the server has ended, if it is no child of this process.
    pub(super) fn has_ended(&self) -> bool {
        self.sibling.as_ref().is_some_and(ProcessHandle::has_ended)
    }

    /// Waits for the end of the server, and kills it if that takes too long.
    pub(super) fn wait(mut self) {
        let is_left = |server: &Self| match &server.sibling {
            Some(sibling) => !sibling.has_ended(),
            None => matches!(waitpid(Some(server.pid), WaitOptions::NOHANG), Ok(None) | Err(Errno::INTR)),
        };
        while is_left(&self) {
            self.end_if_late(Instant::now());
            std::thread::sleep(LOOK);
        }
    }
}
