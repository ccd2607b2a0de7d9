//! The guardian: the first process of a server after an upgrade. Other programs know the server by the id of that process. So
//! it passes signals on to the current master, and ends with the exit status of the last master.

use super::super::signals;
use super::process_handle::ProcessHandle;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use rustix::process::{Pid, Signal, kill_process};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// The signals that the guardian passes on to the server.
const PASSED_ON: [Signal; 8] =
    [Signal::TERM, Signal::INT, Signal::QUIT, Signal::HUP, Signal::USR1, Signal::USR2, Signal::TTIN, Signal::TTOU];

/// A later master's end of the socket to the guardian.
#[derive(Debug)]
pub(in super::super) struct GuardianLink {
    socket: OwnedFd,
    guardian: i32,
}

impl GuardianLink {
    pub(super) fn new(socket: OwnedFd, guardian: i32) -> Self {
        Self { socket, guardian }
    }

    /// Returns the value of `ORIBI_GUARDIAN`.
    pub(super) fn describe(&self) -> String {
        format!("{}:{}", self.socket.as_raw_fd(), self.guardian)
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Returns the process id of the guardian.
    pub(super) fn process(&self) -> u32 {
        self.guardian.unsigned_abs()
    }

    /// Whether the guardian is `process`.
    pub(super) fn is(&self, process: i32) -> bool {
        self.guardian == process
    }

    /// Reports to the guardian that this process is the master now.
    pub(in super::super) fn report(&self) {
        // If the guardian has died, the master also stops: see [`Self::follow`].
        let _ = send(&self.socket, &std::process::id().to_ne_bytes(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    /// Makes this master stop when the guardian dies. Must be called when the previous master has ended, because only then is
    /// the guardian the parent of this process. Returns `false` if the guardian has died already.
    pub(in super::super) fn follow(&self) -> bool {
        let outcome = rustix::process::set_parent_process_death_signal(Some(Signal::QUIT));
        if let Err(error) = outcome {
            log::error!("cannot ask for a signal when the first process dies: {}", io::Error::from(error));
        }
        rustix::process::getppid().is_some_and(|parent| parent.as_raw_nonzero().get() == self.guardian)
    }
}

/// The masters that a guardian watches: the current one, and previous ones that still finish.
#[derive(Debug)]
pub(in super::super) struct WatchedMasters {
    present: ProcessHandle,
    finishing: Vec<ProcessHandle>,
    /// The socket on which each later master sends its process id.
    reports: OwnedFd,
    /// The exit status of the current master, if that has ended.
    status: Option<i32>,
}

/// Creates the socket between this process, as guardian, and later masters. Returns the guardian's end and the masters' end.
///
/// # Errors
/// The system refuses.
pub(in super::super) fn socket() -> io::Result<(OwnedFd, GuardianLink)> {
    let (own, given) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    Ok((own, GuardianLink { socket: given, guardian: rustix::process::getpid().as_raw_nonzero().get() }))
}

impl WatchedMasters {
    pub(in super::super) fn new(pid: Pid, reports: OwnedFd) -> Self {
        Self { present: ProcessHandle::of(pid), finishing: Vec::new(), reports, status: None }
    }

    /// Reads the reports of new masters, and updates the current master.
    fn receive_reports(&mut self) {
        let mut bytes = [0; 4];
        while matches!(recv(&self.reports, &mut bytes, RecvFlags::DONTWAIT), Ok((4, _))) {
            let next = i32::try_from(u32::from_ne_bytes(bytes)).ok().and_then(Pid::from_raw);
            if let Some(next) = next.filter(|next| *next != self.present.pid) {
                let before = std::mem::replace(&mut self.present, ProcessHandle::of(next));
                self.finishing.push(before);
                self.status = None;
            }
        }
    }

    /// Records the end of a process. Returns the exit status of the server if no master is left.
    pub(in super::super) fn note_end(&mut self, pid: Pid, status: i32) -> Option<i32> {
        self.receive_reports();
        let finishing = self.finishing.len();
        self.finishing.retain(|master| master.pid != pid);
        let present_ended = self.present.pid == pid || self.present.has_ended();
        if self.present.pid == pid {
            self.status = Some(status);
        } else if present_ended && self.finishing.len() < finishing {
            // The process was the parent of the current master, has waited for it, and has ended with the same exit status.
            self.status = self.status.or(Some(status));
        }
        self.status.filter(|_| present_ended && self.finishing.iter().all(ProcessHandle::has_ended))
    }

    /// Passes on the signals that have arrived: to the current master, or to the previous ones if it has ended. Returns whether
    /// one of the signals was to reopen logs.
    pub(in super::super) fn pass_signals_on(&mut self) -> bool {
        self.receive_reports();
        if !self.present.has_ended() {
            return pass_signals_on(&[self.present.pid]);
        }
        let left: Vec<Pid> = self.finishing.iter().filter(|master| !master.has_ended()).map(|master| master.pid).collect();
        pass_signals_on(&left)
    }
}

/// Passes the signals that have arrived on to `masters`. Returns whether one of the signals was to reopen logs.
pub(in super::super) fn pass_signals_on(masters: &[Pid]) -> bool {
    let mut reopen = false;
    for signal in PASSED_ON {
        for _ in 0..signals::take(signal) {
            reopen |= signal == Signal::USR1;
            masters.iter().for_each(|master| _ = kill_process(*master, signal));
        }
    }
    reopen
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    /// A process that ends when its input does.
    fn living() -> (Pid, Child) {
        let child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("it is everywhere");
        (Pid::from_raw(i32::try_from(child.id()).expect("it is a number")).expect("it is one"), child)
    }

    fn end((_, mut child): (Pid, Child)) {
        drop(child.stdin.take());
        child.wait().expect("it is a child");
    }

    fn report(link: &GuardianLink, pid: Pid) {
        send(&link.socket, &pid.as_raw_nonzero().get().to_ne_bytes(), SendFlags::NOSIGNAL).expect("there is room");
    }

    #[test]
    fn a_server_has_ended_when_the_latest_master_that_has_reported_has() {
        let (reports, link) = socket().expect("a socket");
        assert_eq!(link.describe(), format!("{}:{}", link.socket.as_raw_fd(), std::process::id()));
        let own = rustix::process::getpid();
        let first = living();
        let mut watched_masters = WatchedMasters::new(first.0, reports);
        link.report();
        let pid = first.0;
        end(first);
        assert_eq!(watched_masters.note_end(pid, 0), None, "this process is the master now");
        assert_eq!(watched_masters.note_end(own, 3), Some(3));
    }

    #[test]
    fn masters_that_finish_are_waited_for() {
        let (reports, link) = socket().expect("a socket");
        let (first, second) = (living(), living());
        let mut watched_masters = WatchedMasters::new(first.0, reports);
        report(&link, second.0);
        let pids = (first.0, second.0);
        end(second);
        assert_eq!(watched_masters.note_end(pids.1, 3), None, "the first one finishes");
        end(first);
        assert_eq!(watched_masters.note_end(pids.0, 0), Some(3));
    }

    #[test]
    fn the_status_of_a_master_that_another_one_has_waited_for_is_told_by_that_one() {
        let (reports, link) = socket().expect("a socket");
        let (first, second, stranger) = (living(), living(), living());
        let mut watched_masters = WatchedMasters::new(first.0, reports);
        report(&link, second.0);
        let (first_pid, stranger_pid) = (first.0, stranger.0);
        end(second);
        end(stranger);
        assert_eq!(watched_masters.note_end(stranger_pid, 5), None);
        end(first);
        assert_eq!(watched_masters.note_end(first_pid, 3), Some(3));
    }
}
