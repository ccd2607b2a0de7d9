//! Turns signals into numbers that a loop can read.
#![allow(unsafe_code)]

use super::{LastResort, exit_now};
use rustix::process::{Pid, Signal};
use signal_hook_registry::{SigId, register, unregister};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32};

/// The effect of a signal on its cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Adds one.
    Count,
    /// Replaces one value by another; does not change any other value.
    Exchange {
        /// The value to replace.
        from: u32,
        /// The value to put in its place.
        to: u32,
    },
    /// Does nothing: the signal is not for this process, but it may be for its children.
    Nothing,
}

/// A signal that is watched. After this is dropped, the signal does nothing (its default action does not come back).
#[derive(Debug)]
pub struct Watch(SigId);

impl Drop for Watch {
    fn drop(&mut self) {
        unregister(self.0);
    }
}

/// Installs a handler for `signal` and unblocks the signal in this thread. At each signal, the handler applies `effect` to
/// `cell`, writes a byte to each pipe of `wake`, and starts `last_resort`. The pipes are given by their non-blocking write
/// ends; a pipe that is full wakes its reader anyway.
///
/// The kernel restarts system calls that the signal interrupts. The handler acts only in this process, and in children that
/// were forked with [`Heirs`]. In other forked children the signal does nothing, or has its default action again if it had that
/// before it was first watched here. Programs that are executed always get the default action.
///
/// # Errors
/// An error of the system.
pub fn watch(
    signal: Signal,
    cell: &'static AtomicU32,
    effect: Effect,
    wake: Vec<OwnedFd>,
    last_resort: Option<LastResort>,
) -> io::Result<Watch> {
    let (process, was_default) = (rustix::process::getpid(), had_default_action(signal)?);
    LOADER.store(LOADED, SeqCst);
    let action = move || {
        if runs_in_child_of_app(process) {
            if was_default {
                act_by_default(signal);
            }
            return;
        }
        match effect {
            Effect::Count => {
                cell.fetch_add(1, SeqCst);
            }
            Effect::Exchange { from, to } => {
                // If this fails, the cell holds another value, which must not be changed.
                let _ = cell.compare_exchange(from, to, SeqCst, SeqCst);
            }
            Effect::Nothing => {}
        }
        for pipe in &wake {
            let _ = rustix::io::write(pipe, &[0]);
        }
        if let Some(last_resort) = &last_resort {
            last_resort.start();
        }
    };
    // SAFETY: the action only touches atomics, makes the system calls getpid and write, sets a signal's action, raises a signal
    // and starts a timer, all of which a signal handler may do. It allocates nothing, takes no lock, cannot panic, and
    // preserves errno: rustix calls the kernel without libc, and the code that uses libc restores errno itself.
    let watch = unsafe { register(signal.as_raw(), action) }.map(Watch)?;
    unblock(signal.as_raw())?;
    Ok(watch)
}

/// Unblocks a signal in this thread. The parent of this program, or the app, may have blocked it.
pub(super) fn unblock(signal: i32) -> io::Result<()> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the pointers are valid for the calls; the first one initializes the set, and the last one does not store the
    // earlier mask. The calls fail only for numbers that are not signals.
    let error = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), std::ptr::null_mut())
    };
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

/// Whether a child that is forked now takes over the watches of this process: see [`Heirs`].
static HEIRS: AtomicBool = AtomicBool::new(false);

/// While a value of this type exists, a child that is forked handles signals as this process does, until the child drops its
/// copy of the value. So until the child has installed its own watches, no signal ends it that would not end its parent.
#[derive(Debug)]
pub struct Heirs(());

impl Heirs {
    /// Starts this state.
    #[must_use]
    pub fn begin() -> Self {
        HEIRS.store(true, Relaxed);
        Self(())
    }
}

impl Drop for Heirs {
    fn drop(&mut self) {
        HEIRS.store(false, Relaxed);
    }
}

/// Whether this handler, which `process` has installed, runs in a child that an app forked, and not the server. Such a child
/// shares memory and pipes with `process`, but must not act on them in its place.
fn runs_in_child_of_app(process: Pid) -> bool {
    rustix::process::getpid() != process && !HEIRS.load(Relaxed)
}

/// The signals that had the default action before they were first watched, one bit each.
static BY_DEFAULT: AtomicU32 = AtomicU32::new(0);
/// The signals that have been watched, one bit each.
static SEEN: AtomicU32 = AtomicU32::new(0);

