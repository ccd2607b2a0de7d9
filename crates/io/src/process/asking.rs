//! Asks another process which code its apps are running, by a signal that carries a number.
//!
//! The kernel restarts system calls that the signal interrupts, as far as it can (SA_RESTART; signal(7) lists those that it
//! cannot). The signal would end a process that has no handler for it. So [`ask`] first checks that the process has a handler,
//! and that an expected parent has forked the process. The process id may belong to another process by then. So [`ask`] opens a
//! descriptor of the process (a pidfd) before the checks, and sends the signal by that descriptor.
#![allow(unsafe_code)]

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io::{self, Write};
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::AsRawFd;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::Relaxed;

/// The function that the signal handler calls with the number from the signal, on any thread of the process. It may do only
/// what a signal handler may do (signal-safety(7)).
pub type Asked = Box<dyn Fn(u32) + Send + Sync>;

static ASKED: OnceLock<Asked> = OnceLock::new();
/// The id of the process that has called [`hear`]. A child that an app forks inherits the handler but does not answer, because
/// it runs no app of this server.
static PROCESS: AtomicI32 = AtomicI32::new(0);

/// The number of the signal. The server and the hosts of its languages use those before it.
fn signal() -> i32 {
    libc::SIGRTMIN() + 6
}

/// The structure that sigqueue(3) sends: the beginning of the kernel's siginfo_t, with the `_rt` part of its union.
#[repr(C)]
struct Sent {
    signal: libc::c_int,
    error: libc::c_int,
    code: libc::c_int,
    #[cfg(target_pointer_width = "64")]
    padding: libc::c_int,
    process: libc::pid_t,
    user: libc::uid_t,
    number: usize,
    rest: [u8; 96],
}

const _: () = assert!(size_of::<Sent>() <= size_of::<libc::siginfo_t>() && offset_of!(Sent, code) == 8);

/// Installs the signal handler of this process, which calls `asked`. A later call does not replace the function.
///
/// # Errors
/// An error of the system.
pub fn hear(asked: Asked) -> io::Result<()> {
    let _ = ASKED.set(asked);
    PROCESS.store(rustix::process::getpid().as_raw_nonzero().get(), Relaxed);
    // SAFETY: all zeros are a valid action with an empty mask, and the handler does only what a handler may do.
    let status = unsafe {
        let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
        action.sa_sigaction = on_signal as extern "C" fn(libc::c_int, *const libc::siginfo_t, *mut libc::c_void) as usize;
        action.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO;
        libc::sigaction(signal(), &raw const action, null_mut())
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

extern "C" fn on_signal(_signal: libc::c_int, information: *const libc::siginfo_t, _state: *mut libc::c_void) {
    // SAFETY: the kernel passes a siginfo_t, of which only the beginning is read; if another program has sent the signal, the
    // fields are arbitrary numbers. The address of errno is that of this thread, and errno is restored. getpid(2) may be called
    // in a signal handler, and so may `asked`, by its contract.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let sent = &*information.cast::<Sent>();
        if sent.code == libc::SI_QUEUE
            && PROCESS.load(Relaxed) == libc::getpid()
            && let Some(asked) = ASKED.get()
        {
            asked(sent.number as u32);
        }
        *errno = before;
    }
}

/// Sends the question `number` to a process, for its [`Asked`]. Returns `false` if the process has no handler. `process` is the
/// id of the process, and `parents` are the ids of the processes that may have forked it.
///
/// # Errors
/// The process does not exist, none of `parents` has forked it, its status in /proc cannot be read, or it belongs to another
/// user.
pub fn ask(process: u32, parents: &[u32], number: u32) -> io::Result<bool> {
    let gone = || io::Error::from_raw_os_error(libc::ESRCH);
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw).ok_or_else(gone)?;
    let descriptor = pidfd_open(pid, PidfdFlags::empty())?;
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    if !field("PPid:").and_then(|parent| parent.parse().ok()).is_some_and(|parent| parents.contains(&parent)) {
        return Err(gone());
    }
    let caught = field("SigCgt:").and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or_default();
    if caught >> (signal() - 1) & 1 == 0 {
        return Ok(false);
    }
    // SAFETY: all zeros are a valid siginfo_t, the written structure is not larger than that, and the descriptor is open. If
    // the process id already belonged to another process when the status was read, the process of the descriptor has ended, and
    // the signal reaches nobody.
    let sent = unsafe {
        let mut whole: MaybeUninit<libc::siginfo_t> = MaybeUninit::zeroed();
        let sent = &mut *whole.as_mut_ptr().cast::<Sent>();
        (sent.signal, sent.code, sent.number) = (signal(), libc::SI_QUEUE, number as usize);
        (sent.process, sent.user) = (libc::getpid(), libc::getuid());
        libc::syscall(libc::SYS_pidfd_send_signal, descriptor.as_raw_fd(), signal(), whole.as_ptr(), 0)
    };
    if sent == 0 { Ok(true) } else { Err(io::Error::last_os_error()) }
}

