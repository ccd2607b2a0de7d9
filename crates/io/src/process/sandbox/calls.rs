//! seccomp: restricts the system calls that a process may make (seccomp(2)).
//!
//! The system calls that an edge needs are allowed. The kernel kills the process at once for a call that only code out of
//! control would make. Any other call fails with EPERM, because it may come from a library that has a fallback, or from a later
//! version of the C library.
//!
//! A filter has only two answers, so three filters are installed, and the kernel obeys the strictest of their answers. The
//! kernel determines in advance which calls all filters allow with any arguments, and runs no filter for those calls (Linux
//! 5.11). So the calls that requests need are allowed without conditions.

#![allow(unsafe_code)]

use crate::Model;
use seccompiler::SeccompCmpOp::{Eq, MaskedEq};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
    apply_filter_all_threads,
};
use std::collections::BTreeMap;
use std::env::consts::ARCH;
use std::ffi::{c_int, c_long};
use std::io;

/// Calls that are allowed with any arguments, beside those of the I/O models ([`Model::calls`]).
const ALLOWED: &[c_long] = &[
    // Open descriptors: connections, files, the lines to workers, doorbells.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    // A log that is a pipe is written without blocking.
    libc::SYS_pwritev2,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendfile,
    libc::SYS_accept4,
    libc::SYS_shutdown,
    libc::SYS_close,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_lseek,
    // Frees room on the disk that a response no longer needs.
    libc::SYS_fallocate,
    libc::SYS_memfd_create,
    // Waiting.
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_epoll_ctl,
    libc::SYS_ppoll,
    libc::SYS_timerfd_settime,
    libc::SYS_timer_settime,
    libc::SYS_timer_delete,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_sched_yield,
    libc::SYS_restart_syscall,
    libc::SYS_pidfd_open,
    // Files: Landlock restricts which.
    libc::SYS_openat,
    libc::SYS_openat2,
    // The listings of directories.
    libc::SYS_getdents64,
    libc::SYS_unlinkat,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    // The process's own memory, threads and signals. Pages that it maps or protects are never executable: see `conditional`.
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_sched_getaffinity,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // The first filter refuses this call, so that the C library uses clone(2) instead.
    libc::SYS_clone3,
    // Facts.
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getcpu,
    libc::SYS_sysinfo,
];

/// Further calls on x86_64, where the C library's older functions have their own numbers.
#[cfg(target_arch = "x86_64")]
const ALLOWED_HERE: &[c_long] = &[
    libc::SYS_accept,
    libc::SYS_dup2,
    libc::SYS_epoll_wait,
    libc::SYS_poll,
    libc::SYS_open,
    libc::SYS_unlink,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_HERE: &[c_long] = &[libc::SYS_accept];

/// Calls that end the process: no edge needs them, and no library makes them by itself.
const FATAL: &[c_long] = &[
    // Other programs.
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_memfd_secret,
    libc::SYS_userfaultfd,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_kcmp,
    // Rings of io_uring, and files, by ways that this sandbox does not cover.
    libc::SYS_io_uring_setup,
    libc::SYS_open_by_handle_at,
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_unshare,
    // Other rights.
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    libc::SYS_setgroups,
    libc::SYS_capset,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // The kernel itself.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_acct,
    libc::SYS_quotactl,
];

#[cfg(target_arch = "x86_64")]
const FATAL_HERE: &[c_long] =
    &[libc::SYS_fork, libc::SYS_vfork, libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt, libc::SYS_kexec_file_load];
#[cfg(not(target_arch = "x86_64"))]
const FATAL_HERE: &[c_long] = &[];

/// The kind of a socket without its flags (`SOCK_TYPE_MASK` of the kernel).
const KIND_OF_SOCKET: u64 = 0xf;

/// Returns alternative conditions: an argument, a C int, has one of `values`. Arguments are counted from 0.
fn one_of(argument: u8, values: &[c_int]) -> Vec<Vec<SeccompCondition>> {
    values.iter().map(|value| vec![is(argument, *value as u32)]).collect()
}

fn is(argument: u8, value: u32) -> SeccompCondition {
    condition(argument, Eq, value.into())
}

/// Returns the condition that the bits of `mask` in an argument are those of `value`.
fn has(argument: u8, mask: u64, value: u64) -> SeccompCondition {
    condition(argument, MaskedEq(mask), value)
}

fn condition(argument: u8, operator: seccompiler::SeccompCmpOp, value: u64) -> SeccompCondition {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value).expect("no call has more than six arguments")
}

/// The request of ioctl(2) for the number of bytes that wait in a pipe.
#[allow(clippy::unnecessary_cast, reason = "the type differs between C libraries")]
const FIONREAD: u64 = libc::FIONREAD as u64;

