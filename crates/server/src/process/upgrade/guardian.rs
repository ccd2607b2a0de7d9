//! The first process of a server after an upgrade. Whoever has started it knows the server by its number, so it passes signals on to
//! the present master, and ends when that does, with its status.

use super::super::signals;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use rustix::process::{Pid, Signal, kill_process};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// The signals that are meant for the server.
const PASSED_ON: [Signal; 8] =
    [Signal::TERM, Signal::INT, Signal::QUIT, Signal::HUP, Signal::USR1, Signal::USR2, Signal::TTIN, Signal::TTOU];

/// A later master's end of the socket to its guardian.
#[derive(Debug)]
pub(in super::super) struct GuardianLink {
    socket: OwnedFd,
    guardian: i32,
}

impl GuardianLink {
    pub(super) fn new(socket: OwnedFd, guardian: i32) -> Self {
        Self { socket, guardian }
    }

    /// The value of `ORIBI_GUARDIAN`.
    pub(super) fn describe(&self) -> String {
        format!("{}:{}", self.socket.as_raw_fd(), self.guardian)
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The guardian.
    pub(super) fn process(&self) -> u32 {
        self.guardian.unsigned_abs()
    }

    /// Whether the guardian is this process.
    pub(super) fn is(&self, process: i32) -> bool {
        self.guardian == process
    }

    /// Says that this process is the master now.
    pub(in super::super) fn report(&self) {
        // If the guardian has died, the master ends, too.
        let _ = send(&self.socket, &std::process::id().to_ne_bytes(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    /// Asks the system to have this master stop when the guardian dies. Call this when the master before has ended, because only
    /// then the guardian is the parent. `false`: it has died already.
    pub(in super::super) fn follow(&self) -> bool {
        let asked = rustix::process::set_parent_process_death_signal(Some(Signal::QUIT));
        if let Err(error) = asked {
            log::error!("cannot ask for a signal when the first process dies: {}", io::Error::from(error));
        }
        rustix::process::getppid().is_some_and(|parent| parent.as_raw_nonzero().get() == self.guardian)
    }
}

/// A guardian's ward: the present master.
#[derive(Debug)]
pub(in super::super) struct Ward {
    pid: Pid,
    /// Each later master sends its process id.
    reports: OwnedFd,
}

/// Both ends of the socket to a guardian, which this process is.
///
/// # Errors
/// The system refuses.
pub(in super::super) fn socket() -> io::Result<(OwnedFd, GuardianLink)> {
    let (own, given) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    Ok((own, GuardianLink { socket: given, guardian: rustix::process::getpid().as_raw_nonzero().get() }))
}

impl Ward {
    pub(in super::super) fn new(pid: Pid, reports: OwnedFd) -> Self {
        Self { pid, reports }
    }

    /// Whether `pid` is the present master.
    pub(in super::super) fn is(&mut self, pid: Pid) -> bool {
        let mut bytes = [0; 4];
        while matches!(recv(&self.reports, &mut bytes, RecvFlags::DONTWAIT), Ok((4, _))) {
            if let Some(next) = i32::try_from(u32::from_ne_bytes(bytes)).ok().and_then(Pid::from_raw) {
                self.pid = next;
            }
        }
        self.pid == pid
    }

    /// Passes on the signals that have arrived. Returns whether one of them was for those who have logs open.
    pub(in super::super) fn pass_signals_on(&mut self) -> bool {
        // A later master may have reported.
        let _ = self.is(self.pid);
        pass_signals_on(self.pid)
    }
}

/// Passes the signals that have arrived on to `master`. Returns whether one of them was for those who have logs open.
pub(in super::super) fn pass_signals_on(master: Pid) -> bool {
    let mut reopen = false;
    for signal in PASSED_ON {
        for _ in 0..signals::take(signal) {
            reopen |= signal == Signal::USR1;
            let _ = kill_process(master, signal);
        }
    }
    reopen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_master_that_has_reported_is_the_ward() {
        let (reports, link) = socket().expect("a socket");
        let own = rustix::process::getpid();
        let other = Pid::from_raw(1).expect("there is one");
        let mut ward = Ward::new(other, reports);
        assert!(ward.is(other) && !ward.is(own));
        link.report();
        assert!(ward.is(own) && !ward.is(other));
        assert_eq!(link.describe(), format!("{}:{}", link.socket.as_raw_fd(), std::process::id()));
    }
}