/// Whether a thread of this process, given by its thread id, does not run: it waits in a system call, or is stopped for another
/// reason. Also `true` if the system does not say. May be called in a signal handler, and may change errno.
#[must_use]
pub fn waits(thread: i32) -> bool {
    // Formatting numbers allocates nothing. The zero bytes after the text end the path.
    let mut path = [0_u8; 48];
    let _ = write!(&mut path[..47], "/proc/self/task/{thread}/stat");
    let mut text = [0_u8; 512];
    // SAFETY: the path ends with a zero, and no more is read than there is room for. If the file could not be opened, read(2)
    // fails. Only the descriptor that was opened here is closed.
    let size = unsafe {
        let file = libc::open(path.as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC);
        let size = libc::read(file, text.as_mut_ptr().cast(), text.len());
        if file >= 0 {
            libc::close(file);
        }
        size
    };
    let text = &text[..usize::try_from(size).unwrap_or_default()];
    // The state follows the name, which may contain anything between the first and the last parenthesis.
    let end = text.iter().rposition(|byte| *byte == b')');
    end.and_then(|end| text.get(end + 2)) != Some(&b'R')
}

/// The name of a system call in which an app may wait. `None` for any other call.
#[must_use]
pub fn name_of_call(number: i64) -> Option<&'static str> {
    let known = [
        (libc::SYS_read, "read"),
        (libc::SYS_readv, "readv"),
        (libc::SYS_pread64, "pread64"),
        (libc::SYS_write, "write"),
        (libc::SYS_writev, "writev"),
        (libc::SYS_pwrite64, "pwrite64"),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_poll, "poll"),
        (libc::SYS_ppoll, "ppoll"),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_select, "select"),
        (libc::SYS_pselect6, "pselect6"),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_epoll_wait, "epoll_wait"),
        (libc::SYS_epoll_pwait, "epoll_pwait"),
        (libc::SYS_epoll_pwait2, "epoll_pwait2"),
        (libc::SYS_io_uring_enter, "io_uring_enter"),
        (libc::SYS_nanosleep, "nanosleep"),
        (libc::SYS_clock_nanosleep, "clock_nanosleep"),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_pause, "pause"),
        (libc::SYS_rt_sigtimedwait, "rt_sigtimedwait"),
        (libc::SYS_rt_sigsuspend, "rt_sigsuspend"),
        (libc::SYS_futex, "futex"),
        (libc::SYS_flock, "flock"),
        (libc::SYS_fcntl, "fcntl"),
        (libc::SYS_fsync, "fsync"),
        (libc::SYS_fdatasync, "fdatasync"),
        (libc::SYS_wait4, "wait4"),
        (libc::SYS_waitid, "waitid"),
        (libc::SYS_connect, "connect"),
        (libc::SYS_accept, "accept"),
        (libc::SYS_accept4, "accept4"),
        (libc::SYS_recvfrom, "recvfrom"),
        (libc::SYS_recvmsg, "recvmsg"),
        (libc::SYS_sendto, "sendto"),
        (libc::SYS_sendmsg, "sendmsg"),
        (libc::SYS_sendfile, "sendfile"),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_open, "open"),
        (libc::SYS_openat, "openat"),
        (libc::SYS_getrandom, "getrandom"),
        (libc::SYS_semop, "semop"),
        (libc::SYS_msgrcv, "msgrcv"),
        (libc::SYS_ioctl, "ioctl"),
    ];
    known.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;
    use std::time::{Duration, Instant};

    #[test]
    fn a_question_brings_its_number_to_a_process_that_hears_it_and_no_other() {
        static HEARD: AtomicU32 = AtomicU32::new(0);
        let own = std::process::id();
        let parent = rustix::process::getppid().map_or(0, |parent| parent.as_raw_nonzero().get().unsigned_abs());
        let mut child = std::process::Command::new("sleep").arg("600").spawn().expect("sleep is there");
        let deaf = ask(child.id(), &[own], 7).expect("it is a child of this process");
        assert!(!deaf, "it would have been ended by the signal");
        hear(Box::new(|number| HEARD.store(number, Relaxed))).expect("a handler may be set");
        assert!(ask(own, &[parent], 0x8000_0007).expect("it is there"));
        let start = Instant::now();
        while HEARD.load(Relaxed) == 0 {
            assert!(start.elapsed() < Duration::from_secs(60), "it is heard");
            std::thread::yield_now();
        }
        assert_eq!(HEARD.load(Relaxed), 0x8000_0007);
        assert!(ask(own, &[u32::MAX], 8).is_err(), "it is not theirs");
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        assert!(ask(child.id(), &[own], 9).is_err(), "it is gone");
    }

    #[test]
    fn a_thread_waits_or_runs() {
        let own = || rustix::thread::gettid().as_raw_pid();
        assert!(!waits(own()));
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let waiting = std::thread::spawn(move || {
            tell.send(own()).expect("somebody listens");
            stopped.recv()
        });
        let thread = told.recv().expect("it tells");
        let start = Instant::now();
        while !waits(thread) {
            assert!(start.elapsed() < Duration::from_secs(60), "it waits");
            std::thread::yield_now();
        }
        drop(stop);
        let _ = waiting.join();
        assert!(waits(i32::MAX), "there is none");
    }

    #[test]
    fn system_calls_have_names() {
        assert_eq!(name_of_call(libc::SYS_futex), Some("futex"));
        assert_eq!(name_of_call(-1), None);
    }
}
