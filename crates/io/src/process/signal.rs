//! Signals turned into numbers that a loop can look at.
#![allow(unsafe_code)]

use super::LastResort;
use rustix::process::{Pid, Signal};
use signal_hook_registry::{SigId, register, unregister};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32};

/// What a signal does to its cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Adds one.
    Count,
    /// Replaces one value by another; leaves every other value alone.
    Exchange {
        /// The value to replace.
        from: u32,
        /// The value to put in its place.
        to: u32,
    },
    /// Leaves it alone: the signal is not for this process, but it may be for its children.
    Nothing,
}

/// A signal being watched; dropped, the signal does nothing any more (its default action does not come back).
#[derive(Debug)]
pub struct Watch(SigId);

impl Drop for Watch {
    fn drop(&mut self) {
        unregister(self.0);
    }
}

/// From now on `signal` has its `effect` on `cell`, and then a byte is written to each of `wake`: non-blocking write ends of
/// pipes, where a full pipe is as good as a written byte; and `last_resort` is started.
///
/// Interrupted system calls are restarted. All that is for this process alone. In a child that it forks, the signal has the default
/// action again if it had that here before, unless it is forked while there are [`Heirs`]; programs that are executed get the
/// default action in any case.
///
/// # Errors
/// The system's refusal.
pub fn watch(
    signal: Signal,
    cell: &'static AtomicU32,
    effect: Effect,
    wake: Vec<OwnedFd>,
    last_resort: Option<LastResort>,
) -> io::Result<Watch> {
    let (process, was_default) = (rustix::process::getpid(), had_default_action(signal)?);
    let action = move || {
        if is_strangers(process) {
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
                // Failing means that another value stands there, which is to be left alone.
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
    // SAFETY: the action only looks at and touches atomics, makes the system calls getpid and write, sets a signal's action, raises a
    // signal and starts a timer, all of which a signal handler may do. It allocates nothing, takes no lock, cannot panic, and leaves
    // errno alone: rustix calls the kernel without libc, and what is done through libc sees to errno itself.
    unsafe { register(signal.as_raw(), action) }.map(Watch)
}

/// Whether the next fork makes a process that goes on in place of this one and watches signals for itself.
static HEIRS: AtomicBool = AtomicBool::new(false);

/// While there is one, children that are forked have the watches of this process, for as long as they keep their own copy of it:
/// until such a child has set its own, no signal may end it that would not end its parent.
#[derive(Debug)]
pub struct Heirs(());

impl Heirs {
    /// From now on.
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

/// Whether a handler that `process` has set runs in a child that something else than the server forked: an app. It must not speak
/// for its parent through the memory and the pipes that they share.
fn is_strangers(process: Pid) -> bool {
    rustix::process::getpid() != process && !HEIRS.load(Relaxed)
}

/// The signals that had the default action before they were watched for the first time, a bit for each.
static BY_DEFAULT: AtomicU32 = AtomicU32::new(0);
/// Those that have been watched, a bit for each.
static SEEN: AtomicU32 = AtomicU32::new(0);

/// Whether `signal` had the default action before it was watched for the first time.
fn had_default_action(signal: Signal) -> io::Result<bool> {
    // Signals that are watched here are below 32.
    let bit = 1_u32.checked_shl(signal.as_raw().unsigned_abs()).ok_or(io::ErrorKind::InvalidInput)?;
    if SEEN.fetch_or(bit, SeqCst) & bit == 0 {
        let mut present = MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: no new action is given, and the pointer is good for the length of the call, which writes the present one if it
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

/// In a signal's handler: has the default action come as soon as the handler is left, and at each later signal.
fn act_by_default(signal: Signal) {
    // SAFETY: all zeros are the default action without flags and with an empty mask; the pointer is good for the length of the call.
    // Both functions may be called in signal handlers (signal-safety(7)), and errno is what it was before.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        libc::sigaction(signal.as_raw(), &raw const action, std::ptr::null_mut());
        // It is blocked while its handler runs.
        libc::raise(signal.as_raw());
        *errno = before;
    }
}
