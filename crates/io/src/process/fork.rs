//! Forks and ends processes.
#![allow(unsafe_code)]

use rustix::io::retry_on_intr;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The process that a [`fork`] returns in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fork {
    /// The new process.
    Child,
    /// The calling process, and its new child.
    Parent(Pid),
}

impl Fork {
    /// Converts the return value of a successful fork(2): 0 in the child, the child's process id in the parent.
    #[must_use]
    pub fn from_return(pid: u32) -> Self {
        i32::try_from(pid).ok().and_then(Pid::from_raw).map_or(Self::Child, Self::Parent)
    }
}

/// Forks this process.
///
/// # Errors
/// An error of the system, or this process has several threads: in the child, locks held by the other threads (the allocator's,
/// the language runtime's) would stay locked for ever.
pub fn fork() -> io::Result<Fork> {
    check_threads()?;
    // SAFETY: the calling thread is the only one, as was just counted, and only it could start another. So the child has every
    // thread that the parent has, and may do everything that the parent may.
    let pid = unsafe { libc::fork() };
    match pid {
        0 => Ok(Fork::Child),
        _ => Pid::from_raw(pid).filter(|_| pid > 0).map(Fork::Parent).ok_or_else(io::Error::last_os_error),
    }
}

/// Fails if this process has several threads.
fn check_threads() -> io::Result<()> {
    let threads = std::fs::read_dir("/proc/self/task")
        .map_err(|error| io::Error::new(error.kind(), format!("cannot count threads in /proc/self/task: {error}")))?
        .count();
    if threads != 1 {
        let message = format!("this process has {threads} threads; one that forks must have a single one");
        return Err(io::Error::other(message));
    }
    Ok(())
}

/// Starts a program as a child of this process's parent, which gets the signal of its end and its exit status.
///
/// # Errors
/// An error of the system, the program cannot be run, or this process has several threads, as for [`fork`].
pub fn spawn_sibling(command: &mut Command) -> io::Result<Pid> {
    check_threads()?;
    let (failures, failed) = pipe_with(PipeFlags::CLOEXEC)?;
    // SAFETY: without a new stack or shared memory, clone(2) is fork(2), for which the calling thread is the only one, as was just
    // counted. The child does nothing but to run the program, or to end.
    let pid = unsafe { libc::syscall(libc::SYS_clone, libc::CLONE_PARENT | libc::SIGCHLD, 0_usize, 0_usize, 0_usize, 0_usize) };
    if pid == 0 {
        let error = command.exec();
        // If the parent cannot be told, the end of this process tells it.
        let _ = rustix::io::write(&failed, &error.raw_os_error().unwrap_or(libc::EINVAL).to_ne_bytes());
        exit_now(127);
    }
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).filter(|_| pid > 0).ok_or_else(io::Error::last_os_error)?;
    drop(failed);
    let mut number = [0; 4];
    match retry_on_intr(|| rustix::io::read(&failures, &mut number))? {
        4 => Err(io::Error::from_raw_os_error(i32::from_ne_bytes(number))),
        // The program runs, and so the other end has closed.
        _ => Ok(pid),
    }
}

/// Ends this process at once. Exit handlers do not run and the C library's output buffers are not written: in a forked child
/// both belong to the parent.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: the call ends the process, so nothing can observe a broken invariant.
    unsafe { libc::_exit(status) }
}