/// Whether `signal` had the default action before it was first watched.
fn had_default_action(signal: Signal) -> io::Result<bool> {
    // All signals that are watched here are below 32.
    let bit = 1_u32.checked_shl(signal.as_raw().unsigned_abs()).ok_or(io::ErrorKind::InvalidInput)?;
    if SEEN.fetch_or(bit, SeqCst) & bit == 0 {
        let mut present = MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: no new action is given, and the pointer is valid for the call, which writes the current action if it
        // succeeds.
        let handler = unsafe {
            if libc::sigaction(signal.as_raw(), std::ptr::null(), present.as_mut_ptr()) != 0 {
                return Err(io::Error::last_os_error());
            }
            present.assume_init().sa_sigaction
        };
        if handler == libc::SIG_DFL {
            BY_DEFAULT.fetch_or(bit, SeqCst);
        }
    }
    Ok(BY_DEFAULT.load(SeqCst) & bit != 0)
}

/// The id of the process that has called [`survive_failing_writes_while_loading`] or [`end_when_told_while_loading`]; 0 before,
/// and [`LOADED`] later.
static LOADER: AtomicI32 = AtomicI32::new(0);

/// The value of [`LOADER`] after the first call of [`watch`]: from then on the handlers that it has installed decide.
const LOADED: i32 = -1;

/// The signals that accompany an error of a write: the reader has gone, or a file has reached its limit (RLIMIT_FSIZE).
pub const OF_WRITES: [Signal; 2] = [Signal::PIPE, Signal::XFSZ];

/// Makes the signals of [`OF_WRITES`] do nothing in this process from now on, unless an action is set for them already. It is
/// for the time before the signals are watched, in which an app is loaded and may write to a log. Children get the default
/// action.
///
/// # Errors
/// An error of the system.
pub fn survive_failing_writes_while_loading() -> io::Result<()> {
    OF_WRITES.into_iter().try_for_each(handle_while_loading)
}

/// Unblocks all signals, and sets the default action of SIGCHLD: the parent of this process may have blocked or ignored them,
/// but servers and apps need signals, and a process that ignores SIGCHLD gets no exit statuses of its children.
///
/// # Errors
/// An error of the system.
pub fn reset_signals() -> io::Result<()> {
    // SAFETY: all zeros are the default action without flags and with an empty mask; the pointers are valid for the calls,
    // the first of which initializes the set. Nothing else in this process has set an action yet, or relies on a blocked
    // signal.
    unsafe {
        let action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        if libc::sigaction(libc::SIGCHLD, &raw const action, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        match libc::pthread_sigmask(libc::SIG_SETMASK, set.as_ptr(), std::ptr::null_mut()) {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}

/// Makes TERM, INT and QUIT end this process from now on even if it is process 1, for which their default action is to do
/// nothing (pid_namespaces(7)). It is for the time before the signals are watched. Children get the default action.
///
/// # Errors
/// An error of the system.
pub fn end_when_told_while_loading() -> io::Result<()> {
    if !rustix::process::getpid().is_init() {
        return Ok(());
    }
    [Signal::TERM, Signal::INT, Signal::QUIT].into_iter().try_for_each(handle_while_loading)
}

fn handle_while_loading(signal: Signal) -> io::Result<()> {
    let process = rustix::process::getpid().as_raw_nonzero().get();
    let loads = LOADER.compare_exchange(0, process, SeqCst, SeqCst).map_or_else(|loader| loader == process, |_| true);
    if !loads || !had_default_action(signal)? {
        return Ok(());
    }
    // SAFETY: all zeros and a handler are a valid action; the pointer is valid for the call. The handler only reads an atomic,
    // asks for the process id, and may end the process or set a signal's action and raise the signal, all of which a signal
    // handler may do.
    let outcome = unsafe {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        action.sa_sigaction = act_while_loading as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(signal.as_raw(), &raw const action, std::ptr::null_mut())
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

extern "C" fn act_while_loading(signal: libc::c_int) {
    let loader = LOADER.load(SeqCst);
    if loader == LOADED {
        return;
    }
    if loader != rustix::process::getpid().as_raw_nonzero().get() {
        Signal::from_named_raw(signal).into_iter().for_each(act_by_default);
    } else if !OF_WRITES.iter().any(|known| known.as_raw() == signal) {
        // The exit status that a shell reports for a process that a signal has ended.
        exit_now(128 + signal);
    }
}

/// Triggers the default action as soon as the handler that calls this returns, and at each later signal.
fn act_by_default(signal: Signal) {
    // SAFETY: all zeros are the default action without flags and with an empty mask; the pointer is valid for the call. Both
    // functions may be called in signal handlers (signal-safety(7)), and errno is restored.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        libc::sigaction(signal.as_raw(), &raw const action, std::ptr::null_mut());
        // The signal is blocked while its handler runs.
        libc::raise(signal.as_raw());
        *errno = before;
    }
}
