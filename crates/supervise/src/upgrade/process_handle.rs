//! A handle on a process that need not be a child of this one.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open, test_kill_process};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A process whose end can be noticed.
#[derive(Debug)]
pub(super) struct ProcessHandle {
    pub(super) pid: Pid,
    /// A pidfd, readable when the process has ended. `None` on systems without pidfds, or if the process had ended before.
    process: Option<OwnedFd>,
}

impl ProcessHandle {
    pub(super) fn of(pid: Pid) -> Self {
        Self { pid, process: pidfd_open(pid, PidfdFlags::empty()).ok() }
    }

    /// Whether the process has ended, even if another process has collected its exit status.
    pub(super) fn has_ended(&self) -> bool {
        match &self.process {
            Some(process) => {
                let mut polled = [PollFd::new(process, PollFlags::IN)];
                poll(&mut polled, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
            }
            None => test_kill_process(self.pid) == Err(Errno::SRCH),
        }
    }

    /// Returns the descriptor that is readable when the process has ended.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.process.as_ref().map(AsFd::as_fd)
    }
}
