//! Finds workers whose app has executed another program (exec). Only the process that forked the worker can notice that: the
//! pipe to the worker's program has lost its reader, but the process still exists. The clients of the worker get an error at
//! once, another worker is started, and the other program may run until `--graceful-timeout`, as any replaced worker.

use super::super::member::Member;
use super::super::server::Server;
use super::Workers;
use oribi_stats::totals::Counter;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::AsFd;

impl Workers<'_> {
    /// Finds workers that have become other programs, and requests their replacement.
    pub(super) fn look_for_other_programs(&mut self, server: &Server<'_>) {
        for member in self.members.iter_mut().filter(|member| !member.left && has_left(member)) {
            member.left = true;
            let process = member.pid.as_raw_nonzero().get().unsigned_abs();
            if !is_there(process) {
                continue;
            }
            log::error!(
                "worker {} (pid {process}) has become another program: an app must fork before it executes one (exec); the \
                 requests that it had are lost, and it is replaced",
                member.number
            );
            for pool in server.pools(0) {
                if let Err(error) = pool.report_executed(process) {
                    log::error!("the clients of worker {} wait until pid {process} ends: {error}", member.number);
                }
            }
            if member.slot.ask_for_replacement() {
                member.cause = Some(Counter::EndedByFailure);
            }
        }
    }
}

/// Whether the pipe to the worker has lost its reader, because the worker's program or process has ended.
fn has_left(member: &Member) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(member.waker.as_fd(), PollFlags::empty())];
    poll(&mut polled, Some(&Timespec::default())).is_ok() && polled[0].revents().contains(PollFlags::ERR)
}

/// Whether the process still has memory. A process that ends releases its memory before it closes its descriptors.
fn is_there(process: u32) -> bool {
    let size = std::fs::read_to_string(format!("/proc/{process}/statm"));
    size.is_ok_and(|size| size.split(' ').next().is_some_and(|pages| pages != "0"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_that_has_ended_is_not_there() {
        assert!(is_there(std::process::id()));
        let mut child = Command::new("true").spawn().expect("a program that ends");
        let pid = rustix::process::Pid::from_child(&child);
        let options = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        rustix::process::waitid(rustix::process::WaitId::Pid(pid), options).expect("it ends");
        assert!(!is_there(child.id()), "it has not been waited for");
        child.wait().expect("it has ended");
        assert!(!is_there(child.id()));
    }
}