/// Returns the calls that are allowed only with certain arguments. Each has alternative lists of conditions: all conditions of
/// one list must be met. `process` is the process id of the edge.
fn conditional(process: u32) -> Vec<(c_long, Vec<Vec<SeccompCondition>>)> {
    let not_executable = || vec![vec![has(2, libc::PROT_EXEC as u64, 0)]];
    let prctl = [libc::PR_SET_NAME, libc::PR_GET_NAME, libc::PR_SET_VMA];
    let fcntl = [
        libc::F_DUPFD,
        libc::F_DUPFD_CLOEXEC,
        libc::F_GETFD,
        libc::F_SETFD,
        libc::F_GETFL,
        libc::F_SETFL,
        libc::F_ADD_SEALS,
        libc::F_GET_SEALS,
        // For logs: the room of a pipe.
        libc::F_GETPIPE_SZ,
    ];
    let pair = |kind: c_int| vec![is(0, libc::AF_UNIX as u32), has(1, KIND_OF_SOCKET, kind as u64)];
    let thread = libc::CLONE_THREAD as u64;
    let requests = Model::ALL.iter().flat_map(|model| model.requests().iter().copied()).chain([FIONREAD]);
    vec![
        (libc::SYS_mmap, not_executable()),
        (libc::SYS_mprotect, not_executable()),
        // Threads, for an app that uses a socket itself; never a process.
        (libc::SYS_clone, vec![vec![has(0, thread, thread)]]),
        // Not SOCK_DGRAM: a datagram from such a pair could be sent to any socket.
        (libc::SYS_socketpair, vec![pair(libc::SOCK_STREAM), pair(libc::SOCK_SEQPACKET)]),
        // Not F_SETOWN: the owner of a descriptor gets signals.
        (libc::SYS_fcntl, one_of(1, &fcntl)),
        (libc::SYS_ioctl, requests.map(|request| vec![has(1, u32::MAX.into(), request)]).collect()),
        (libc::SYS_prctl, prctl.iter().map(|option| vec![is(0, *option as u32)]).collect()),
        // For abort(3): the process sends a signal to itself.
        (libc::SYS_tgkill, vec![vec![is(0, process)]]),
        // Checks whether a process exists, on a kernel without pidfds.
        (libc::SYS_kill, vec![vec![is(1, 0)]]),
        // Reads a limit, but does not set it.
        (libc::SYS_prlimit64, vec![vec![SeccompCondition::new(2, SeccompCmpArgLen::Qword, Eq, 0).expect("it has four")]]),
    ]
}

type Rules = BTreeMap<c_long, Vec<SeccompRule>>;

fn whatever(calls: &[c_long]) -> Rules {
    calls.iter().map(|call| (*call, Vec::new())).collect()
}

/// Builds the filters, for the process with this id.
fn filters(process: u32) -> Result<[BpfProgram; 3], seccompiler::BackendError> {
    let filter = |rules: Rules, for_others: SeccompAction, for_these: SeccompAction| {
        SeccompFilter::new(rules, for_others, for_these, TargetArch::try_from(ARCH)?)?.try_into()
    };
    let refused = |error: c_int| SeccompAction::Errno(error as u32);
    let mut allowed = whatever(&[ALLOWED, ALLOWED_HERE].concat());
    // The filter does not depend on the settings: it allows the calls of all models.
    allowed.extend(Model::ALL.iter().flat_map(|model| whatever(model.calls())));
    // An empty list would allow the call with any arguments.
    for (call, alternatives) in conditional(process).into_iter().filter(|(_, alternatives)| !alternatives.is_empty()) {
        allowed.insert(call, alternatives.into_iter().map(SeccompRule::new).collect::<Result<_, _>>()?);
    }
    let mut fatal = whatever(&[FATAL, FATAL_HERE].concat());
    let process_not_thread = SeccompRule::new(vec![has(0, libc::CLONE_THREAD as u64, 0)])?;
    fatal.insert(libc::SYS_clone, vec![process_not_thread]);
    Ok([
        // The arguments of clone3(2) are in memory, which no filter can read. After ENOSYS the C library uses clone(2).
        filter(whatever(&[libc::SYS_clone3]), SeccompAction::Allow, refused(libc::ENOSYS))?,
        filter(fatal, SeccompAction::Allow, SeccompAction::KillProcess)?,
        // The last, because it forbids to install another filter.
        filter(allowed, refused(libc::EPERM), SeccompAction::Allow)?,
    ])
}

/// Checks that the kernel can filter system calls and kill a process for a call.
///
/// # Errors
/// The kernel cannot, or the filters cannot be built for this kind of processor.
pub(super) fn are_filtered() -> io::Result<()> {
    filters(0).map_err(io::Error::other)?;
    let action = libc::SECCOMP_RET_KILL_PROCESS;
    // SAFETY: the call reads one number.
    let known = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0u32, &raw const action) };
    if known == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Forbids all threads of this process, and the processes that they start, every call except those of an edge.
///
/// # Errors
/// An error of the system.
pub(super) fn confine() -> io::Result<()> {
    let filters = filters(std::process::id()).map_err(io::Error::other)?;
    filters.iter().try_for_each(|filter| apply_filter_all_threads(filter).map_err(io::Error::other))
}
