//! Forking and ending.
#![allow(unsafe_code)]

use rustix::process::Pid;
use std::io;

/// Which of the two a process is after [`fork`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fork {
    /// The new process.
    Child,
    /// The process that called, and its new child.
    Parent(Pid),
}

impl Fork {
    /// From what fork(2) returns when it succeeds: 0 in the child, in the parent the child's process id.
    #[must_use]
    pub fn from_return(pid: u32) -> Self {
        i32::try_from(pid).ok().and_then(Pid::from_raw).map_or(Self::Child, Self::Parent)
    }
}

/// Makes a copy of this process.
///
/// # Errors
/// The system's refusal, or that this process has several threads: in the copy, locks held by the others (the allocator's, the
/// language runtime's) would stay locked for ever.
pub fn fork() -> io::Result<Fork> {
    let threads = std::fs::read_dir("/proc/self/task")
        .map_err(|error| io::Error::new(error.kind(), format!("cannot count threads in /proc/self/task: {error}")))?
        .count();
    if threads != 1 {
        let message = format!("this process has {threads} threads; one that forks must have a single one");
        return Err(io::Error::other(message));
    }
    // SAFETY: the calling thread is the only one, as was just counted, and only it could start another. So the child has every
    // thread that the parent has, and may go on as freely as the parent.
    let pid = unsafe { libc::fork() };
    match pid {
        0 => Ok(Fork::Child),
        _ => Pid::from_raw(pid).filter(|_| pid > 0).map(Fork::Parent).ok_or_else(io::Error::last_os_error),
    }
}

/// Ends this process at once. Nothing that was registered to run at exit runs: in a forked child it belongs to the parent, and
/// so do the C library's output buffers.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: ends the process; nothing is left that could observe a broken promise.
    unsafe { libc::_exit(status) }
}
